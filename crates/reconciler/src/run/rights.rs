//! Which rights a controller needs for a request of a run. Only used while `cargo windlass rbac`
//! runs the tests; see [`Evidence`](windlass_informer::evidence::Evidence).
//!
//! Tests seldom meet every case. So a write also stands for what the same helper may have to do in
//! another case: read the object again after a conflict, or delete a child that is not wanted any
//! more.

use std::sync::Arc;

use http::Request;
use kube::client::Body;
use serde_json::Value;
use windlass_informer::client::RequestTarget;
use windlass_informer::evidence::{Right, SentBy};

use crate::controller_core::ControllerCore;
use crate::objects::child_labels::CONTROLLER_LABEL;
use crate::objects::ownership::group_of;

/// Marks a request with its controller, and with the rights that the same code needs in other
/// cases. `write` is the target and the body of a request that writes.
pub(crate) fn mark_sender(
    core: &ControllerCore,
    request: &mut Request<Body>,
    write: Option<(&RequestTarget, &[u8])>,
) {
    let also = match write {
        Some((target, body)) => also_needed(core, request, target, body),
        None => Vec::new(),
    };
    request.extensions_mut().insert(SentBy { controller: Arc::clone(&core.controller), also });
}

fn also_needed(
    core: &ControllerCore,
    request: &Request<Body>,
    target: &RequestTarget,
    body: &[u8],
) -> Vec<(Right, &'static str)> {
    if target.subresource.is_some() || request.method() == http::Method::POST {
        return Vec::new();
    }
    // An apply of the reconciler's own may be YAML, which tells nothing here. Windlass sends JSON.
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let metadata = &body["metadata"];
    let is_child = metadata["labels"][CONTROLLER_LABEL].is_string();
    let preconditions = [&metadata["uid"], &metadata["resourceVersion"], &body["preconditions"]];
    let mut also = Vec::new();
    if is_child || preconditions.iter().any(|one| !one.is_null()) {
        also.push((Right::of_target("get", target), "and reads it again after a conflict"));
    }
    if is_child {
        for (verb, why) in [
            ("create", "and creates it if it is gone"),
            ("delete", "and deletes such children when they are not wanted any more"),
        ] {
            also.push((Right { name: None, ..Right::of_target(verb, target) }, why));
        }
    }
    let owners = metadata["ownerReferences"].as_array();
    for owner in owners.into_iter().flatten() {
        let owner_resource = core.sources.resource(|resource| {
            owner["kind"] == resource.kind()
                && owner["apiVersion"].as_str().map(group_of) == Some(resource.group())
        });
        let Some(resource) = owner_resource else { continue };
        if is_child && owner["controller"] == true {
            also.push((Right::on("get", &resource), "and reads its owner before it deletes one"));
        }
        if owner["blockOwnerDeletion"] == true {
            let mut right = Right::on("update", &resource);
            right.subresource = Some("finalizers".to_owned());
            also.push((right, "which blocks the deletion of its owner"));
        }
    }
    also
}
