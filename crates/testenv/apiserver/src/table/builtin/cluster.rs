//! Nodes, namespaces, leases, and the classes of pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{BuiltIn, columns};
use crate::table::cells::{NONE, list, name, number, text, text_or};

/// The cell for a value that a node does not report.
const UNKNOWN: &str = "<unknown>";

/// The prefix of labels that name a role of a node.
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";

pub(super) static NODES: BuiltIn = BuiltIn::new(columns::NODES, |object, now| {
    let info = &object["status"]["nodeInfo"];
    let kernel = text_or(&info["kernelVersion"], UNKNOWN);
    let kernel = match text(&info["architecture"]) {
        "" => kernel.to_owned(),
        architecture => format!("{kernel} ({architecture})"),
    };
    json!([
        name(object),
        node_status(object),
        node_roles(object),
        now.age(object),
        text(&info["kubeletVersion"]),
        node_address(object, "InternalIP"),
        node_address(object, "ExternalIP"),
        text_or(&info["osImage"], UNKNOWN),
        kernel,
        text_or(&info["containerRuntimeVersion"], UNKNOWN),
    ])
});

pub(super) static NAMESPACES: BuiltIn = BuiltIn::new(columns::NAMESPACES, |object, now| {
    json!([name(object), text(&object["status"]["phase"]), now.age(object)])
});

pub(super) static LEASES: BuiltIn = BuiltIn::new(columns::LEASES, |object, now| {
    json!([name(object), text(&object["spec"]["holderIdentity"]), now.age(object)])
});

pub(super) static PRIORITY_CLASSES: BuiltIn =
    BuiltIn::new(columns::PRIORITYCLASSES, |object, now| {
        let is_default = object["globalDefault"] == true;
        let policy = text(&object["preemptionPolicy"]);
        json!([name(object), number(&object["value"]), is_default, now.age(object), policy])
    });

pub(super) static RUNTIME_CLASSES: BuiltIn =
    BuiltIn::new(columns::RUNTIMECLASSES, |object, now| {
        json!([name(object), text(&object["handler"]), now.age(object)])
    });

fn node_status(node: &Value) -> String {
    // If there are several conditions of a type, the last one counts.
    let conditions = list(&node["status"]["conditions"]).iter();
    let ready = conditions.rev().find(|condition| condition["type"] == "Ready");
    let status = match ready.map(|condition| text(&condition["status"])) {
        None => "Unknown",
        Some("True") => "Ready",
        Some(_) => "NotReady",
    };
    let disabled = node["spec"]["unschedulable"] == true;
    format!("{status}{}", if disabled { ",SchedulingDisabled" } else { "" })
}

fn node_roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None => (key == "kubernetes.io/role").then(|| text(value)),
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        return NONE.to_owned();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn node_address<'a>(node: &'a Value, address_type: &str) -> &'a str {
    let mut addresses = list(&node["status"]["addresses"]).iter();
    let found = addresses.find(|address| address["type"] == address_type);
    found.map_or(NONE, |address| text(&address["address"]))
}
