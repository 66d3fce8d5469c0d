//! Children as a set: what is wanted is applied, what is not wanted any more is deleted, and
//! nothing of anybody else is touched. On both servers.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use windlass_informer::Resource;
use windlass_reconciler::{
    CONTROLLER_LABEL, ChildrenReport, Class, Controller, ControllerBuilder, Error, OwnershipError,
    RunContext, Watch, WriteOptions, children_selector, is_controlled_by,
};
use windlass_testserver::apiserver::{Fault, FaultRule};
use windlass_testserver::{TestServer, on_each_server};

use crate::stage::{Shown, in_a_run, noting, taken};

/// A builder that declares both kinds, without caches of them.
fn plain(builder: ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap> {
    builder.makes::<ConfigMap>().makes::<Secret>()
}

fn map(name: &str, value: &str) -> ConfigMap {
    let object = json!({"metadata": {"name": name}, "data": {"value": value}});
    serde_json::from_value(object).expect("an object")
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("an object")
}

/// Makes the set of these `ConfigMaps` and Secrets in a run of a new controller.
async fn make(
    cluster: &TestServer,
    namespace: &str,
    maps: &[(&'static str, &'static str)],
    secrets: &[&'static str],
) -> Result<ChildrenReport, Error> {
    let (maps, secrets) = (maps.to_vec(), secrets.to_vec());
    in_a_run(cluster, namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let maps = maps.into_iter().map(|(name, value)| map(name, value));
            let secrets = secrets.into_iter().map(secret);
            cx.children(&owner).apply_all(maps).apply_all(secrets).prune().await
        })
    })
    .await
}

fn secrets(cluster: &TestServer, namespace: &str) -> Api<Secret> {
    Api::namespaced(cluster.client().expect("a client"), namespace)
}

fn maps(client: Client, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(client, namespace)
}

on_each_server!(what_is_not_wanted_any_more_is_deleted_whatever_its_kind);
async fn what_is_not_wanted_any_more_is_deleted_whatever_its_kind(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let first = make(&cluster, &namespace, &[("a", "1"), ("b", "1")], &["s"]).await;
    let first = first.expect("everything goes");
    assert_eq!((first.created().count(), first.deleted().len()), (3, 0));
    let maps = maps(client, &namespace);
    let (owner, a) = (maps.get("owner").await.expect("there"), maps.get("a").await.expect("there"));
    assert!(is_controlled_by(&a.metadata, &owner));
    assert!(owner.annotations().is_empty(), "the owner is not written");
    assert_eq!(a.labels().get(CONTROLLER_LABEL).map(String::as_str), Some("shops"));

    let second = make(&cluster, &namespace, &[("a", "1"), ("b", "2")], &[]).await;
    let second = second.expect("everything goes");
    let told = format!("changed configmaps.v1 {namespace}/b; deleted secrets.v1 {namespace}/s");
    assert_eq!(second.to_string(), told);
    assert!(secrets(&cluster, &namespace).get_opt("s").await.expect("an answer").is_none());

    let third = make(&cluster, &namespace, &[("b", "2")], &[]).await.expect("everything goes");
    assert_eq!(third.to_string(), format!("deleted configmaps.v1 {namespace}/a"));
    assert_eq!(third.kept().map(|child| child.key.name()).collect::<Vec<_>>(), ["b"]);
    assert!(maps.get_opt("owner").await.expect("an answer").is_some());
}

