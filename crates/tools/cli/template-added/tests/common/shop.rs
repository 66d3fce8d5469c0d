//! A Shop, and a look at what was made for it.

use ::shop_operator::shop::Shop;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::json;
use windlass::reconciler::ConditionType;
use windlass_testing::TestCluster;

use super::metadata;

/// The name of the Shop of deploy/example-shop.yaml, and of everything that is made for it.
pub const HELLO: &str = "hello-shop";

/// The Shop of deploy/example-shop.yaml.
pub const EXAMPLE: &str = include_str!("../../deploy/example-shop.yaml");

const READY: ConditionType = ConditionType::new("Ready");

/// The Shop of deploy/example-shop.yaml.
pub fn example() -> Shop {
    serde_saphyr::from_str(EXAMPLE).expect("a Shop")
}

/// Whether a Shop is ready, as it is now.
pub fn is_ready(shop: &Shop) -> bool {
    shop.status.as_ref().is_some_and(|status| {
        status.observed_generation == shop.metadata.generation && READY.is_true(&status.conditions)
    })
}

/// Why a Shop is blocked; `None` if it is not.
pub fn blocked(shop: &Shop) -> Option<&str> {
    let ready = READY.find(&shop.status.as_ref()?.conditions)?;
    (ready.reason == "Blocked").then_some(ready.message.as_str())
}

/// The metadata of what was made for the example, in each kind; `None` if it is not there.
pub async fn made(cluster: &TestCluster) -> Vec<Option<ObjectMeta>> {
    vec![metadata::<ConfigMap>(cluster, HELLO).await, metadata::<Service>(cluster, HELLO).await]
}

/// Deletes what was made for the example, as somebody might by mistake.
pub async fn delete_made(cluster: &TestCluster) {
    cluster.delete::<ConfigMap>(HELLO).await;
    cluster.delete::<Service>(HELLO).await;
}

/// Everything that the operator does for a Shop, so that it uses every verb that it has.
pub async fn play(cluster: &TestCluster) {
    let shops: Api<Shop> = Api::namespaced(cluster.client(), cluster.namespace());
    // The server may call webhooks for it, and takes a moment to learn where they are.
    let create = async || {
        let created = shops.create(&PostParams::default(), &example()).await;
        created.map_err(|error| error.to_string())
    };
    cluster.eventually_ok(create).await;
    cluster.eventually::<Shop>(HELLO, is_ready).await;
    cluster.patch::<Shop>(HELLO, json!({"spec": {"title": "Another title"}})).await;
    cluster.eventually::<Shop>(HELLO, is_ready).await;
    delete_made(cluster).await;
    let all_are_back = async || {
        let made = made(cluster).await;
        let is_there = made.iter().flatten().all(|one| one.deletion_timestamp.is_none());
        if is_there && made.iter().all(Option::is_some) { Ok(()) } else { Err(format!("{made:?}")) }
    };
    cluster.eventually_ok(all_are_back).await;
    // The operator must not make again what the garbage collector deletes first.
    cluster.delete_in_foreground::<Shop>(HELLO).await;
}
