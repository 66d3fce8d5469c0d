//! Endpoint slices.

use serde_json::{Value, json};

use super::references;

pub(super) fn slice_picture(slice: &Value, services: &[Value], pods: &[Value]) -> Value {
    let metadata = &slice["metadata"];
    let owners = references(metadata, services);
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let mut endpoints: Vec<Value> =
        endpoints.map(|endpoint| endpoint_picture(endpoint, pods)).collect();
    endpoints.sort_by_key(Value::to_string);
    json!({
        "generateName": metadata["generateName"],
        "labels": metadata["labels"],
        "owners": owners,
        "addressType": slice["addressType"],
        "ports": slice["ports"].as_array().cloned().unwrap_or_default(),
        "endpoints": endpoints,
    })
}

fn endpoint_picture(endpoint: &Value, pods: &[Value]) -> Value {
    let target = &endpoint["targetRef"];
    let pod = pods.iter().find(|pod| pod["metadata"]["uid"] == target["uid"]);
    let pod = pod.unwrap_or_else(|| panic!("no such pod: {endpoint}"));
    assert_eq!(target["name"], pod["metadata"]["name"]);
    assert_eq!(target["namespace"], pod["metadata"]["namespace"]);
    assert_eq!(endpoint["addresses"], json!([pod["status"]["podIP"]]));
    json!({
        "kind": target["kind"],
        "conditions": endpoint["conditions"],
        "hostname": endpoint["hostname"],
        "nodeName": endpoint["nodeName"],
        "zone": endpoint["zone"],
    })
}
