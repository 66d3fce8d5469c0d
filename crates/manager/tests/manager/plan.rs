//! `--plan`: what an operator would do to a cluster.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use kube::client::Body;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt as _, service_fn};
use windlass_informer::ClientStack;
use windlass_manager::{Manager, ManagerError, Options, PlanFormat, TaskContext};
use windlass_reconciler::{
    Action, Controller, ControllerBuilder, Error, InPlan, Reconcile, RunContext, install_crd,
    reconcile_fn,
};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule};

/// Labels every `ConfigMap`, or fails.
struct Labeler {
    is_broken: bool,
}

impl Reconcile<ConfigMap> for Labeler {
    async fn reconcile(&self, map: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        if self.is_broken {
            return Err(Error::msg("no labels left"));
        }
        let mut new = ConfigMap::clone(&map);
        new.metadata.labels.get_or_insert_default().insert("seen".into(), "yes".into());
        cx.live().update(&*map, &new).await?;
        Ok(Action::done())
    }
}

fn labeler() -> ControllerBuilder<ConfigMap> {
    Controller::named("labeler", windlass_reconciler::Watch::<ConfigMap>::new())
}

async fn server() -> (ApiServer, Client) {
    let server = ApiServer::new();
    let client = ClientStack::new().around(server.service(), "default");
    let mut map = ConfigMap::default();
    map.metadata.name = Some("one".into());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    maps.create(&PostParams::default(), &map).await.expect("created");
    (server, client)
}

fn manager(server: &ApiServer) -> Manager {
    let own = server.clone();
    Manager::new(Options::default().without_http())
        .without_logs()
        .connect(move |stack| Ok(stack.around(own.service(), "default")))
}

fn definition(description: &str) -> CustomResourceDefinition {
    let schema = json!({"type": "object", "description": description});
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    }))
    .expect("a definition")
}

/// The versions of all `ConfigMaps`, and the number of Leases.
async fn state(client: &Client) -> (Vec<Option<String>>, usize) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let maps = maps.list(&ListParams::default()).await.expect("a list").items;
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let leases = leases.list(&ListParams::default()).await.expect("a list").items.len();
    (maps.into_iter().map(|map| map.metadata.resource_version).collect(), leases)
}

#[tokio::test(start_paused = true)]
async fn plan_has_definitions_controllers_and_tasks_and_changes_nothing() {
    let (server, client) = server().await;
    install_crd(&client, &definition("old")).await.expect("installed");
    let before = state(&client).await;
    let plan = manager(&server)
        .leader_election("operator")
        .install(definition("new"))
        .controller(labeler().in_plan(InPlan::Run), Labeler { is_broken: false })
        .controller(
            Controller::named("other", windlass_reconciler::Watch::<ConfigMap>::new())
                .in_plan(InPlan::Skip),
            Labeler { is_broken: true },
        )
        .task("sweep", |_: TaskContext| async { Err::<(), _>("it must not run") })
        .plan()
        .await
        .expect("a plan");
    assert_eq!(
        plan.to_string(),
        "definitions\n    \
             ~ customresourcedefinitions.apiextensions.k8s.io shops.example.com\n        \
                 spec.versions[v1].schema.openAPIV3Schema.description: \"old\" -> \"new\"\n\
         controller labeler: 1 runs, 1 would write\n  \
           default/one\n    \
             ~ configmaps default/one\n        \
                 metadata.labels: {\"seen\":\"yes\"} is added\n\
         controller other: left out, because it is InPlan::Skip\n\
         task sweep: left out\n\
         2 writes planned. Nothing was changed.\n"
    );
    assert!(!plan.is_empty());
    assert_eq!(state(&client).await, before, "nothing is written, and no Lease is taken");
}

