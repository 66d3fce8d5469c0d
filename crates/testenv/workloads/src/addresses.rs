//! Addresses of simulated nodes and pods: each node has one, and a range for its pods.
//!
//! Nothing listens on them. A pod's status and the endpoints of a service need an address, so each
//! pod gets the lowest free one, unique while the pod lives.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;

use windlass_indexer::ObjectKey;

use crate::objects::Node;

/// The first address of the pod ranges, `10.128.0.0/9`.
const PODS: u32 = 0x0a80_0000;

/// How many addresses a node has for its pods: a `/20`.
const RANGE: u32 = 1 << 12;

/// The first address of nodes, `172.16.0.0/12`.
const NODES: u32 = 0xac10_0000;

/// The maximum number of nodes that get a range.
pub(crate) const NODES_MAX: u32 = 1 << 11;

/// The addresses of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// The address of the node itself.
    pub(crate) host: Ipv4Addr,
    /// The first address of its pod range.
    base: u32,
}

/// The pod addresses in use.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// The taken addresses, by the first address of their range.
    taken: BTreeMap<u32, BTreeSet<u32>>,
    /// The pod that holds each address, by key and uid.
    held: HashMap<ObjectKey, (Option<String>, u32, u32)>,
}

impl Network {
    /// Returns the addresses of the node with this number.
    pub(crate) fn numbered(number: u32) -> Self {
        let number = number.min(NODES_MAX - 1);
        Self { host: Ipv4Addr::from(NODES + number + 1), base: PODS + number * RANGE }
    }

    /// Returns the addresses in the node object. If one is missing or outside of our ranges, the
    /// address of the first node is used.
    pub(crate) fn of(node: &Node) -> Self {
        let first = Self::numbered(0);
        let addresses = node.status["addresses"].as_array().into_iter().flatten();
        let mut internal = addresses.filter(|address| address["type"] == "InternalIP");
        let host = internal.find_map(|address| address["address"].as_str()?.parse().ok());
        let range = node.spec.pod_cidr.as_deref().and_then(|range| range.split_once('/'));
        let base = range.and_then(|(base, _)| base.parse::<Ipv4Addr>().ok()).map(u32::from);
        let base = base.filter(|base| (PODS..PODS + NODES_MAX * RANGE).contains(base));
        Self { host: host.unwrap_or(first.host), base: base.unwrap_or(first.base) & !(RANGE - 1) }
    }

    /// Returns the pod range in CIDR notation.
    pub(crate) fn pod_cidr(self) -> String {
        format!("{}/20", Ipv4Addr::from(self.base))
    }
}

impl Addresses {
    /// Returns the address of a pod, which keeps it until it is [released](Self::release). Returns
    /// `None` if the range of its node is used up.
    pub(crate) fn take(
        &mut self,
        key: &ObjectKey,
        uid: Option<&str>,
        network: Network,
    ) -> Option<Ipv4Addr> {
        if let Some((holder, base, address)) = self.held.get(key)
            && holder.as_deref() == uid
            && *base == network.base
        {
            return Some(Ipv4Addr::from(*address));
        }
        self.release(key);
        let taken = self.taken.entry(network.base).or_default();
        // The first is the network address, the last the broadcast address.
        let mut range = network.base + 1..network.base + RANGE - 1;
        let address = range.find(|address| !taken.contains(address))?;
        taken.insert(address);
        self.held.insert(key.clone(), (uid.map(str::to_owned), network.base, address));
        Some(Ipv4Addr::from(address))
    }

    /// Records an address that a pod already has from an earlier run.
    pub(crate) fn note(&mut self, key: &ObjectKey, uid: Option<&str>, address: &str) {
        let Ok(address) = address.parse::<Ipv4Addr>().map(u32::from) else { return };
        let base = address & !(RANGE - 1);
        self.taken.entry(base).or_default().insert(address);
        self.held.insert(key.clone(), (uid.map(str::to_owned), base, address));
    }

    /// Frees the address of a pod that no longer exists.
    pub(crate) fn release(&mut self, key: &ObjectKey) {
        if let Some((_, base, address)) = self.held.remove(key)
            && let Some(taken) = self.taken.get_mut(&base)
        {
            taken.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("x", name)
    }

    #[test]
    fn lowest_free_address_is_taken_and_kept() {
        let mut addresses = Addresses::default();
        let network = Network::numbered(1);
        let mut take = |name: &str, uid: &str| {
            addresses.take(&key(name), Some(uid), network).map(|address| address.to_string())
        };
        assert_eq!(take("a", "1").as_deref(), Some("10.128.16.1"));
        assert_eq!(take("b", "2").as_deref(), Some("10.128.16.2"));
        assert_eq!(take("a", "1").as_deref(), Some("10.128.16.1"));
        // Another pod of the same name.
        assert_eq!(take("a", "3").as_deref(), Some("10.128.16.1"));
        addresses.note(&key("old"), Some("4"), "10.128.16.3");
        addresses.release(&key("a"));
        let names = ["c", "d"].map(|name| addresses.take(&key(name), None, network));
        assert_eq!(names, [Some([10, 128, 16, 1].into()), Some([10, 128, 16, 4].into())]);
    }

    #[test]
    fn range_has_an_end() {
        let mut addresses = Addresses::default();
        let taken = (0..5000)
            .filter_map(|at| addresses.take(&key(&at.to_string()), None, Network::numbered(0)));
        assert_eq!(taken.count(), 4094);
    }

    #[test]
    fn network_is_that_of_the_node_or_the_first() {
        let node = |spec, status| -> Node {
            serde_json::from_value(json!({"metadata": {}, "spec": spec, "status": status}))
                .expect("a node")
        };
        let network = Network::numbered(3);
        let addresses = json!([{"type": "InternalIP", "address": network.host.to_string()}]);
        let ours = node(json!({"podCIDR": network.pod_cidr()}), json!({"addresses": addresses}));
        assert_eq!(Network::of(&ours), network);
        let foreign = node(json!({"podCIDR": "192.168.0.0/24"}), json!({}));
        assert_eq!(Network::of(&foreign), Network::numbered(0));
    }
}
