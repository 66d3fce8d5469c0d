//! Stateful sets, their revisions and their claims.

use serde_json::{Value, json};

use super::{counts, references};

pub(super) fn set_picture(set: &Value) -> Value {
    let (metadata, status) = (&set["metadata"], &set["status"]);
    json!({
        "name": metadata["name"],
        "isObserved": status["observedGeneration"] == metadata["generation"],
        "counts": counts(status),
        // These are names of revisions, and the same on every cluster.
        "currentRevision": status["currentRevision"],
        "updateRevision": status["updateRevision"],
        "collisions": status["collisionCount"],
    })
}

pub(super) fn revision_picture(revision: &Value, sets: &[Value]) -> Value {
    let metadata = &revision["metadata"];
    json!({
        "name": metadata["name"],
        "labels": metadata["labels"],
        "annotations": metadata["annotations"],
        "owners": references(metadata, sets),
        "revision": revision["revision"],
        "data": revision["data"],
    })
}

pub(super) fn claim_picture(claim: &Value, owners: &[Value]) -> Value {
    let metadata = &claim["metadata"];
    json!({
        "name": metadata["name"],
        "labels": metadata["labels"],
        "owners": references(metadata, owners),
        "spec": claim["spec"],
        "phase": claim["status"]["phase"],
    })
}
