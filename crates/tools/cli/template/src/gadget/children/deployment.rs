//! The Deployment of a Gadget.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};

use super::pod;
use crate::gadget::Gadget;

/// The label on its pods that tells them from others of the same Gadget.
const COMPONENT: &str = "server";

/// The Deployment that a Gadget should have.
pub(super) fn of(gadget: &Gadget) -> Deployment {
    Deployment {
        metadata: super::metadata(gadget),
        spec: DeploymentSpec {
            replicas: Some(gadget.spec.replicas),
            selector: pod::selector(gadget, COMPONENT),
            template: pod::template(gadget, COMPONENT),
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

/// What it still waits for, in words; `None` if all of its pods are new and available.
pub(super) fn pending(made: &Deployment) -> Option<String> {
    let wanted = made.spec.replicas.unwrap_or(1);
    let status = made.status.clone().unwrap_or_default();
    let available = status.available_replicas.unwrap_or(0);
    // What the status says of an older generation is not about this spec.
    let is_done = status.observed_generation == made.metadata.generation
        && available == wanted
        && status.updated_replicas.unwrap_or(0) == wanted
        && status.replicas.unwrap_or(0) == wanted;
    (!is_done).then(|| format!("{available} of {wanted} pods of the Deployment are available"))
}
