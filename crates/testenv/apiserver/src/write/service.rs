//! The cluster IP of a service.
//!
//! It is derived from the revision of the write that creates the service. So no two services get
//! the same address within a million writes, and the same writes give the same addresses. No
//! address is reserved: an address that a client asks for is not compared with those in use.

use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

/// The first cluster IP, `10.96.0.0`, as in kubeadm.
const FIRST: u32 = 0x0a60_0000;

/// The number of addresses: a `/12`.
const RANGE: u64 = 1 << 20;

/// The first addresses are left for clients to ask for: `10.96.0.1` is the API server's own on most
/// clusters, and `10.96.0.10` that of DNS.
const RESERVED: u64 = 256;

/// Assigns an address to a new service, unless its type has none or the client asks for one.
/// `revision` is the revision that the service will have.
pub(super) fn assign_address(service: &mut Map<String, Value>, revision: u64) {
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if !has_address(spec) || !is_open(spec) {
        return;
    }
    let offset = RESERVED + revision % (RANGE - RESERVED);
    let address = Ipv4Addr::from(FIRST + u32::try_from(offset).unwrap_or(0)).to_string();
    spec.insert("clusterIPs".into(), json!([address]));
    spec.insert("clusterIP".into(), address.into());
}

/// Keeps the address if the new object has none, unless the new type has no address.
pub(super) fn keep_address(old: &Map<String, Value>, new: &mut Map<String, Value>) {
    let Some(held) = old.get("spec").and_then(Value::as_object) else { return };
    let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if has_address(held) && has_address(spec) && is_open(spec) {
        for field in ["clusterIP", "clusterIPs"] {
            if let Some(value) = held.get(field) {
                spec.insert(field.to_owned(), value.clone());
            }
        }
    }
    // A client that only knows the older of the two fields has changed that one alone.
    if has_address(spec)
        && !is_open(spec)
        && spec.get("clusterIP") != held.get("clusterIP")
        && spec.get("clusterIPs") == held.get("clusterIPs")
    {
        let address = spec.get("clusterIP").cloned().unwrap_or_default();
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
}

fn has_address(spec: &Map<String, Value>) -> bool {
    spec.get("type").is_some_and(|kind| kind != "ExternalName")
}

/// Whether the spec does not name an address.
fn is_open(spec: &Map<String, Value>) -> bool {
    spec.get("clusterIP").and_then(Value::as_str).is_none_or(str::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: &Value) -> Map<String, Value> {
        json!({"spec": spec}).as_object().cloned().expect("an object")
    }

    fn assigned(spec: &Value, revision: u64) -> Value {
        let mut service = service(spec);
        assign_address(&mut service, revision);
        service["spec"]["clusterIP"].clone()
    }

    #[test]
    fn address_is_that_of_the_revision_and_in_the_range() {
        assert_eq!(assigned(&json!({"type": "ClusterIP"}), 5), "10.96.1.5");
        assert_eq!(assigned(&json!({"type": "NodePort", "clusterIP": ""}), 6), "10.96.1.6");
        assert_eq!(assigned(&json!({"type": "ClusterIP"}), RANGE - RESERVED - 1), "10.111.255.255");
        assert_eq!(assigned(&json!({"type": "ClusterIP"}), RANGE - RESERVED), "10.96.1.0");
    }

    #[test]
    fn requested_address_and_external_name_are_respected() {
        assert_eq!(assigned(&json!({"type": "ClusterIP", "clusterIP": "None"}), 5), "None");
        assert_eq!(assigned(&json!({"type": "ExternalName"}), 5), Value::Null);
    }

    #[test]
    fn address_stays_unless_the_type_has_none() {
        let old = service(&json!({"type": "ClusterIP", "clusterIP": "a", "clusterIPs": ["a"]}));
        let kept = |spec: &Value| {
            let mut new = service(spec);
            keep_address(&old, &mut new);
            new["spec"].get("clusterIP").cloned().unwrap_or_default()
        };
        assert_eq!(kept(&json!({"type": "NodePort"})), "a");
        assert_eq!(kept(&json!({"type": "ClusterIP", "clusterIP": "b"})), "b");
        assert_eq!(kept(&json!({"type": "ExternalName"})), Value::Null);
    }
}