on_each_server!(nothing_of_anybody_else_is_deleted);
async fn nothing_of_anybody_else_is_deleted(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    make(&cluster, &namespace, &[], &["ours"]).await.expect("everything goes");
    let maps = maps(cluster.client().expect("a client"), &namespace);
    let owner = maps.get("owner").await.expect("it is there");
    let other = maps.create(&PostParams::default(), &map("other", "")).await.expect("made");
    let reference = |owner: &ConfigMap, controller: bool| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(),
                   "uid": owner.uid(), "controller": controller})
    };
    let ours = json!({CONTROLLER_LABEL: "shops"});
    let cases = [
        ("unlabelled", json!({}), json!([reference(&owner, true)])),
        (
            "of-another-controller",
            json!({CONTROLLER_LABEL: "others"}),
            json!([reference(&owner, true)]),
        ),
        ("of-another-owner", ours.clone(), json!([reference(&other, true)])),
        ("not-controlled", ours.clone(), json!([reference(&owner, false)])),
        ("unowned", ours, json!([])),
    ];
    let secrets = secrets(&cluster, &namespace);
    for (name, labels, owners) in &cases {
        let object: Secret = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels, "ownerReferences": owners},
        }))
        .expect("an object");
        secrets.create(&PostParams::default(), &object).await.expect("made");
    }
    let pruned = make(&cluster, &namespace, &[], &[]).await.expect("everything goes");
    assert_eq!(pruned.to_string(), format!("deleted secrets.v1 {namespace}/ours"));
    for (name, ..) in &cases {
        secrets.get(name).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

on_each_server!(object_of_somebody_else_is_refused_and_then_nothing_is_deleted);
async fn object_of_somebody_else_is_refused_and_then_nothing_is_deleted(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    make(&cluster, &namespace, &[("first", "1")], &["old"]).await.expect("everything goes");
    let maps = maps(cluster.client().expect("a client"), &namespace);
    maps.create(&PostParams::default(), &map("taken", "theirs")).await.expect("made");
    let wanted = [("first", "2"), ("taken", "ours"), ("last", "1")];
    let refused = make(&cluster, &namespace, &wanted, &[]).await.expect_err("it is taken");
    let expected = "the ConfigMap \"taken\" exists already, and belongs to somebody else: \
                        delete it, or choose another name";
    assert_eq!(refused.to_string(), expected);
    assert!(refused.source().downcast_ref::<OwnershipError>().is_some());
    // In the order given, up to the one that failed.
    assert_eq!(maps.get("first").await.expect("there").data.expect("data")["value"], "2");
    assert!(maps.get_opt("last").await.expect("an answer").is_none());
    let data = maps.get("taken").await.expect("there").data.expect("data");
    assert_eq!(data["value"], "theirs");
    secrets(&cluster, &namespace).get("old").await.expect("it is not deleted");
}

on_each_server!(set_that_is_as_it_should_be_costs_no_request);
async fn set_that_is_as_it_should_be_costs_no_request(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    let (client, sent) = noting(&cluster.client().expect("a client"));
    let (scope, shown) = (namespace.clone(), Shown::default());
    let predicate = shown.predicate();
    let owning = move |builder: ControllerBuilder<ConfigMap>| {
        let watch = Watch::<Secret>::new()
            .options(|options| options.namespace(scope).label_selector(children_selector("shops")));
        builder.owns(watch.when(predicate)).client(client)
    };
    in_a_run(&cluster, &namespace, owning, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let wanted = || ["a", "b"].map(secret);
            let made = cx.children(&owner).apply_all(wanted()).prune().await?;
            assert_eq!(made.created().count(), 2);
            // A look at each name, and the two.
            let requests = ["GET a", "PATCH a", "GET b", "PATCH b"];
            assert_eq!(taken(&sent), requests);
            for child in made.children() {
                shown.wait_for(child.decode::<DynamicObject>()?.resource_version()).await;
            }

            let again = cx.children(&owner).apply_all(wanted()).prune().await?;
            assert_eq!((again.to_string().as_str(), again.kept().count()), ("nothing changed", 2));
            assert_eq!(taken(&sent), [""; 0]);
            assert_eq!(again.get::<Secret>("a")?.expect("it is there").name_any(), "a");

            // Somebody else changes one.
            let patch = Patch::Merge(json!({"metadata": {"labels": {"theirs": "1"}}}));
            let secrets: Api<Secret> = Api::namespaced(
                cx.client().clone(),
                owner.namespace().as_deref().unwrap_or_default(),
            );
            let theirs = secrets.patch("a", &PatchParams::default(), &patch).await?;
            shown.wait_for(theirs.resource_version()).await;
            taken(&sent);
            let third = cx.children(&owner).apply_all(wanted()).prune().await?;
            assert_eq!(taken(&sent), ["PATCH a"]);
            assert_eq!(third.to_string(), "nothing changed");

            // One is not wanted any more.
            let last = cx.children(&owner).apply(secret("a")).prune().await?;
            assert_eq!(taken(&sent), ["GET owner", "DELETE b"]);
            assert_eq!(last.deleted().len(), 1);
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
}

#[tokio::test(start_paused = true)]
async fn child_that_cannot_be_owned_is_refused_before_anything_is_sent() {
    let cluster = TestServer::embedded();
    let (client, sent) = noting(&cluster.client().expect("a client"));
    let with_client = move |builder: ControllerBuilder<ConfigMap>| {
        plain(builder).makes::<Namespace>().client(client)
    };
    let told =
        in_a_run(&cluster, "default", with_client, |owner: Arc<ConfigMap>, cx: &RunContext| {
            Box::pin(async move {
                let namespace: Namespace =
                    serde_json::from_value(json!({"metadata": {"name": "shop"}}))
                        .expect("an object");
                let mut elsewhere = secret("a");
                elsewhere.metadata.namespace = Some("kube-system".to_owned());
                let mut new = ConfigMap::clone(&owner);
                new.metadata.uid = None;
                let refused = [
                    cx.children(&owner).apply(secret("a")).apply(namespace).prune().await,
                    cx.children(&owner).apply(elsewhere).prune().await,
                    cx.children(&owner).apply(secret("a")).apply(secret("a")).prune().await,
                    cx.children(&new).apply(secret("a")).prune().await,
                ];
                assert_eq!(taken(&sent), [""; 0]);
                refused.map(|refused| refused.expect_err("it is refused").to_string())
            })
        })
        .await;
    let expected = [
        "Namespace shop is cluster-scoped, and cannot be owned by ConfigMap default/owner, which is \
         in a namespace: the garbage collector does not look for owners there; delete it in a \
         finalizer (Finalize::cleanup), or make the kind of the owner cluster-scoped",
        "Secret kube-system/a cannot be owned by ConfigMap default/owner: both have to be in the \
         same namespace",
        "the Secret default/a is in the set of children twice: add it once",
        "ConfigMap default/owner cannot own anything, because it has no uid: use the object that \
         the server returned",
    ];
    assert_eq!(told, expected);
}

on_each_server!(children_may_be_of_kinds_that_are_known_at_run_time);
async fn children_may_be_of_kinds_that_are_known_at_run_time(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    let counts = in_a_run(&cluster, &namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let resource = Resource::of::<Secret>();
            let object: Value = json!({"metadata": {"name": "a"}, "stringData": {"x": "1"}});
            let object: DynamicObject = serde_json::from_value(object)?;
            let made = cx.children(&owner).apply_of(&resource, object).prune().await?;
            let mut owner: DynamicObject = serde_json::from_value(serde_json::to_value(&*owner)?)?;
            // The reconciled object need not say its kind.
            owner.types = None;
            let gone = cx.children(&owner).prune().await?;
            Ok::<_, Error>((made.created().count(), gone.deleted().len()))
        })
    })
    .await
    .expect("everything goes");
    assert_eq!(counts, (1, 1));
}

