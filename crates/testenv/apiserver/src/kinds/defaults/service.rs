//! Defaults of services, except for their address, which `write/service.rs` assigns.

use serde_json::{Value, json};

use super::{fill, is_empty, items, remove, set, text};

/// The default session affinity timeout: three hours.
const CLIENT_IP_TIMEOUT_SECONDS: u32 = 10_800;

/// Fills in the spec of a service.
pub(super) fn service(spec: &mut Value) {
    session_affinity(spec);
    for port in items(spec, "ports") {
        target_port(port);
    }
    let kind = text(spec, "type").unwrap_or_default().to_owned();
    let public = matches!(kind.as_str(), "NodePort" | "LoadBalancer");
    let external_ips =
        spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    if public || (kind == "ClusterIP" && external_ips) {
        fill(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
    if public || kind == "ClusterIP" {
        fill(spec, "internalTrafficPolicy", json!("Cluster"));
        ip_families(spec);
    }
}

/// Fills in or removes the settings of the session affinity: only affinity by client IP has them.
fn session_affinity(spec: &mut Value) {
    match text(spec, "sessionAffinity") {
        Some("None") => remove(spec, "sessionAffinityConfig"),
        Some("ClientIP")
            if !spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_number() =>
        {
            let config = json!({"clientIP": {"timeoutSeconds": CLIENT_IP_TIMEOUT_SECONDS}});
            set(spec, "sessionAffinityConfig", config);
        }
        _ => {}
    }
}

/// The target port defaults to the port.
fn target_port(port: &mut Value) {
    let unset = port.get("targetPort").is_none_or(|target| target == 0 || target == "");
    if let Some(number) = port.get("port").cloned()
        && unset
    {
        set(port, "targetPort", number);
    }
}

/// The IP families of a cluster with IPv4 only. A headless service without a selector may have
/// endpoints of both families in any cluster.
fn ip_families(spec: &mut Value) {
    let address = text(spec, "clusterIP").map(str::to_owned);
    let unselective = is_empty(spec.get("selector"));
    let (families, policy) = match address.as_deref() {
        Some("None") if unselective => (json!(["IPv4", "IPv6"]), "RequireDualStack"),
        Some(address) if address.contains(':') => (json!(["IPv6"]), "SingleStack"),
        _ => (json!(["IPv4"]), "SingleStack"),
    };
    if let Some(address) = address {
        fill(spec, "clusterIPs", json!([address]));
    }
    fill(spec, "ipFamilies", families);
    fill(spec, "ipFamilyPolicy", json!(policy));
}
