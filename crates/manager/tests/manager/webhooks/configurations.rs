//! What the API server is told when the code changes, and what a plan says about it.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::api::{Api, DeleteParams, PostParams};
use windlass_manager::Manager;
use windlass_testserver::TestServer;

use crate::webhooks::gadgets::kinds::v2;
use crate::webhooks::gadgets::{
    NAME, Replica, free_address, gadget, manager, options, webhooks_without_defaults,
};

#[tokio::test]
async fn webhook_that_the_code_does_not_have_any_more_is_not_called() {
    let cluster = TestServer::embedded();
    let namespace = cluster.namespace("removed").await.expect("a namespace");
    let options = options(&namespace, free_address());
    let client = cluster.client().expect("a client");
    let gadgets: Api<v2::Gadget> = Api::namespaced(client.clone(), &namespace);
    let create = async |name: &str| {
        let made = gadgets.create(&PostParams::default(), &gadget(name, None)).await;
        made.expect("it is admitted").spec.shape.size
    };
    let replica = Replica::start_and_wait(manager(&cluster, options.clone())).await;
    assert_eq!(create("red").await, Some(7));
    replica.end().await;

    let without = manager(&cluster, options).webhooks(NAME, webhooks_without_defaults());
    let replica = Replica::start_and_wait(without).await;
    assert_eq!(create("blue").await, None);
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let left = mutating.get(NAME).await.expect("it is there").webhooks;
    assert!(left.unwrap_or_default().is_empty(), "it must be empty");
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let left = validating.get(NAME).await.expect("it is there").webhooks;
    assert_eq!(left.unwrap_or_default().len(), 1);
    replica.end().await;
}

#[tokio::test]
async fn plan_has_the_conversion_and_the_configurations() {
    let cluster = TestServer::embedded();
    let namespace = cluster.namespace("plan").await.expect("a namespace");
    let options = options(&namespace, free_address());
    let client = cluster.client().expect("a client");
    Replica::start_and_wait(manager(&cluster, options.clone())).await.end().await;
    let plan = async |manager: Manager| manager.plan().await.expect("a plan").to_string();
    let nothing = "0 writes planned. Nothing was changed.\n";
    assert_eq!(plan(manager(&cluster, options.clone())).await, nothing);

    let without = manager(&cluster, options.clone()).webhooks(NAME, webhooks_without_defaults());
    let text = plan(without).await;
    assert!(
        text.starts_with(
            "webhook configurations\n    ~ mutatingwebhookconfigurations.\
             admissionregistration.k8s.io gadgets\n        webhooks"
        ),
        "{text}"
    );
    assert!(text.ends_with("1 writes planned. Nothing was changed.\n"), "{text}");

    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client);
    validating.delete(NAME, &DeleteParams::default()).await.expect("deleted");
    assert_eq!(
        plan(manager(&cluster, options)).await,
        "webhook configurations\n    \
             + validatingwebhookconfigurations.admissionregistration.k8s.io gadgets\n\
         1 writes planned. Nothing was changed.\n"
    );
    assert!(validating.get_opt(NAME).await.expect("an answer").is_none());
}
