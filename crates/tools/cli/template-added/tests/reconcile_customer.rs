//! What the operator does for Customers, on a cluster in this process and on the paused clock.

mod common;

use ::shop_operator::customer::Customer;
use common::customer::{HELLO, delete_made, example, is_ready, made};
use common::{at_work, stop};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn objects_are_made_and_the_status_says_ready() {
    let (cluster, running) = at_work().await;
    cluster.create(&example()).await;
    cluster.wait_until_quiet().await;
    let customer: Customer = cluster.expect(HELLO, is_ready).await;
    for metadata in made(&cluster).await {
        let owners = metadata.expect("it is there").owner_references.unwrap_or_default();
        assert_eq!(owners.len(), 1);
        assert_eq!(Some(&owners[0].uid), customer.metadata.uid.as_ref());
    }
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn change_of_the_spec_is_followed() {
    let (cluster, running) = at_work().await;
    cluster.create(&example()).await;
    cluster.wait_until_quiet().await;
    cluster.patch::<Customer>(HELLO, json!({"spec": {"title": "Another title"}})).await;
    cluster.wait_until_quiet().await;
    cluster.expect::<Customer>(HELLO, is_ready).await;
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
    cluster.expect::<Customer>(HELLO, is_ready).await;
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn deleted_customer_takes_its_objects_along() {
    let (cluster, running) = at_work().await;
    cluster.create(&example()).await;
    cluster.wait_until_quiet().await;
    cluster.delete::<Customer>(HELLO).await;
    cluster.wait_until_quiet().await;
    assert!(cluster.get_opt::<Customer>(HELLO).await.is_none());
    assert!(made(&cluster).await.iter().all(Option::is_none));
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn customer_that_is_as_it_should_be_costs_no_write() {
    let (cluster, running) = at_work().await;
    cluster.create(&example()).await;
    cluster.wait_until_quiet().await;
    running[0].take_writes();
    let label = json!({"metadata": {"labels": {"note": "nothing-that-matters"}}});
    cluster.patch::<Customer>(HELLO, label).await;
    cluster.wait_until_quiet().await;
    assert_eq!(running[0].take_writes(), [""; 0]);
    stop(running).await;
}
