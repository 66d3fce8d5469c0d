//! What the tests share: the operator at work on a cluster, and a look at what it made.
#![allow(dead_code, reason = "every test file uses a part of it")]

use gadget_operator::{Gadget, manager};
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
use kube::api::ObjectMeta;
use windlass::prelude::Options;
use windlass::reconciler::ConditionType;
use windlass_testing::{Cluster, Running, TestObject};

/// The name of the Gadget of deploy/example.yaml, and of everything that is made for it.
pub const HELLO: &str = "hello";

const READY: ConditionType = ConditionType::new("Ready");

/// Starts the operator, with its Lease in this namespace.
pub fn start(cluster: &Cluster, lease_namespace: &str) -> Running {
    let mut options = Options::default();
    options.leader_election_namespace = Some(lease_namespace.to_owned());
    cluster.run_manager(manager(options))
}

/// The Gadget of deploy/example.yaml.
pub fn example() -> Gadget {
    serde_saphyr::from_str(include_str!("../../deploy/example.yaml")).expect("a Gadget")
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
pub async fn made(cluster: &Cluster) -> Vec<Option<ObjectMeta>> {
    vec![
        // if configmaps
        metadata::<ConfigMap>(cluster).await,
        // end
        // if deployments
        metadata::<Deployment>(cluster).await,
        // end
        // if services
        metadata::<Service>(cluster).await,
        // end
        // if serviceaccounts
        metadata::<ServiceAccount>(cluster).await,
        // end
        // if statefulsets
        metadata::<StatefulSet>(cluster).await,
        // end
    ]
}

/// Deletes what was made for the example, as somebody might by mistake.
pub async fn delete_made(cluster: &Cluster) {
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

async fn metadata<K: TestObject>(cluster: &Cluster) -> Option<ObjectMeta> {
    cluster.get_opt::<K>(HELLO).await.map(|object| object.meta().clone())
}
