//! Deployments and the other workloads that keep pods running.

use serde_json::{Value, json};

use super::{BuiltIn, columns};
use crate::table::cells::{
    NONE, containers, labels, list, name, number, selector, selector_or_none, text,
};

pub(super) static DEPLOYMENTS: BuiltIn = BuiltIn::new(columns::DEPLOYMENTS, |object, now| {
    let [names, images] = template_containers(object);
    let status = &object["status"];
    json!([
        name(object),
        ready(object),
        number(&status["updatedReplicas"]),
        number(&status["availableReplicas"]),
        now.age(object),
        names,
        images,
        selector(&object["spec"]["selector"]).unwrap_or_else(|| "<invalid>".to_owned()),
    ])
});

pub(super) static REPLICA_SETS: BuiltIn = BuiltIn::new(columns::REPLICASETS, |object, now| {
    let [names, images] = template_containers(object);
    let [desired, current, ready] = replicas(object);
    let selector = selector_or_none(&object["spec"]["selector"]);
    json!([name(object), desired, current, ready, now.age(object), names, images, selector])
});

pub(super) static REPLICATION_CONTROLLERS: BuiltIn =
    BuiltIn::new(columns::REPLICATIONCONTROLLERS, |object, now| {
        let [names, images] = template_containers(object);
        let [desired, current, ready] = replicas(object);
        let selector = labels(&object["spec"]["selector"]);
        json!([name(object), desired, current, ready, now.age(object), names, images, selector])
    });

pub(super) static STATEFUL_SETS: BuiltIn = BuiltIn::new(columns::STATEFULSETS, |object, now| {
    let [names, images] = template_containers(object);
    json!([name(object), ready(object), now.age(object), names, images])
});

pub(super) static DAEMON_SETS: BuiltIn = BuiltIn::new(columns::DAEMONSETS, |object, now| {
    let [names, images] = template_containers(object);
    let (spec, status) = (&object["spec"], &object["status"]);
    json!([
        name(object),
        number(&status["desiredNumberScheduled"]),
        number(&status["currentNumberScheduled"]),
        number(&status["numberReady"]),
        number(&status["updatedNumberScheduled"]),
        number(&status["numberAvailable"]),
        labels(&spec["template"]["spec"]["nodeSelector"]),
        now.age(object),
        names,
        images,
        selector_or_none(&spec["selector"]),
    ])
});

pub(super) static CONTROLLER_REVISIONS: BuiltIn =
    BuiltIn::new(columns::CONTROLLERREVISIONS, |object, now| {
        json!([name(object), controller(object), number(&object["revision"]), now.age(object)])
    });

fn template_containers(object: &Value) -> [Value; 2] {
    containers(&object["spec"]["template"]["spec"]["containers"])
}

fn ready(object: &Value) -> String {
    let [desired, _, ready] = replicas(object);
    format!("{ready}/{desired}")
}

/// Returns the desired, current and ready replicas.
fn replicas(object: &Value) -> [i64; 3] {
    let status = &object["status"];
    [&object["spec"]["replicas"], &status["replicas"], &status["readyReplicas"]].map(number)
}

/// Returns the owner of a revision, such as `statefulset.apps/web`.
fn controller(object: &Value) -> String {
    let owners = list(&object["metadata"]["ownerReferences"]);
    let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else {
        return NONE.to_owned();
    };
    let kind = text(&owner["kind"]).to_lowercase();
    let group = text(&owner["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    crate::failure::qualified(&kind, &group.to_lowercase()) + "/" + text(&owner["name"])
}