on_each_server!(dry_run_makes_no_child);
async fn dry_run_makes_no_child(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    let report = in_a_run(&cluster, &namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let children = cx.children(&owner).with(WriteOptions::new().dry_run());
            children.apply(secret("a")).prune().await
        })
    })
    .await
    .expect("everything goes");
    assert_eq!(report.created().count(), 1);
    assert!(secrets(&cluster, &namespace).get_opt("a").await.expect("an answer").is_none());
}

on_each_server!(two_controllers_of_one_owner_keep_their_sets_apart);
async fn two_controllers_of_one_owner_keep_their_sets_apart(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    make(&cluster, &namespace, &[("a", "1")], &[]).await.expect("everything goes");
    let scope = namespace.clone();
    let other = move |_: ControllerBuilder<ConfigMap>| {
        let owners = Watch::<ConfigMap>::new().options(move |options| options.namespace(scope));
        plain(Controller::named("others", owners))
    };
    in_a_run(&cluster, &namespace, other, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move { cx.children(&owner).apply(secret("b")).prune().await })
    })
    .await
    .expect("everything goes");

    let again = make(&cluster, &namespace, &[("a", "1")], &[]).await.expect("everything goes");
    assert_eq!(again.to_string(), "nothing changed");
    secrets(&cluster, &namespace).get("b").await.expect("it is the other's");
}

