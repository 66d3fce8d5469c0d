//! A pod as an endpoint of a service: addresses, ports, conditions.

use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use crate::objects::{Conditions, Endpoint, EndpointPort, Node, Pod, Service};
use crate::pod::{is_deleted, is_finished, is_ready};

/// Returns whether the pod has an address and has not ended.
pub(super) fn is_published(pod: &Pod) -> bool {
    !is_finished(pod) && !pod.status.pod_ips.is_empty()
}

/// Returns the endpoint of the pod, without addresses if it has none of this family.
pub(super) fn endpoint(
    service: &Service,
    pod: &Pod,
    node: Option<&Node>,
    is_ipv6: bool,
) -> Endpoint {
    let addresses = pod.status.pod_ips.iter().map(|address| address.ip.clone());
    let (serving, terminating) = (is_ready(pod), is_deleted(pod));
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    let zone = node.and_then(|node| node.labels().get("topology.kubernetes.io/zone").cloned());
    Endpoint {
        addresses: addresses.filter(|address| address.contains(':') == is_ipv6).collect(),
        conditions: Conditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: hostname(service, pod),
        target_ref: json!({
            "kind": "Pod",
            "namespace": pod.namespace(),
            "name": pod.name_any(),
            "uid": pod.uid(),
        }),
        node_name: crate::pod::node(pod).map(str::to_owned),
        zone,
        rest: Map::new(),
    }
}

/// Returns the ports of the service on this pod. A named port that the pod lacks is left out.
pub(super) fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.ports.iter().filter_map(|port| {
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        let number = match &port.target_port {
            Value::Number(number) => i32::try_from(number.as_i64()?).ok()?,
            Value::String(name) => container_port(pod, name, &protocol)?,
            _ => port.port,
        };
        Some(EndpointPort {
            name: port.name.clone(),
            port: Some(number),
            protocol: Some(protocol),
            app_protocol: port.app_protocol.clone(),
        })
    });
    ports.collect()
}

/// Returns the DNS name of a pod in the service's subdomain.
fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let hostname = pod.spec["hostname"].as_str().filter(|name| !name.is_empty())?;
    let is_there = pod.spec["subdomain"] == service.name_any();
    is_there.then(|| hostname.to_owned())
}

fn container_port(pod: &Pod, name: &str, protocol: &str) -> Option<i32> {
    let containers = pod.spec["containers"].as_array()?.iter();
    let mut ports = containers.flat_map(|one| one["ports"].as_array().into_iter().flatten());
    let port = ports.find(|port| {
        port["name"] == name && port["protocol"].as_str().unwrap_or("TCP") == protocol
    })?;
    i32::try_from(port["containerPort"].as_i64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: &Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec}))
            .expect("a service")
    }

    fn pod(is_ready: bool) -> Pod {
        let status = if is_ready { "True" } else { "False" };
        serde_json::from_value(json!({
            "metadata": {"name": "web-0", "namespace": "x", "uid": "1"},
            "spec": {
                "nodeName": "a", "hostname": "web-0", "subdomain": "web",
                "containers": [{"ports": [
                    {"name": "http", "containerPort": 8080},
                    {"name": "http", "containerPort": 8081, "protocol": "UDP"},
                ]}],
            },
            "status": {
                "phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                "conditions": [{"type": "Ready", "status": status}],
            },
        }))
        .expect("a pod")
    }

    #[test]
    fn endpoint_is_ready_if_the_pod_is_and_stays() {
        let conditions = |service: &Service, pod: &Pod| {
            let conditions = endpoint(service, pod, None, false).conditions;
            [conditions.ready, conditions.serving, conditions.terminating]
                .map(|one| one == Some(true))
        };
        let plain = service(&json!({}));
        assert_eq!(conditions(&plain, &pod(true)), [true, true, false]);
        assert_eq!(conditions(&plain, &pod(false)), [false, false, false]);
        let mut going = pod(true);
        going.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time");
        assert_eq!(conditions(&plain, &going), [false, true, true]);
        let all = service(&json!({"publishNotReadyAddresses": true}));
        assert_eq!(conditions(&all, &going), [true, true, true]);
    }

    #[test]
    fn endpoint_has_addresses_hostname_node_and_zone() {
        let labels = json!({"topology.kubernetes.io/zone": "z"});
        let node = json!({"metadata": {"name": "a", "labels": labels}});
        let node: Node = serde_json::from_value(node).expect("a node");
        let four = endpoint(&service(&json!({})), &pod(true), Some(&node), false);
        assert_eq!((four.node_name.as_deref(), four.zone.as_deref()), (Some("a"), Some("z")));
        assert_eq!(
            (four.addresses, four.hostname.as_deref()),
            (vec!["10.0.0.1".into()], Some("web-0"))
        );
        assert_eq!(four.target_ref["uid"], "1");
        assert_eq!(endpoint(&service(&json!({})), &pod(true), None, true).addresses, ["fd00::1"]);
    }

    #[test]
    fn ports_are_found_by_number_and_by_name() {
        let spec = json!({"ports": [
            {"name": "a", "port": 80, "targetPort": "http", "protocol": "TCP"},
            {"name": "b", "port": 81, "targetPort": 9090, "protocol": "TCP"},
            {"name": "c", "port": 82, "targetPort": "http", "protocol": "UDP"},
            {"name": "d", "port": 83, "targetPort": "absent", "protocol": "TCP"},
        ]});
        let ports = ports(&service(&spec), &pod(true));
        let numbers: Vec<_> =
            ports.iter().map(|port| (port.name.as_str(), port.port.unwrap_or(0))).collect();
        assert_eq!(numbers, [("a", 8080), ("b", 9090), ("c", 8081)]);
    }
}
