//! The slices that a service should have, and the changes that lead there.
//!
//! One slice for each address family and set of ports, and another for every hundred endpoints. A
//! service without endpoints has an empty slice.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use windlass_reconciler::{OwnershipError, owner_reference};

use super::endpoint::{endpoint, ports};
use crate::objects::{Endpoint, EndpointPort, EndpointSlice, Node, Pod, Service};

/// The service that a slice belongs to.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The controller that writes a slice.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Marks the slices of a headless service.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// The maximum number of endpoints in one slice: as upstream.
const ENDPOINTS_MAX: usize = 100;

/// A pod, and its node if that has an object.
pub(super) type Located = (Arc<Pod>, Option<Arc<Node>>);

/// The writes to make.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) create: Vec<EndpointSlice>,
    /// The slice as it is, and as it should be.
    pub(super) update: Vec<(Arc<EndpointSlice>, EndpointSlice)>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
}

/// Compares the existing slices with the desired ones.
///
/// # Errors
/// If the service was not read from a server.
pub(super) fn changes(
    service: &Service,
    pods: &[Located],
    present: &[Arc<EndpointSlice>],
) -> Result<Changes, OwnershipError> {
    let mut changes = Changes::default();
    let mut left: Vec<Arc<EndpointSlice>> = present.to_vec();
    left.sort_by_cached_key(|slice| slice.name_any());
    for family in families(service) {
        for (ports, endpoints) in groups(service, pods, family == "IPv6") {
            let is_like =
                |slice: &Arc<EndpointSlice>| slice.address_type == family && slice.ports == ports;
            let wanted = EndpointSlice {
                metadata: metadata(service)?,
                address_type: family.to_owned(),
                endpoints,
                ports: ports.clone(),
            };
            match left.iter().position(is_like) {
                None => changes.create.push(wanted),
                Some(at) => {
                    let old = left.remove(at);
                    let mut new = EndpointSlice::clone(&old);
                    new.metadata.labels = wanted.metadata.labels;
                    new.endpoints = wanted.endpoints;
                    changes.update.push((old, new));
                }
            }
        }
    }
    changes.delete = left;
    Ok(changes)
}

/// Returns the address families of the service, as slices name them.
fn families(service: &Service) -> Vec<&'static str> {
    let has = |family: &str| service.spec.ip_families.iter().any(|one| one == family);
    match (has("IPv4"), has("IPv6")) {
        (true, true) => vec!["IPv4", "IPv6"],
        (false, true) => vec!["IPv6"],
        _ => vec!["IPv4"],
    }
}

/// Returns the endpoints of each slice, with their ports.
fn groups(
    service: &Service,
    pods: &[Located],
    is_ipv6: bool,
) -> Vec<(Vec<EndpointPort>, Vec<Endpoint>)> {
    let mut by_ports: BTreeMap<Vec<EndpointPort>, Vec<Endpoint>> = BTreeMap::new();
    for (pod, node) in pods {
        let endpoint = endpoint(service, pod, node.as_deref(), is_ipv6);
        if !endpoint.addresses.is_empty() {
            by_ports.entry(ports(service, pod)).or_default().push(endpoint);
        }
    }
    if by_ports.is_empty() {
        return vec![(Vec::new(), Vec::new())];
    }
    let chunks = by_ports.iter().flat_map(|(ports, endpoints)| {
        endpoints.chunks(ENDPOINTS_MAX).map(|chunk| (ports.clone(), chunk.to_vec()))
    });
    chunks.collect()
}

fn metadata(service: &Service) -> Result<ObjectMeta, OwnershipError> {
    let mut labels = service.labels().clone();
    labels.remove(HEADLESS);
    labels.insert(SERVICE_NAME.to_owned(), service.name_any());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if service.is_headless() {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    Ok(ObjectMeta {
        generate_name: Some(format!("{}-", service.name_any())),
        namespace: service.namespace(),
        labels: Some(labels),
        owner_references: Some(vec![owner_reference(service)?]),
        ..ObjectMeta::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(spec: &Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "x", "uid": "1", "labels": {"team": "a"}},
            "spec": spec,
        }))
        .expect("a service")
    }

    fn pods(count: usize, port: i32) -> Vec<Located> {
        let pod = |at: usize| {
            json!({
                "metadata": {"name": format!("p{port}-{at}")},
                "spec": {"containers": [{"ports": [{"name": "http", "containerPort": port}]}]},
                "status": {"podIPs": [{"ip": format!("10.0.{port}.{at}")}]},
            })
        };
        (0..count)
            .map(|at| (Arc::new(serde_json::from_value(pod(at)).expect("a pod")), None))
            .collect()
    }

    fn one_port() -> Value {
        json!({"ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}]})
    }

    fn sizes(slices: &[EndpointSlice]) -> Vec<(usize, usize)> {
        slices.iter().map(|slice| (slice.ports.len(), slice.endpoints.len())).collect()
    }

    #[test]
    fn slices_are_by_ports_and_by_the_hundred() {
        let all: Vec<_> = pods(150, 1).into_iter().chain(pods(2, 2)).collect();
        let changes = changes(&service(&one_port()), &all, &[]).expect("changes");
        assert_eq!(sizes(&changes.create), [(1, 100), (1, 50), (1, 2)]);
        let slice = &changes.create[0];
        assert_eq!(slice.metadata.generate_name.as_deref(), Some("web-"));
        assert_eq!(
            json!(slice.labels()),
            json!({"team": "a", SERVICE_NAME: "web", MANAGED_BY: MANAGER})
        );
        assert_eq!(slice.owner_references()[0].kind, "Service");
    }

    #[test]
    fn service_without_endpoints_has_an_empty_slice() {
        let empty = changes(&service(&one_port()), &[], &[]).expect("changes");
        assert_eq!(sizes(&empty.create), [(0, 0)]);
        // It stays while there are none, and goes when there are some.
        let present = [Arc::new(empty.create[0].clone())];
        let still = changes(&service(&one_port()), &[], &present).expect("changes");
        assert!(still.create.is_empty() && still.delete.is_empty());
        let filled = changes(&service(&one_port()), &pods(1, 1), &present).expect("changes");
        assert_eq!((sizes(&filled.create), filled.delete.len()), (vec![(1, 1)], 1));
    }

    #[test]
    fn slice_with_the_same_ports_is_kept() {
        let first = changes(&service(&one_port()), &pods(2, 1), &[]).expect("changes");
        let present = [Arc::new(first.create[0].clone())];
        let headless = json!({
            "clusterIP": "None", "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}],
        });
        let next = changes(&service(&headless), &pods(3, 1), &present).expect("changes");
        assert!(next.create.is_empty() && next.delete.is_empty());
        assert_eq!(next.update[0].1.endpoints.len(), 3);
        assert_eq!(next.update[0].1.labels()[HEADLESS], "");
    }

    #[test]
    fn families_are_those_of_the_service() {
        let dual = service(&json!({"ipFamilies": ["IPv6", "IPv4"]}));
        let changes = changes(&dual, &pods(1, 1), &[]).expect("changes");
        let kinds: Vec<_> = changes
            .create
            .iter()
            .map(|slice| (slice.address_type.as_str(), slice.endpoints.len()))
            .collect();
        assert_eq!(kinds, [("IPv4", 1), ("IPv6", 0)]);
    }
}
