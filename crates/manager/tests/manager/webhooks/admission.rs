//! Objects are defaulted, validated and converted, on both servers.

use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::time::{sleep, timeout};
use windlass_testserver::{TestServer, on_each_server};

use crate::webhooks::gadgets::kinds::{v1, v2};
use crate::webhooks::gadgets::{LIMIT, PAUSE, Replica, free_address, gadget, manager, options};

/// Creates an object that the webhook refuses, until it does: servers take a moment to notice a
/// configuration.
async fn wait_for_denial(gadgets: &Api<v2::Gadget>) -> String {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let denial = async {
        loop {
            match gadgets.create(&params, &gadget("large", Some(101))).await {
                Err(kube::Error::Api(status)) if status.code == 422 => return status.message,
                _ => sleep(PAUSE).await,
            }
        }
    };
    timeout(LIMIT, denial).await.expect("the webhook must be called")
}

on_each_server!(objects_are_defaulted_validated_and_converted);
async fn objects_are_defaulted_validated_and_converted(cluster: TestServer) {
    let namespace = cluster.namespace("webhooks").await.expect("a namespace");
    let client: Client = cluster.client().expect("a client");
    let replica =
        Replica::start_and_wait(manager(&cluster, options(&namespace, free_address()))).await;
    let newer: Api<v2::Gadget> = Api::namespaced(client.clone(), &namespace);
    assert_eq!(
        wait_for_denial(&newer).await,
        "admission webhook \"validate-v2.gadgets.webhooks.example.com\" denied the \
             request: Gadget.webhooks.example.com \"large\" is invalid: spec.shape.size: \
             Invalid value: 101: is too large"
    );
    let params = PostParams::default();
    let made = newer.create(&params, &gadget("red", None)).await.expect("it is admitted");
    assert_eq!(made.spec.shape.size, Some(7));

    // The old version does not know the color, and does not lose it.
    let older: Api<v1::Gadget> = Api::namespaced(client.clone(), &namespace);
    let mut seen = older.get("red").await.expect("it is converted");
    assert_eq!(seen.spec.size, Some(7));
    seen.spec.size = Some(8);
    older.replace("red", &params, &seen).await.expect("it is converted back");
    let shape = newer.get("red").await.expect("it is there").spec.shape;
    assert_eq!(json!(shape), json!({"size": 8, "color": "red"}));
    replica.end().await;
}
