//! What the operator does beyond the main scenarios, on the embedded API server and the paused
//! clock.

use crate::common::{
    color, copies, create, create_map, is, paint, prepare, ready, reference, start,
};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::ResourceExt as _;
use object_sync::reconciler::{FINALIZER, operator};
use object_sync::run::manager;
use object_sync::sync::{DISABLE_TARGET_DELETION, FORCE_DELETE, ResourceSync};
use serde_json::json;
use windlass::prelude::Options;
use windlass_testing::testserver::apiserver::{ApiServer, Fault, FaultRule};
use windlass_testing::{Quiet, Running, TestCluster};

/// A cluster with a source, and with a sync of it.
async fn cluster() -> TestCluster {
    let cluster = TestCluster::embedded();
    prepare(&cluster).await;
    create_map(&cluster, "source", "blue").await;
    create::<ResourceSync>(&cluster, "sync", copies("source", "target")).await;
    cluster
}

fn server(cluster: &TestCluster) -> ApiServer {
    let server = cluster.test_server().and_then(|cluster| cluster.server());
    server.expect("it is embedded").clone()
}

/// The resources that the operator watches.
fn watched(running: &Running) -> Vec<String> {
    let controllers = running.controllers();
    let caches = controllers.iter().flat_map(|controller| controller.caches());
    caches.map(|cache| cache.resource().to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn first_sync_writes_what_is_needed_and_another_start_changes_nothing() {
    let cluster = cluster().await;
    let (controller, reconciler) = operator();
    let writes = cluster.run_until_quiet(controller, reconciler).await;
    let expected = [
        "patch resourcesyncs default/sync",        // the finalizer
        "patch resourcesyncs/status default/sync", // the note of the target
        "patch configmaps default/target",
        "patch resourcesyncs/status default/sync",
    ];
    assert_eq!(writes, expected);
    assert_eq!(cluster.get::<ResourceSync>("sync").await.finalizers(), [FINALIZER]);
    let events = cluster.events::<ResourceSync>("sync").await;
    assert_eq!(events, ["Normal Synced: created configmaps.v1 default/target"]);

    for number in 0..50 {
        let name = format!("sync-{number}");
        create::<ResourceSync>(&cluster, &name, copies("source", &name)).await;
    }
    let versions = async || {
        let (controller, reconciler) = operator();
        cluster.run_until_quiet(controller, reconciler).await;
        let (maps, syncs) = (cluster.list::<ConfigMap>().await, cluster.list::<ResourceSync>());
        let maps: Vec<_> = maps.iter().map(ConfigMap::resource_version).collect();
        let syncs: Vec<_> = syncs.await.iter().map(ResourceSync::resource_version).collect();
        (maps, syncs)
    };
    let before = versions().await;
    assert_eq!((before.0.len(), before.1.len()), (52, 51));
    assert_eq!(versions().await, before);
}

#[tokio::test(start_paused = true)]
async fn kinds_are_watched_as_long_as_a_sync_refers_to_them() {
    let cluster = cluster().await;
    let running = start(&cluster);
    running.wait_until_quiet().await;
    let syncs = "resourcesyncs.v1.sync.example.com";
    assert_eq!(watched(&running), [syncs, "configmaps.v1"]);
    let to_secret = json!({"spec": {
        "target": {"kind": "Secret"},
        "mappings": [{"fromFieldPath": "data", "toFieldPath": "stringData"}],
    }});
    cluster.patch::<ResourceSync>("sync", to_secret).await;
    running.wait_until_quiet().await;
    assert_eq!(watched(&running), [syncs, "configmaps.v1", "secrets.v1"]);
    let other = json!({"spec": {
        "source": reference("Secret", "none"), "target": reference("Secret", "other"),
    }});
    create::<ResourceSync>(&cluster, "other", other).await;
    running.wait_until_quiet().await;
    cluster.delete::<ResourceSync>("sync").await;
    running.wait_until_quiet().await;
    assert_eq!(watched(&running), [syncs, "secrets.v1"]);
    cluster.delete::<ResourceSync>("other").await;
    running.wait_until_quiet().await;
    assert_eq!(watched(&running), [syncs]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn sync_stays_until_its_target_is_gone() {
    let cluster = cluster().await;
    let running = start(&cluster);
    running.wait_until_quiet().await;
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    cluster.patch::<ConfigMap>("target", held).await;
    cluster.delete::<ResourceSync>("sync").await;
    running.wait_until_quiet().await;
    assert_eq!(ready(&cluster, "sync").await, is("False", "Deleting"));
    let target: ConfigMap = cluster.get("target").await;
    assert!(target.metadata.deletion_timestamp.is_some());

    let released = json!({"metadata": {"finalizers": null}});
    cluster.patch::<ConfigMap>("target", released).await;
    running.wait_until_quiet().await;
    assert!(cluster.get_opt::<ResourceSync>("sync").await.is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn target_that_cannot_be_deleted_holds_the_sync_unless_that_is_forced() {
    let cluster = cluster().await;
    let running = start(&cluster);
    running.wait_until_quiet().await;
    let refusal = FaultRule::new(Fault::Fail { code: 403, retry_after: None });
    server(&cluster).faults().add(refusal.verb("delete").resource("configmaps"));
    cluster.delete::<ResourceSync>("sync").await;
    running.wait_until(Quiet::new().ignore_retries()).await;
    assert_eq!(ready(&cluster, "sync").await, is("False", "Failed"));

    let force = |value: &str| json!({"metadata": {"annotations": {FORCE_DELETE: value}}});
    cluster.patch::<ResourceSync>("sync", force("yes")).await;
    running.wait_until(Quiet::new().ignore_retries()).await;
    assert!(cluster.get_opt::<ResourceSync>("sync").await.is_some());
    cluster.patch::<ResourceSync>("sync", force("true")).await;
    running.wait_until_quiet().await;
    assert!(cluster.get_opt::<ResourceSync>("sync").await.is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn target_that_shall_stay_is_not_left_with_its_owner_even_if_that_is_forced() {
    let cluster = cluster().await;
    let running = start(&cluster);
    running.wait_until_quiet().await;
    let refusal = FaultRule::new(Fault::Fail { code: 403, retry_after: None });
    let refusal = refusal.verb("patch").resource("configmaps");
    let refusal = server(&cluster).faults().add(refusal);
    let both = json!({FORCE_DELETE: "true", DISABLE_TARGET_DELETION: "true"});
    cluster.patch::<ResourceSync>("sync", json!({"metadata": {"annotations": both}})).await;
    cluster.delete::<ResourceSync>("sync").await;
    running.wait_until(Quiet::new().ignore_retries()).await;
    assert!(cluster.get_opt::<ResourceSync>("sync").await.is_some());

    server(&cluster).faults().remove(refusal);
    running.wait_until_quiet().await;
    assert!(cluster.get_opt::<ResourceSync>("sync").await.is_none());
    assert!(color(&cluster, "target").await.is_some());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kind_that_is_unknown_is_found_when_it_is_defined() {
    let cluster = TestCluster::embedded();
    prepare(&cluster).await;
    let spec = json!({
        "source": reference("example.com/v1 Paint", "blue"),
        "target": reference("ConfigMap", "target"),
        "mappings": [{"fromFieldPath": "spec.color", "toFieldPath": "data.color"}],
    });
    create::<ResourceSync>(&cluster, "sync", json!({"spec": spec})).await;
    let running = start(&cluster);
    running.wait_until(Quiet::new().ignore_retries()).await;
    assert_eq!(ready(&cluster, "sync").await, is("False", "UnknownKind"));
    let definition = json!({
        "metadata": {"name": "paints.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "paints", "singular": "paint", "kind": "Paint"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    });
    cluster.install(&serde_json::from_value(definition).expect("a definition")).await;
    running.wait_until_quiet().await;
    // It has no namespace, and can be a source.
    assert_eq!(ready(&cluster, "sync").await, is("False", "SourceMissing"));
    let blue = json!({
        "apiVersion": "example.com/v1", "kind": "Paint",
        "metadata": {"name": "blue"}, "spec": {"color": "blue"},
    });
    let request = kube::core::Request::new("/apis/example.com/v1/paints");
    let request = request.create(&kube::api::PostParams::default(), blue.to_string().into_bytes());
    let made: Result<serde_json::Value, _> =
        cluster.client().request(request.expect("a request")).await;
    made.expect("it is created");
    running.wait_until_quiet().await;
    assert_eq!(color(&cluster, "target").await.as_deref(), Some("blue"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_target_and_invalid_mapping_are_refused() {
    let cluster = TestCluster::embedded();
    prepare(&cluster).await;
    create_map(&cluster, "source", "blue").await;
    let role = json!({"spec": {
        "source": reference("ConfigMap", "source"),
        "target": reference("rbac.authorization.k8s.io/v1 ClusterRole", "admin"),
        "mappings": [{"fromFieldPath": "data.color", "toFieldPath": "metadata.labels.color"}],
    }});
    create::<ResourceSync>(&cluster, "role", role).await;
    let mut invalid = copies("source", "target");
    invalid["spec"]["mappings"] = json!([{"fromFieldPath": "a.", "toFieldPath": "data"}]);
    create::<ResourceSync>(&cluster, "invalid", invalid).await;
    let running = start(&cluster);
    running.wait_until(Quiet::new().ignore_retries()).await;
    assert_eq!(ready(&cluster, "role").await, is("False", "TargetRefused"));
    assert!(cluster.get_opt::<ClusterRole>("admin").await.is_none());
    assert_eq!(ready(&cluster, "invalid").await, is("False", "InvalidMapping"));
    assert_eq!(color(&cluster, "target").await, None);
    let runs = running.runs("invalid").len();

    // A change of the source is worth another try, and a valid mapping succeeds.
    paint(&cluster, "source", "azure").await;
    running.wait_until(Quiet::new().ignore_retries()).await;
    assert_eq!(running.runs("invalid").len(), runs + 1);
    let valid = json!({"spec": {"mappings": null}});
    cluster.patch::<ResourceSync>("invalid", valid).await;
    running.wait_until(Quiet::new().ignore_retries()).await;
    assert_eq!(color(&cluster, "target").await.as_deref(), Some("azure"));
    for name in ["role", "invalid"] {
        cluster.delete::<ResourceSync>(name).await;
    }
    running.wait_until_quiet().await;
    assert!(cluster.list::<ResourceSync>().await.is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn name_that_is_a_path_is_refused_by_the_server() {
    let cluster = TestCluster::embedded();
    prepare(&cluster).await;
    for (field, value) in [
        ("name", "../../../namespaces/kube-system/secrets/token"),
        ("name", ".."),
        ("kind", "ConfigMap/"),
        ("apiVersion", "../v1"),
    ] {
        let mut sync = copies("source", "target");
        sync["metadata"] = json!({"name": "sync", "namespace": "default"});
        sync["spec"]["source"][field] = value.into();
        let sync: ResourceSync = serde_json::from_value(sync).expect("a sync");
        let api = kube::Api::<ResourceSync>::namespaced(cluster.client(), "default");
        let refused = api.create(&kube::api::PostParams::default(), &sync).await;
        let error = refused.expect_err("it is invalid").to_string();
        assert!(error.contains(&format!("spec.source.{field}")), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn plan_shows_the_target_and_changes_nothing() {
    let cluster = cluster().await;
    let server = server(&cluster);
    let operator = manager(Options::default());
    let operator = operator.connect(move |stack| Ok(stack.around(server.service(), "default")));
    let plan = operator.plan().await.expect("a plan").to_string();
    assert!(plan.contains("+ configmaps default/target"), "{plan}");
    assert_eq!(color(&cluster, "target").await, None);
}

#[tokio::test(start_paused = true)]
async fn manager_runs_it_and_content_is_shown_nowhere() {
    let cluster = cluster().await;
    let running = cluster.run_manager(manager(Options::default()));
    running.wait_until_quiet().await;
    paint(&cluster, "source", "hunter2").await;
    running.wait_until_quiet().await;
    assert_eq!(color(&cluster, "target").await.as_deref(), Some("hunter2"));
    let mut invalid = copies("source", "other");
    invalid["spec"]["mappings"] = json!([{"fromFieldPath": "data.color", "toFieldPath": "data"},
        {"fromFieldPath": "data.color", "toFieldPath": "data.color"}]);
    create::<ResourceSync>(&cluster, "invalid", invalid).await;
    // The server repeats what is not valid as a label.
    paint(&cluster, "source", "hunter2=").await;
    let mut label = copies("source", "third");
    label["spec"]["mappings"] =
        json!([{"fromFieldPath": "data.color", "toFieldPath": "metadata.labels.color"}]);
    create::<ResourceSync>(&cluster, "label", label).await;
    running.wait_until(Quiet::new().ignore_retries()).await;
    assert_eq!(ready(&cluster, "invalid").await, is("False", "InvalidMapping"));
    assert_eq!(ready(&cluster, "label").await, is("False", "TargetInvalid"));
    for name in ["sync", "invalid", "label"] {
        let (events, sync) =
            (cluster.events::<ResourceSync>(name), cluster.get::<ResourceSync>(name));
        let shown = format!("{:?} {:?} {:?}", events.await, sync.await, running.runs(name));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kinds_that_cannot_be_made_take_no_room_in_the_status() {
    let cluster = cluster().await;
    let running = start(&cluster);
    for number in 0..20 {
        let target = reference(&format!("example.com/v1 Kind{number}"), "target");
        cluster.patch::<ResourceSync>("sync", json!({"spec": {"target": target}})).await;
        running.wait_until(Quiet::new().ignore_retries()).await;
        assert_eq!(ready(&cluster, "sync").await, is("False", "UnknownKind"));
    }
    let target = json!({"spec": {"target": reference("ConfigMap", "other")}});
    cluster.patch::<ResourceSync>("sync", target).await;
    running.wait_until_quiet().await;
    assert_eq!(ready(&cluster, "sync").await, is("True", "Synced"));
    assert_eq!(color(&cluster, "target").await, None);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn seventeenth_kind_that_may_have_a_target_is_told_and_not_made() {
    let cluster = cluster().await;
    let noted: Vec<_> =
        (0..16).map(|number| reference(&format!("example.com/v1 Kind{number}"), "old")).collect();
    cluster.patch_status::<ResourceSync>("sync", json!({"status": {"targets": noted}})).await;
    let running = start(&cluster);
    running.wait_until_quiet().await;
    assert_eq!(ready(&cluster, "sync").await, is("False", "TooManyKinds"));
    assert_eq!(color(&cluster, "target").await, None, "nobody would find it later");
    running.stop().await;
}
