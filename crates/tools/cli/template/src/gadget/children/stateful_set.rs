//! The `StatefulSet` of a Gadget.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
// if services
use kube::ResourceExt as _;
// end

use super::pod;
use crate::gadget::Gadget;

/// The label on its pods that tells them from others of the same Gadget.
const COMPONENT: &str = "store";

/// The `StatefulSet` that a Gadget should have.
pub(super) fn of(gadget: &Gadget) -> StatefulSet {
    StatefulSet {
        metadata: super::metadata(gadget),
        spec: StatefulSetSpec {
            replicas: Some(gadget.spec.replicas),
            // if services
            service_name: Some(gadget.name_any()),
            // end
            selector: pod::selector(gadget, COMPONENT),
            template: pod::template(gadget, COMPONENT),
            ..StatefulSetSpec::default()
        },
        ..StatefulSet::default()
    }
}

/// What it still waits for, in words; `None` if all of its pods are new and available.
pub(super) fn pending(made: &StatefulSet) -> Option<String> {
    let wanted = made.spec.replicas.unwrap_or(1);
    let status = made.status.clone().unwrap_or_default();
    let available = status.available_replicas.unwrap_or(0);
    // What the status says of an older generation is not about this spec.
    let is_done = status.observed_generation == made.metadata.generation
        && available == wanted
        && status.replicas == wanted
        && status.current_revision == status.update_revision;
    (!is_done).then(|| format!("{available} of {wanted} pods of the StatefulSet are available"))
}