on_each_server!(prune_lists_each_declared_kind_once_whatever_the_owner_says);
/// What an owner says costs nothing: what is looked at is declared.
async fn prune_lists_each_declared_kind_once_whatever_the_owner_says(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    make(&cluster, &namespace, &[], &["old"]).await.expect("everything goes");
    let maps = maps(cluster.client().expect("a client"), &namespace);
    let kinds: Vec<_> = (0..100).map(|number| format!("k{number}.v1.example.com")).collect();
    let noted = json!({"children.windlass.dev/shops": kinds.join(",")});
    let patch = Patch::Merge(json!({"metadata": {"annotations": noted}}));
    maps.patch("owner", &PatchParams::default(), &patch).await.expect("patched");

    let (client, sent) = noting(&cluster.client().expect("a client"));
    let declared = move |builder: ControllerBuilder<ConfigMap>| {
        // Once, in whichever form it is declared.
        plain(builder).makes_of(&Resource::of::<Secret>()).retires::<Secret>().client(client)
    };
    let pruned =
        in_a_run(&cluster, &namespace, declared, |owner: Arc<ConfigMap>, cx: &RunContext| {
            Box::pin(async move { cx.children(&owner).prune().await })
        })
        .await
        .expect("everything goes");
    assert_eq!(pruned.to_string(), format!("deleted secrets.v1 {namespace}/old"));
    let lists = |line: &String| matches!(line.as_str(), "GET configmaps" | "GET secrets");
    let (listed, others): (Vec<_>, Vec<_>) = taken(&sent).into_iter().partition(lists);
    assert_eq!(listed, ["GET configmaps", "GET secrets"]);
    assert_eq!(others.last().map(String::as_str), Some("DELETE old"), "{others:?}");
}

#[tokio::test(start_paused = true)]
async fn child_of_an_undeclared_kind_is_refused_with_the_line_to_add() {
    let cluster = TestServer::embedded();
    let (client, sent) = noting(&cluster.client().expect("a client"));
    let with_client =
        move |builder: ControllerBuilder<ConfigMap>| builder.makes::<Secret>().client(client);
    let refused =
        in_a_run(&cluster, "default", with_client, |owner: Arc<ConfigMap>, cx: &RunContext| {
            Box::pin(async move {
                let children = cx.children(&owner).apply(secret("a"));
                let refused = children.apply(Service::default()).prune().await;
                assert_eq!(taken(&sent), [""; 0]);
                refused.expect_err("it is refused")
            })
        })
        .await;
    assert_eq!(refused.class(), Class::Terminal);
    let line = "add .makes::<Service>() to its builder, or .owns(Watch::<Service>::new())";
    assert!(refused.to_string().contains(line), "{refused}");
}

/// A kind that is named is declared, too.
#[tokio::test(start_paused = true)]
async fn undeclared_kind_is_not_pruned_without_makes_any() {
    let cluster = TestServer::embedded();
    let makes = |builder: ControllerBuilder<ConfigMap>| builder.makes::<ConfigMap>();
    let refused = in_a_run(&cluster, "default", makes, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(
            async move { cx.children(&owner).prune_of(&Resource::of::<Secret>()).prune().await },
        )
    })
    .await
    .expect_err("it is refused");
    assert_eq!(refused.class(), Class::Terminal);
    assert!(refused.to_string().contains(".makes_any()"), "{refused}");
}

/// Workers wait for one list, and one failure is enough for all of them.
#[tokio::test(start_paused = true)]
async fn retired_kind_that_cannot_be_listed_stops_deletions_only_and_is_not_asked_for_by_each_run()
{
    let cluster = TestServer::embedded();
    make(&cluster, "default", &[], &["old"]).await.expect("everything goes");
    let faults = cluster.server().expect("it is embedded").faults();
    let fault = Fault::Fail { code: 503, retry_after: None };
    let fault = faults.add(FaultRule::new(fault).verb("list").resource("secrets"));
    let maps = maps(cluster.client().expect("a client"), "default");
    let secrets = secrets(&cluster, "default");
    let count = cluster.server().expect("it is embedded").clone();
    let builder =
        |builder: ControllerBuilder<ConfigMap>| builder.makes::<ConfigMap>().retires::<Secret>();
    in_a_run(&cluster, "default", builder, move |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let set = || cx.children(&owner).apply(map("new", "1"));
            let failed = tokio::join!(set().prune(), set().prune(), set().prune());
            for failed in [failed.0, failed.1, failed.2] {
                let error = failed.expect_err("the list fails");
                assert_eq!(error.class(), Class::Transient, "{error}");
            }
            assert_eq!(count.faults().times_applied(fault), 1);
            maps.get("new").await.expect("what is wanted is there");
            count.faults().remove(fault);
            tokio::time::advance(Duration::from_secs(11)).await;
            let pruned = set().prune().await.expect("everything goes");
            assert_eq!(pruned.deleted().len(), 1);
        })
    })
    .await;
    assert!(secrets.get_opt("old").await.expect("an answer").is_none());
}

