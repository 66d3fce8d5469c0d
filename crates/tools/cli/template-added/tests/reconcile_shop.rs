//! What the operator does for Shops, on a cluster in this process and on the paused clock.

mod common;

use ::shop_operator::shop::Shop;
use common::shop::{HELLO, delete_made, example, is_ready, made};
use common::{at_work, stop};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn objects_are_made_and_the_status_says_ready() {
    let (cluster, running) = at_work().await;
    cluster.create(&example()).await;
    cluster.wait_until_quiet().await;
    let shop: Shop = cluster.expect(HELLO, is_ready).await;
    for metadata in made(&cluster).await {
        let owners = metadata.expect("it is there").owner_references.unwrap_or_default();
        assert_eq!(owners.len(), 1);
        assert_eq!(Some(&owners[0].uid), shop.metadata.uid.as_ref());
    }
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn change_of_the_spec_is_followed() {
    let (cluster, running) = at_work().await;
    cluster.create(&example()).await;
    cluster.wait_until_quiet().await;
    cluster.patch::<Shop>(HELLO, json!({"spec": {"title": "Another title"}})).await;
    cluster.wait_until_quiet().await;
    cluster.expect::<Shop>(HELLO, is_ready).await;
    for metadata in made(&cluster).await {
        let annotations = metadata.expect("it is there").annotations.unwrap_or_default();
        let title = annotations.get("example.com/title").map(String::as_str);
        assert_eq!(title, Some("Another title"));
    }
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_somebody_deletes_come_back() {
    let (cluster, running) = at_work().await;
    cluster.create(&example()).await;
    cluster.wait_until_quiet().await;
    let before = made(&cluster).await;
    delete_made(&cluster).await;
    cluster.wait_until_quiet().await;
    for (before, after) in before.into_iter().zip(made(&cluster).await) {
        let after = after.expect("it is there again");
        assert_ne!(before.and_then(|before| before.uid), after.uid);
    }
    cluster.expect::<Shop>(HELLO, is_ready).await;
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn deleted_shop_takes_its_objects_along() {
    let (cluster, running) = at_work().await;
    cluster.create(&example()).await;
    cluster.wait_until_quiet().await;
    cluster.delete::<Shop>(HELLO).await;
    cluster.wait_until_quiet().await;
    assert!(cluster.get_opt::<Shop>(HELLO).await.is_none());
    assert!(made(&cluster).await.iter().all(Option::is_none));
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn shop_that_is_as_it_should_be_costs_no_write() {
    let (cluster, running) = at_work().await;
    cluster.create(&example()).await;
    cluster.wait_until_quiet().await;
    running[0].take_writes();
    let label = json!({"metadata": {"labels": {"note": "nothing-that-matters"}}});
    cluster.patch::<Shop>(HELLO, label).await;
    cluster.wait_until_quiet().await;
    assert_eq!(running[0].take_writes(), [""; 0]);
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn object_of_somebody_else_is_left_alone() {
    let (cluster, running) = at_work().await;
    let mut foreign = ConfigMap::default();
    foreign.metadata.name = Some(HELLO.to_owned());
    let foreign = cluster.create(&foreign).await;
    cluster.create(&example()).await;
    let is_blocked = |shop: &Shop| common::shop::blocked(shop).is_some();
    let shop: Shop = cluster.eventually(HELLO, is_blocked).await;
    let message = common::shop::blocked(&shop).unwrap_or_default();
    assert!(message.contains("exists already"), "{message}");
    assert_eq!(cluster.get::<ConfigMap>(HELLO).await, foreign);
    // It looks again by itself.
    cluster.delete::<ConfigMap>(HELLO).await;
    cluster.eventually::<Shop>(HELLO, is_ready).await;
    stop(running).await;
}
