//! Foreground deletions complete, unless a controller recreates what the collector deletes.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use windlass::prelude::*;
use windlass::reconciler::{WriteOptions, owner_reference};
use windlass_testing::{TestCluster, TestObject, on_each_cluster};

use crate::operator::{Page, Publisher, failure, page, pages, with_pages};

on_each_cluster!(
    page_that_is_deleted_in_the_foreground_goes_with_its_config_map,
    start_paused = true
);
async fn page_that_is_deleted_in_the_foreground_goes_with_its_config_map(cluster: TestCluster) {
    let cluster = with_pages(cluster).await;
    let running = cluster.run(pages(), Publisher);
    cluster.create(&page("hello", "Hi")).await;
    running.wait_until_quiet().await;
    cluster.delete_in_foreground::<Page>("hello").await;
    assert_eq!(cluster.get_opt::<ConfigMap>("hello").await, None);
    running.stop().await;
}

/// Creates its objects by requests of its own, which nothing checks.
struct Careless;

impl Reconcile<Page> for Careless {
    async fn reconcile(&self, page: Arc<Page>, cx: &RunContext) -> Result<Action, Error> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(page.name_any());
        map.metadata.owner_references = Some(vec![owner_reference(&*page)?]);
        let namespace = page.namespace().unwrap_or_default();
        let maps: Api<ConfigMap> = Api::namespaced(cx.client().clone(), &namespace);
        if cx.get::<ConfigMap>((&*namespace, &*page.name_any()))?.is_none() {
            maps.create(&PostParams::default(), &map).await?;
        }
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_that_never_ends_is_a_failure_that_says_why() {
    let cluster = with_pages(TestCluster::embedded()).await;
    let running = cluster.run(pages(), Careless);
    cluster.create(&page("hello", "Hi")).await;
    running.wait_until_quiet().await;
    let message = failure(cluster.delete_in_foreground::<Page>("hello")).await;
    let expected = "Page default/hello is not gone after 200 steps of the garbage collector: \
                    something makes again what it deletes";
    assert!(message.contains(expected), "{message}");
}

/// Creates a marker for a page that is being deleted, which is wrong.
struct Marker;

impl Reconcile<Page> for Marker {
    async fn reconcile(&self, page: Arc<Page>, cx: &RunContext) -> Result<Action, Error> {
        if page.metadata.deletion_timestamp.is_some() {
            let mut map = ConfigMap::default();
            map.metadata.name = Some("marker".to_owned());
            map.metadata.namespace = page.namespace();
            let options = WriteOptions::new().allow_deleted_owner();
            cx.live().with(options).apply_owned(map, &*page).await?;
        }
        Ok(Action::done())
    }
}

on_each_cluster!(object_that_is_made_during_the_deletion_does_not_hold_it_up, start_paused = true);
async fn object_that_is_made_during_the_deletion_does_not_hold_it_up(cluster: TestCluster) {
    let cluster = with_pages(cluster).await;
    let running = cluster.run(pages(), Marker);
    let mut held = page("hello", "Hi");
    held.finalizers_mut().push("example.com/held".to_owned());
    cluster.create(&held).await;
    running.wait_until_quiet().await;
    cluster.delete::<Page>("hello").await;
    cluster.eventually::<ConfigMap>("marker", |_: &ConfigMap| true).await;
    running.wait_until_quiet().await;
    cluster.patch::<Page>("hello", json!({"metadata": {"finalizers": null}})).await;
    cluster.eventually_gone::<Page>("hello").await;
    cluster.eventually_gone::<ConfigMap>("marker").await;
    running.stop().await;
}

fn object<K: TestObject>(object: Value) -> K {
    serde_json::from_value(object).expect("an object")
}

/// Our controllers of workloads, which imitate those of kube-controller-manager.
#[tokio::test(start_paused = true)]
async fn workloads_that_are_deleted_in_the_foreground_go_with_their_pods() {
    let cluster = TestCluster::embedded();
    let workloads = cluster.run_workloads(|workloads| workloads);
    let metadata = json!({"name": "web"});
    let selector = json!({"matchLabels": {"app": "web"}});
    let template = |restart: &str| {
        json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"restartPolicy": restart, "containers": [{"name": "web", "image": "web"}]},
        })
    };
    let spec = json!({"replicas": 2, "selector": selector, "template": template("Always")});
    cluster.create::<Deployment>(&object(json!({"metadata": metadata, "spec": spec}))).await;
    cluster.wait_until_quiet().await;
    cluster.delete_in_foreground::<Deployment>("web").await;
    assert_eq!(cluster.list::<ReplicaSet>().await, []);
    assert_eq!(cluster.list::<Pod>().await, []);

    let mut spec = spec;
    spec["serviceName"] = "web".into();
    cluster.create::<StatefulSet>(&object(json!({"metadata": metadata, "spec": spec}))).await;
    cluster.wait_until_quiet().await;
    cluster.delete_in_foreground::<StatefulSet>("web").await;
    assert_eq!(cluster.list::<Pod>().await, []);

    let spec = json!({"parallelism": 2, "template": template("Never")});
    cluster.create::<Job>(&object(json!({"metadata": metadata, "spec": spec}))).await;
    cluster.wait_until_quiet().await;
    cluster.delete_in_foreground::<Job>("web").await;
    assert_eq!(cluster.list::<Pod>().await, []);
    workloads.stop().await;
}