on_each_server!(retired_kind_is_listed_once_and_deleted_by_each_owner);
/// Two owners, and one that does not exist any more for this controller.
async fn retired_kind_is_listed_once_and_deleted_by_each_owner(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    make(&cluster, &namespace, &[("kept", "1")], &["old"]).await.expect("everything goes");
    let secrets = secrets(&cluster, &namespace);
    let foreign = json!({
        "metadata": {"name": "foreign", "labels": {CONTROLLER_LABEL: "shops"}},
    });
    let foreign: Secret = serde_json::from_value(foreign).expect("an object");
    secrets.create(&PostParams::default(), &foreign).await.expect("made");

    // Without the declaration nobody looks for Secrets.
    let only_maps = |builder: ControllerBuilder<ConfigMap>| builder.makes::<ConfigMap>();
    let nothing =
        in_a_run(&cluster, &namespace, only_maps, |owner: Arc<ConfigMap>, cx: &RunContext| {
            Box::pin(async move { cx.children(&owner).apply(map("kept", "1")).prune().await })
        })
        .await;
    assert_eq!(nothing.expect("everything goes").to_string(), "nothing changed");

    let (client, sent) = noting(&cluster.client().expect("a client"));
    let retire = move |builder: ControllerBuilder<ConfigMap>| {
        builder.makes::<ConfigMap>().retires::<Secret>().client(client)
    };
    let (first, second) =
        in_a_run(&cluster, &namespace, retire, |owner: Arc<ConfigMap>, cx: &RunContext| {
            Box::pin(async move {
                let wanted = || cx.children(&owner).apply(map("kept", "1"));
                let first = wanted().prune().await?;
                Ok::<_, Error>((first, wanted().prune().await?))
            })
        })
        .await
        .expect("everything goes");
    assert_eq!(first.to_string(), format!("deleted secrets.v1 {namespace}/old"));
    assert_eq!(second.to_string(), "nothing changed");
    let lists = taken(&sent).into_iter().filter(|line| line == "GET secrets").count();
    assert_eq!(lists, 1);
    secrets.get("foreign").await.expect("nobody's is not deleted");
}

