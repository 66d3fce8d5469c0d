//! Plan mode: what a controller would do, on both servers, without doing it.

use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt as _};
use windlass_indexer::ObjectKey;
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{
    Action, Cause, Controller, ControllerBuilder, Effect, Error, InPlan, Plan, Reconcile,
    RunContext, RunError, Watch,
};
use windlass_testserver::{TestServer, on_each_server};

use crate::stage::does;

/// Changes what it is given as its data says.
struct Editor;

impl Reconcile<ConfigMap> for Editor {
    async fn reconcile(&self, map: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        assert!(cx.is_plan());
        let causes = cx.causes();
        assert!(!causes.contains(&Cause::Timer), "no timer was set: {causes:?}");
        let order = map.data.as_ref().and_then(|data| data.get("do"));
        let live = cx.live::<ConfigMap>();
        let mut other = ConfigMap::default();
        other.metadata.namespace = map.namespace();
        match order.map_or("", String::as_str) {
            "create" => {
                other.metadata.name = Some("new".into());
                live.apply_owned(other, &*map).await?;
            }
            "change" => {
                let mut changed = ConfigMap::clone(&map);
                let data = changed.data.get_or_insert_default();
                data.insert("do".into(), "nothing".into());
                data.insert("more".into(), "1".into());
                live.update(&*map, &changed).await?;
                cx.event(&*map).normal("Changed", "it was changed");
            }
            "delete" => drop(live.delete(&*map).await?),
            "fail" => return Err(Error::msg("out of order")),
            _ => drop(live.update(&*map, &ConfigMap::clone(&map)).await?),
        }
        Ok(Action::requeue_after(std::time::Duration::from_secs(1)))
    }
}

fn map(name: &str, order: &str) -> ConfigMap {
    let data = Some([("do".to_owned(), order.to_owned())].into());
    let mut map = ConfigMap { data, ..ConfigMap::default() };
    map.metadata.name = Some(name.into());
    map
}

/// Controls the maps of one namespace that have an order.
fn builder(namespace: &str) -> ControllerBuilder<ConfigMap> {
    let namespace = namespace.to_owned();
    let watch = Watch::<ConfigMap>::new().options(move |options| options.namespace(&namespace));
    Controller::named("editor", watch).in_plan(InPlan::Run)
}

async fn plan_of(client: &Client, namespace: &str, reconciler: impl Reconcile<ConfigMap>) -> Plan {
    let factory = SharedInformerFactory::new(client.clone());
    let controller = builder(namespace).build(&factory, reconciler).expect("a controller");
    let plan = controller.plan().await.expect("a plan");
    factory.shut_down().await;
    plan
}

async fn setup(cluster: &TestServer, maps: &[ConfigMap]) -> (Client, String) {
    let client = cluster.client().expect("a client");
    let namespace = cluster.namespace("plan-").await.expect("a namespace");
    let api = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    for map in maps {
        api.create(&PostParams::default(), map).await.expect("created");
    }
    (client, namespace)
}

/// The resources of everything in a namespace, with versions.
async fn everything(client: &Client, namespace: &str) -> Vec<String> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let maps = maps.list(&ListParams::default()).await.expect("a list").items;
    let events = events.list(&ListParams::default()).await.expect("a list").items;
    let version = |object: &dyn Fn() -> (String, Option<String>)| format!("{:?}", object());
    let maps = maps.iter().map(|map| version(&|| (map.name_any(), map.resource_version())));
    maps.chain(events.iter().map(|event| version(&|| (event.name_any(), None)))).collect()
}

on_each_server!(plan_shows_each_difference_and_changes_nothing);
async fn plan_shows_each_difference_and_changes_nothing(cluster: TestServer) {
    let maps = [
        map("a", "create"),
        map("b", "change"),
        map("c", "delete"),
        map("d", "fail"),
        map("e", "nothing"),
    ];
    let (client, namespace) = setup(&cluster, &maps).await;
    let before = everything(&client, &namespace).await;

    let plan = plan_of(&client, &namespace, Editor).await;
    assert_eq!(everything(&client, &namespace).await, before);

    let text = plan.to_string().replace(&format!("{namespace}/"), "");
    // A real cluster has one more, the certificate of its authority.
    let lines: Vec<_> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "  a",
            "    + configmaps new",
            "  b",
            "    ~ configmaps b",
            r#"        data.do: "change" -> "nothing""#,
            r#"        data.more: "1" is added"#,
            "  c",
            "    - configmaps c",
            "  d",
            "    ! failed, so it might write more: out of order",
        ]
    );
    assert!(text.contains("5 runs, 3 would write, 1 failed") || plan.runs_total == 6, "{text}");
    assert_eq!(plan.failed(), 1);
    let json = serde_json::to_value(&plan).expect("JSON");
    assert_eq!(json["runs"][1]["writes"][0]["effect"], "change");
    assert_eq!(json["runs"][1]["writes"][0]["fields"][0]["path"], "data.do");
}

