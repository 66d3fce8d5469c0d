//! What the webhooks say when somebody writes a Gadget.

mod common;

use ::gadget_operator::gadget::Gadget;
use ::gadget_operator::gadget::admission::CONTACT;
use common::gadget::example;
use common::{at_work, stop};
// if validate
use kube::api::{Api, PostParams};
// end

fn with_contact(contact: &str) -> Gadget {
    let mut gadget = example();
    let annotations = gadget.metadata.annotations.get_or_insert_default();
    annotations.insert(CONTACT.to_owned(), contact.to_owned());
    gadget
}

// if validate
#[tokio::test(start_paused = true)]
async fn contact_that_is_no_address_is_refused() {
    let (cluster, running) = at_work().await;
    let gadgets: Api<Gadget> = Api::namespaced(cluster.client(), cluster.namespace());
    let refused = gadgets.create(&PostParams::default(), &with_contact("somebody")).await;
    let error = refused.expect_err("it is no address").to_string();
    assert!(error.contains("must be the address of somebody"), "{error}");
    cluster.create(&with_contact("ann@example.com")).await;
    stop(running).await;
}
// end

// if default
#[tokio::test(start_paused = true)]
async fn contact_is_stored_in_lower_case() {
    let (cluster, running) = at_work().await;
    let stored = cluster.create(&with_contact("Ann@Example.com")).await;
    let annotations = stored.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations.get(CONTACT).map(String::as_str), Some("ann@example.com"));
    stop(running).await;
}
// end