on_each_server!(leftover_that_waits_for_its_finalizers_is_not_read_by_every_run);
async fn leftover_that_waits_for_its_finalizers_is_not_read_by_every_run(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    make(&cluster, &namespace, &[], &["held"]).await.expect("everything goes");
    let secrets = secrets(&cluster, &namespace);
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    secrets.patch("held", &PatchParams::default(), &held).await.expect("patched");

    let (client, sent) = noting(&cluster.client().expect("a client"));
    let retire =
        move |builder: ControllerBuilder<ConfigMap>| builder.retires::<Secret>().client(client);
    in_a_run(&cluster, &namespace, retire, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            for _ in 0..4 {
                cx.children(&owner).prune().await?;
            }
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
    let about = taken(&sent).into_iter().filter(|line| line.ends_with(" held"));
    assert_eq!(about.collect::<Vec<_>>(), ["GET held", "DELETE held", "GET held"]);
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    secrets.patch("held", &PatchParams::default(), &released).await.expect("patched");
}

on_each_server!(leftover_that_changed_hands_after_it_was_listed_is_not_deleted);
/// The list is only where to look: somebody has taken the object over since then.
async fn leftover_that_changed_hands_after_it_was_listed_is_not_deleted(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    make(&cluster, &namespace, &[], &["a", "b"]).await.expect("everything goes");
    let retire = |builder: ControllerBuilder<ConfigMap>| builder.retires::<Secret>();
    let theirs = secrets(&cluster, &namespace);
    let other = theirs.clone();
    let pruned =
        in_a_run(&cluster, &namespace, retire, |owner: Arc<ConfigMap>, cx: &RunContext| {
            Box::pin(async move {
                // This lists them.
                let dry = cx.children(&owner).with(WriteOptions::new().dry_run());
                assert_eq!(dry.prune().await?.deleted().len(), 2);
                let patch = json!({"metadata": {"ownerReferences": null}});
                other.patch("b", &PatchParams::default(), &Patch::Merge(patch)).await?;
                cx.children(&owner).prune().await
            })
        })
        .await
        .expect("everything goes");
    assert_eq!(pruned.to_string(), format!("deleted secrets.v1 {namespace}/a"));
    theirs.get("b").await.expect("it is not deleted");
}

on_each_server!(declared_kind_that_the_server_does_not_have_is_no_error);
/// A kind that the server does not have has no objects.
async fn declared_kind_that_the_server_does_not_have_is_no_error(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    let resource = |group: &str, version: &str, kind: &str| {
        Resource::new(&ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)), true)
    };
    let declared = move |builder: ControllerBuilder<ConfigMap>| {
        let gone = resource("gone.example.com", "v1", "Widget");
        let other_version = resource("apps", "v1beta1", "Deployment");
        plain(builder).makes_of(&gone).makes_of(&other_version)
    };
    let made =
        in_a_run(&cluster, &namespace, declared, |owner: Arc<ConfigMap>, cx: &RunContext| {
            Box::pin(async move { cx.children(&owner).apply(secret("a")).prune().await })
        });
    assert_eq!(made.await.expect("everything goes").created().count(), 1);
}

on_each_server!(undeclared_kinds_are_found_only_where_they_are_named);
async fn undeclared_kinds_are_found_only_where_they_are_named(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    let any = |builder: ControllerBuilder<ConfigMap>| builder.makes_any();
    let told = in_a_run(&cluster, &namespace, any, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let children = || cx.children(&owner);
            children().apply(secret("a")).apply(secret("b")).prune().await?;
            let same_kind = children().apply(secret("a")).prune().await?.to_string();
            let unnamed = children().prune().await?.to_string();
            let named = children().prune_of(&Resource::of::<Secret>()).prune().await?;
            Ok::<_, Error>([same_kind, unnamed, named.to_string()])
        })
    })
    .await
    .expect("everything goes");
    let deleted = |name: &str| format!("deleted secrets.v1 {namespace}/{name}");
    assert_eq!(told, [deleted("b"), "nothing changed".to_owned(), deleted("a")]);
}

on_each_server!(children_of_a_cluster_scoped_owner_are_found_wherever_they_are);
/// A cluster-scoped owner may have children in any namespace, and cluster-scoped ones.
async fn children_of_a_cluster_scoped_owner_are_found_wherever_they_are(cluster: TestServer) {
    let namespace = cluster.namespace("children").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let name = |role: &str| format!("{namespace}-{role}");
    let role = |name: &str| -> ClusterRole {
        serde_json::from_value(json!({"metadata": {"name": name}})).expect("an object")
    };
    let owner = roles.create(&PostParams::default(), &role(&name("owner"))).await;
    let owner = owner.expect("made");
    let (child, scope) = (role(&name("child")), namespace.clone());
    let declared =
        |builder: ControllerBuilder<ConfigMap>| builder.makes::<ClusterRole>().makes::<Secret>();
    let told = in_a_run(&cluster, &namespace, declared, |_: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let mut secret = secret("a");
            secret.metadata.namespace = Some(scope);
            let made = cx.children(&owner).apply(child).apply(secret).prune().await?;
            assert_eq!(made.created().count(), 2);
            Ok::<_, Error>(cx.children(&owner).prune().await?.to_string())
        })
    })
    .await
    .expect("everything goes");
    let expected = format!(
        "deleted clusterroles.v1.rbac.authorization.k8s.io {}; deleted secrets.v1 {namespace}/a",
        name("child")
    );
    assert_eq!(told, expected);
    roles.delete(&name("owner"), &DeleteParams::default()).await.expect("deleted");
}
