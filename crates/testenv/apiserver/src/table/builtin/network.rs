//! Services, endpoints, ingresses and network policies.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{BuiltIn, columns};
use crate::table::cells::{
    NONE, UNSET, given_or, join, labels, list, name, number, selector_or_none, text, with_more,
};

/// How many addresses, ports or hosts a cell shows.
const SHOWN: usize = 3;

pub(super) static SERVICES: BuiltIn = BuiltIn::new(columns::SERVICES, |object, now| {
    let spec = &object["spec"];
    json!([
        name(object),
        text(&spec["type"]),
        given_or(&spec["clusterIPs"][0], NONE),
        external_addresses(object),
        service_ports(list(&spec["ports"])),
        now.age(object),
        labels(&spec["selector"]),
    ])
});

pub(super) static ENDPOINTS: BuiltIn = BuiltIn::new(columns::ENDPOINTS, |object, now| {
    json!([name(object), endpoints(list(&object["subsets"])), now.age(object)])
});

pub(super) static ENDPOINT_SLICES: BuiltIn =
    BuiltIn::new(columns::ENDPOINTSLICES, |object, now| {
        let ports = list(&object["ports"]).iter().map(|port| match port["port"].as_i64() {
            Some(number) => number.to_string(),
            None => given_or(&port["name"], "*").to_owned(),
        });
        let addresses = list(&object["endpoints"]).iter().flat_map(|one| list(&one["addresses"]));
        json!([
            name(object),
            text(&object["addressType"]),
            first_of(ports),
            first_of(addresses.map(|address| text(address).to_owned())),
            now.age(object),
        ])
    });

pub(super) static INGRESSES: BuiltIn = BuiltIn::new(columns::INGRESSES, |object, now| {
    let spec = &object["spec"];
    json!([
        name(object),
        given_or(&spec["ingressClassName"], NONE),
        hosts(list(&spec["rules"])),
        load_balancer_addresses(object),
        if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" },
        now.age(object),
    ])
});

pub(super) static INGRESS_CLASSES: BuiltIn =
    BuiltIn::new(columns::INGRESSCLASSES, |object, now| {
        let default =
            &object["metadata"]["annotations"]["ingressclass.kubernetes.io/is-default-class"];
        let suffix = if default == "true" { " (default)" } else { "" };
        json!([
            format!("{}{suffix}", name(object)),
            text(&object["spec"]["controller"]),
            class_parameters(&object["spec"]["parameters"]),
            now.age(object),
        ])
    });

pub(super) static NETWORK_POLICIES: BuiltIn =
    BuiltIn::new(columns::NETWORKPOLICIES, |object, now| {
        json!([name(object), selector_or_none(&object["spec"]["podSelector"]), now.age(object)])
    });

/// Returns the external addresses of a service, which depend on its type.
fn external_addresses(service: &Value) -> String {
    let spec = &service["spec"];
    let given = join(list(&spec["externalIPs"]).iter().map(text));
    let or = |addresses: String, otherwise: &str| {
        if addresses.is_empty() { otherwise.to_owned() } else { addresses }
    };
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" => or(given, NONE),
        "LoadBalancer" => {
            let balanced = load_balancer_addresses(service);
            let both = [balanced.as_str(), &given];
            or(join(both.into_iter().filter(|part| !part.is_empty())), "<pending>")
        }
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn load_balancer_addresses(object: &Value) -> String {
    let ingress = list(&object["status"]["loadBalancer"]["ingress"]).iter();
    let address = |one: &'_ Value| match text(&one["ip"]) {
        "" => text(&one["hostname"]).to_owned(),
        ip => ip.to_owned(),
    };
    let addresses: BTreeSet<String> =
        ingress.map(address).filter(|address| !address.is_empty()).collect();
    join(addresses.iter().map(String::as_str))
}

fn service_ports(ports: &[Value]) -> String {
    let port = |port: &Value| {
        let (number, node, protocol) =
            (number(&port["port"]), number(&port["nodePort"]), text(&port["protocol"]));
        if node > 0 {
            format!("{number}:{node}/{protocol}")
        } else {
            format!("{number}/{protocol}")
        }
    };
    let ports: Vec<String> = ports.iter().map(port).collect();
    if ports.is_empty() { NONE.to_owned() } else { ports.join(",") }
}

/// Formats every address with every port of its subset.
fn endpoints(subsets: &[Value]) -> String {
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let all = subsets.iter().flat_map(|subset| {
        let ports = list(&subset["ports"]);
        // A headless service may have no ports.
        let ports: Vec<Option<i64>> = if ports.is_empty() {
            vec![None]
        } else {
            ports.iter().map(|port| Some(number(&port["port"]))).collect()
        };
        ports.into_iter().flat_map(|port| {
            list(&subset["addresses"]).iter().map(move |address| {
                match (text(&address["ip"]), port) {
                    (ip, None) => ip.to_owned(),
                    (ip, Some(port)) if ip.contains(':') => format!("[{ip}]:{port}"),
                    (ip, Some(port)) => format!("{ip}:{port}"),
                }
            })
        })
    });
    Some(first_of(all)).filter(|shown| shown != UNSET).unwrap_or_default()
}

/// Returns the first few items, and how many more there are.
fn first_of(mut items: impl Iterator<Item = String>) -> String {
    let shown: Vec<String> = items.by_ref().take(SHOWN).collect();
    let shown = shown.join(",");
    match items.count() {
        0 if shown.is_empty() => UNSET.to_owned(),
        0 => shown,
        more => with_more(&shown, more),
    }
}

/// Formats the hosts of an ingress. The rest is counted in rules, some of which may have no host.
fn hosts(rules: &[Value]) -> String {
    let with_host = |rule: &&Value| !text(&rule["host"]).is_empty();
    let shown: Vec<&str> =
        rules.iter().filter(with_host).take(SHOWN).map(|rule| text(&rule["host"])).collect();
    if shown.is_empty() {
        return "*".to_owned();
    }
    let last = rules.iter().enumerate().filter(|(_, rule)| with_host(rule)).nth(SHOWN - 1);
    let more = last.is_some_and(|(last, _)| last + 1 < rules.len());
    if more { with_more(&shown.join(","), rules.len() - SHOWN) } else { shown.join(",") }
}

fn class_parameters(parameters: &Value) -> String {
    if parameters.is_null() {
        return NONE.to_owned();
    }
    let kind = text(&parameters["kind"]);
    let qualified = match parameters["apiGroup"].as_str() {
        Some(group) => format!("{kind}.{group}"),
        None => kind.to_owned(),
    };
    format!("{qualified}/{}", text(&parameters["name"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_beyond_the_third_are_counted_with_the_rules_that_have_none() {
        let rules = |hosts: &[&str]| -> Vec<Value> {
            hosts.iter().map(|host| json!({"host": host})).collect()
        };
        assert_eq!(hosts(&rules(&[])), "*");
        assert_eq!(hosts(&rules(&["", ""])), "*");
        assert_eq!(hosts(&rules(&["a", "", "b", "c"])), "a,b,c");
        assert_eq!(hosts(&rules(&["a", "b", "c", ""])), "a,b,c + 1 more...");
        assert_eq!(hosts(&rules(&["a", "", "b", "c", "d"])), "a,b,c + 2 more...");
    }
}