/// It is the definition that is written, which is planned first.
#[tokio::test(start_paused = true)]
async fn server_that_ignores_dry_runs_stops_the_plan_of_the_operator() {
    let (server, client) = server().await;
    install_crd(&client, &definition("old")).await.expect("installed");
    let before = state(&client).await;
    let own = server.clone();
    let careless = service_fn(move |mut request: Request<Body>| {
        let uri = request.uri().to_string().replace("dryRun=All", "");
        *request.uri_mut() = uri.parse().expect("a URI");
        own.service().oneshot(request)
    });
    let planned = Manager::new(Options::default().without_http())
        .without_logs()
        .connect(move |stack| Ok(stack.around(careless.clone(), "default")))
        .install(definition("new"))
        .controller(labeler().in_plan(InPlan::Run), Labeler { is_broken: false });
    let error = planned.plan().await.expect_err("the plan stops");
    let ManagerError::DryRunIgnored(ignored) = error else { panic!("{error}") };
    let wanted = "patch customresourcedefinitions.apiextensions.k8s.io shops.example.com";
    assert_eq!(ignored.request, wanted);
    assert_eq!(state(&client).await, before, "no controller has run");
}

#[tokio::test(start_paused = true)]
async fn option_plan_ends_the_program_after_the_plan() {
    let (server, client) = server().await;
    let before = state(&client).await;
    let planned = manager(&server)
        .change_options(|options| options.plan = Some(PlanFormat::Json))
        .controller(labeler().in_plan(InPlan::Run), Labeler { is_broken: false });
    planned.run_until(CancellationToken::new()).await.expect("it ends by itself");
    assert_eq!(state(&client).await, before);

    let incomplete = manager(&server)
        .change_options(|options| options.plan = Some(PlanFormat::Text))
        .controller(labeler().in_plan(InPlan::Run), Labeler { is_broken: true });
    let error = incomplete.run_until(CancellationToken::new()).await.expect_err("a run failed");
    assert!(matches!(error, ManagerError::PlanIncomplete { failed: 1 }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn controller_that_has_not_said_what_it_does_is_named() {
    let (server, _) = server().await;
    let planned = manager(&server).controller(labeler(), Labeler { is_broken: false });
    let error = planned.plan().await.expect_err("it is refused").to_string();
    assert!(error.starts_with(r#"controller "labeler": "#), "{error}");
    assert!(error.contains(".in_plan(InPlan::Run)"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn definition_that_is_not_installed_is_named() {
    let (server, _) = server().await;
    let error = manager(&server).install(definition("new")).plan().await.expect_err("missing");
    let error = error.to_string();
    assert!(error.contains("shops.example.com is not installed"), "{error}");
}

/// The second controller fails while a write of the first is under way: the answer says too late
/// that the server has made it.
#[tokio::test(start_paused = true)]
async fn write_that_is_under_way_when_another_controller_fails_is_checked() {
    let (server, _) = server().await;
    let forbidden = Fault::Fail { code: 403, retry_after: None };
    server.faults().add(FaultRule::new(forbidden).resource("secrets"));
    let own = server.clone();
    let careless = service_fn(move |mut request: Request<Body>| {
        let uri = request.uri().to_string().replace("dryRun=All", "");
        *request.uri_mut() = uri.parse().expect("a URI");
        let (own, is_write) = (own.clone(), request.method() == "PATCH");
        async move {
            let answer = own.service().oneshot(request).await;
            if is_write {
                tokio::time::sleep(Duration::from_secs(20)).await;
            }
            answer
        }
    });
    let secrets = Controller::named("secrets", windlass_reconciler::Watch::<Secret>::new());
    let never = reconcile_fn(async |_: Arc<Secret>, _: &RunContext| Ok(Action::done()));
    let planned = Manager::new(Options::default().without_http())
        .without_logs()
        .connect(move |stack| Ok(stack.around(careless.clone(), "default")))
        .controller(labeler().in_plan(InPlan::Run), Labeler { is_broken: false })
        .controller(secrets.in_plan(InPlan::Run).sync_timeout(Duration::from_secs(10)), never);
    let error = planned.plan().await.expect_err("the plan stops");
    let ManagerError::DryRunIgnored(ignored) = error else { panic!("{error}") };
    assert_eq!(ignored.request, "patch configmaps default/one");
}