on_each_server!(plan_hides_the_content_of_secrets);
async fn plan_hides_the_content_of_secrets(cluster: TestServer) {
    let (client, namespace) = setup(&cluster, &[map("a", "")]).await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let data = |text: &str| Some([("password".to_owned(), ByteString(text.into()))].into());
    let mut secret = Secret { data: data("hunter2"), ..Secret::default() };
    secret.metadata.name = Some("login".into());
    secrets.create(&PostParams::default(), &secret).await.expect("created");

    let rotates = does(move |map: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let namespace = map.namespace().expect("a namespace");
            let key = ObjectKey::namespaced(&namespace, "login");
            let live = cx.live::<Secret>();
            let old = live.get(&key).await?.ok_or_else(|| Error::msg("no secret"))?;
            let mut new = old.clone();
            new.data = Some([("password".to_owned(), ByteString("horse".into()))].into());
            live.update(&old, &new).await?;
            Ok(Action::done())
        })
    });
    let plan = plan_of(&client, &namespace, rotates).await;
    let shown = format!("{plan}{plan:?}{}", serde_json::to_string(&plan).expect("JSON"));
    assert!(shown.contains("data.password"), "{shown}");
    for text in ["aHVudGVyMg", "aG9yc2U", "hunter2", "horse"] {
        assert!(!shown.contains(text), "{shown}");
    }
}

on_each_server!(refused_write_is_a_failed_run_of_the_plan);
async fn refused_write_is_a_failed_run_of_the_plan(cluster: TestServer) {
    let (client, namespace) = setup(&cluster, &[map("a", "")]).await;
    let misnames = does(move |map: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let mut wrong = ConfigMap::default();
            wrong.metadata.name = Some("Not A Name".into());
            wrong.metadata.namespace = map.namespace();
            cx.live().create(&wrong).await?;
            Ok(Action::done())
        })
    });
    let plan = plan_of(&client, &namespace, misnames).await;
    assert!(plan.writes().next().is_none());
    assert!(plan.runs[0].error.as_ref().is_some_and(|error| error.contains("Not A Name")));
}

on_each_server!(create_with_a_generated_name_has_no_key);
async fn create_with_a_generated_name_has_no_key(cluster: TestServer) {
    let (client, namespace) = setup(&cluster, &[map("a", "")]).await;
    let creates = does(move |map: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let mut new = ConfigMap::default();
            new.metadata.generate_name = Some("new-".into());
            new.metadata.namespace = map.namespace();
            cx.live().create(&new).await?;
            Ok(Action::done())
        })
    });
    let plan = plan_of(&client, &namespace, creates).await;
    let write = plan.writes().next().expect("a write");
    assert_eq!((&write.key, &write.effect), (&None, &Effect::Create));
}

#[tokio::test]
async fn controller_that_has_not_said_what_it_does_is_refused() {
    let cluster = TestServer::embedded();
    let factory = SharedInformerFactory::new(cluster.client().expect("a client"));
    let controller =
        Controller::named("configmap", Watch::<ConfigMap>::new()).build(&factory, Editor);
    let refused = controller.expect("a controller").plan().await.expect_err("not declared");
    assert!(matches!(refused, RunError::NotInPlan));
    assert!(refused.to_string().contains(".in_plan(InPlan::Run)"), "{refused}");

    let builder = Controller::named("configmap", Watch::<ConfigMap>::new()).in_plan(InPlan::Skip);
    let plan = builder.build(&factory, Editor).expect("a controller").plan().await.expect("a plan");
    assert!(plan.is_skipped && plan.is_empty());
    factory.shut_down().await;
}

#[tokio::test]
async fn controller_cannot_run_after_its_plan() {
    let cluster = TestServer::embedded();
    let factory = SharedInformerFactory::new(cluster.client().expect("a client"));
    let controller = builder("default").build(&factory, Editor).expect("a controller");
    controller.plan().await.expect("a plan");
    let stop = tokio_util::sync::CancellationToken::new();
    assert!(matches!(controller.run(stop).await, Err(RunError::AlreadyRuns)));
    assert!(matches!(controller.plan().await, Err(RunError::AlreadyRuns)));
    factory.shut_down().await;
}
