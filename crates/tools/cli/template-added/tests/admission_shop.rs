//! What the webhooks say when somebody writes a Shop.

mod common;

use ::shop_operator::shop::Shop;
use ::shop_operator::shop::admission::CONTACT;
use common::shop::example;
use common::{at_work, stop};
use kube::api::{Api, PostParams};

fn with_contact(contact: &str) -> Shop {
    let mut shop = example();
    let annotations = shop.metadata.annotations.get_or_insert_default();
    annotations.insert(CONTACT.to_owned(), contact.to_owned());
    shop
}

#[tokio::test(start_paused = true)]
async fn contact_that_is_no_address_is_refused() {
    let (cluster, running) = at_work().await;
    let shops: Api<Shop> = Api::namespaced(cluster.client(), cluster.namespace());
    let refused = shops.create(&PostParams::default(), &with_contact("somebody")).await;
    let error = refused.expect_err("it is no address").to_string();
    assert!(error.contains("must be the address of somebody"), "{error}");
    cluster.create(&with_contact("ann@example.com")).await;
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn contact_is_stored_in_lower_case() {
    let (cluster, running) = at_work().await;
    let stored = cluster.create(&with_contact("Ann@Example.com")).await;
    let annotations = stored.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations.get(CONTACT).map(String::as_str), Some("ann@example.com"));
    stop(running).await;
}
