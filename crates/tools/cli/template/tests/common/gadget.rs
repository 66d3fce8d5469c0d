//! A Gadget, and a look at what was made for it.

use ::gadget_operator::gadget::Gadget;
// if deployments
use k8s_openapi::api::apps::v1::Deployment;
// end
// if statefulsets
use k8s_openapi::api::apps::v1::StatefulSet;
// end
// if configmaps
use k8s_openapi::api::core::v1::ConfigMap;
// end
// if services
use k8s_openapi::api::core::v1::Service;
// end
// if serviceaccounts
use k8s_openapi::api::core::v1::ServiceAccount;
// end
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::json;
use windlass::reconciler::ConditionType;
use windlass_testing::TestCluster;

use super::metadata;

/// The name of the Gadget of deploy/example-gadget.yaml, and of everything that is made for it.
pub const HELLO: &str = "hello-gadget";

/// The Gadget of deploy/example-gadget.yaml.
pub const EXAMPLE: &str = include_str!("../../deploy/example-gadget.yaml");

const READY: ConditionType = ConditionType::new("Ready");

/// The Gadget of deploy/example-gadget.yaml.
pub fn example() -> Gadget {
    serde_saphyr::from_str(EXAMPLE).expect("a Gadget")
}

/// Whether a Gadget is ready, as it is now.
pub fn is_ready(gadget: &Gadget) -> bool {
    gadget.status.as_ref().is_some_and(|status| {
        status.observed_generation == gadget.metadata.generation
            && READY.is_true(&status.conditions)
    })
}

/// Why a Gadget is blocked; `None` if it is not.
pub fn blocked(gadget: &Gadget) -> Option<&str> {
    let ready = READY.find(&gadget.status.as_ref()?.conditions)?;
    (ready.reason == "Blocked").then_some(ready.message.as_str())
}

/// The metadata of what was made for the example, in each kind; `None` if it is not there.
pub async fn made(cluster: &TestCluster) -> Vec<Option<ObjectMeta>> {
    vec![
        // if configmaps
        metadata::<ConfigMap>(cluster, HELLO).await,
        // end
        // if deployments
        metadata::<Deployment>(cluster, HELLO).await,
        // end
        // if services
        metadata::<Service>(cluster, HELLO).await,
        // end
        // if serviceaccounts
        metadata::<ServiceAccount>(cluster, HELLO).await,
        // end
        // if statefulsets
        metadata::<StatefulSet>(cluster, HELLO).await,
        // end
    ]
}

/// Deletes what was made for the example, as somebody might by mistake.
pub async fn delete_made(cluster: &TestCluster) {
    // if configmaps
    cluster.delete::<ConfigMap>(HELLO).await;
    // end
    // if deployments
    cluster.delete::<Deployment>(HELLO).await;
    // end
    // if services
    cluster.delete::<Service>(HELLO).await;
    // end
    // if serviceaccounts
    cluster.delete::<ServiceAccount>(HELLO).await;
    // end
    // if statefulsets
    cluster.delete::<StatefulSet>(HELLO).await;
    // end
}

/// Everything that the operator does for a Gadget, so that it uses every verb that it has.
pub async fn play(cluster: &TestCluster) {
    let gadgets: Api<Gadget> = Api::namespaced(cluster.client(), cluster.namespace());
    // The server may call webhooks for it, and takes a moment to learn where they are.
    let create = async || {
        let created = gadgets.create(&PostParams::default(), &example()).await;
        created.map_err(|error| error.to_string())
    };
    cluster.eventually_ok(create).await;
    cluster.eventually::<Gadget>(HELLO, is_ready).await;
    cluster.patch::<Gadget>(HELLO, json!({"spec": {"title": "Another title"}})).await;
    cluster.eventually::<Gadget>(HELLO, is_ready).await;
    delete_made(cluster).await;
    let all_are_back = async || {
        let made = made(cluster).await;
        let is_there = made.iter().flatten().all(|one| one.deletion_timestamp.is_none());
        if is_there && made.iter().all(Option::is_some) { Ok(()) } else { Err(format!("{made:?}")) }
    };
    cluster.eventually_ok(all_are_back).await;
    // The operator must not make again what the garbage collector deletes first.
    cluster.delete_in_foreground::<Gadget>(HELLO).await;
}
