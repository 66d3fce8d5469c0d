//! Defaults of pods and of the pod templates in other kinds.
//!
//! Templates get the defaults of every pod spec. A pod also gets what the server only adds to pods:
//! requests from limits, tolerations, priority and its first status.

use serde_json::{Value, json};

use super::quantity::Quantity;
use super::{fill, inherit, items, on, part, set, text};

/// The lists of containers in a pod spec.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// The default time, in seconds, that a pod stays on a node that is not ready or unreachable.
const TOLERATION_SECONDS: u32 = 300;

/// Fills in a pod.
pub(super) fn pod(object: &mut Value, create: bool) {
    on(object, "spec", |spec| {
        pod_spec(spec);
        own_spec(spec);
        if create {
            priority(spec);
        }
    });
    if create {
        first_status(object);
    }
}

/// Fills in the spec fields that a pod gets and a template does not.
fn own_spec(spec: &mut Value) {
    let host_network = spec["hostNetwork"] == true;
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            requests_from_limits(container);
            if host_network {
                items(container, "ports").for_each(host_port);
            }
        }
    }
    tolerations(spec);
}

/// Fills in the defaults of every pod spec, in a pod or in a template.
pub(super) fn pod_spec(spec: &mut Value) {
    part("podSpec", spec);
    service_account(spec);
    items(spec, "volumes").for_each(volume);
    for list in CONTAINERS {
        items(spec, list).for_each(container);
    }
}

/// The service account field has an old and a new name. The new one wins.
fn service_account(spec: &mut Value) {
    let name = text(spec, "serviceAccountName")
        .or_else(|| text(spec, "serviceAccount"))
        .map(str::to_owned);
    if let Some(name) = name {
        set(spec, "serviceAccountName", json!(name));
        set(spec, "serviceAccount", json!(name));
    }
}

/// A volume without a source is an empty directory.
fn volume(volume: &mut Value) {
    if volume.as_object().is_some_and(|fields| fields.keys().all(|field| field == "name")) {
        set(volume, "emptyDir", json!({}));
    }
    part("volume", volume);
    on(volume, "ephemeral.volumeClaimTemplate.spec", |spec| part("claimSpec", spec));
    on(volume, "image", |image| {
        let policy = pull_policy(text(image, "reference").unwrap_or_default());
        fill(image, "pullPolicy", json!(policy));
    });
}

/// Fills in a container and its probes.
fn container(container: &mut Value) {
    part("container", container);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        on(container, probe, |probe| part("probe", probe));
    }
    let policy = pull_policy(text(container, "image").unwrap_or_default());
    fill(container, "imagePullPolicy", json!(policy));
}

/// Returns `Always` for the tag `latest`, which is also the default if there is neither tag nor
/// digest.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) =
        image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    // A colon before the last slash belongs to the port of the registry.
    let tag = name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    match (tag, digest) {
        (Some("latest"), _) | (None, None) if !image.is_empty() => "Always",
        _ => "IfNotPresent",
    }
}

/// A resource with a limit and no request gets the limit as its request.
fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container["resources"].get("limits").cloned() else { return };
    on(container, "resources", |resources| fill(resources, "requests", json!({})));
    on(container, "resources.requests", |requests| inherit(requests, &limits));
}

/// With host networking, the host port defaults to the container port.
fn host_port(port: &mut Value) {
    if let Some(number) = port.get("containerPort").cloned() {
        fill(port, "hostPort", number);
    }
}

/// Adds the tolerations that keep a pod on its node while the node is briefly unavailable.
fn tolerations(spec: &mut Value) {
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = items(spec, "tolerations").any(|toleration| {
            text(toleration, "key").is_none_or(|key| key == taint)
                && text(toleration, "effect").is_none_or(|effect| effect == "NoExecute")
        });
        if tolerated {
            continue;
        }
        fill(spec, "tolerations", json!([]));
        if let Some(tolerations) = spec.get_mut("tolerations").and_then(Value::as_array_mut) {
            tolerations.push(json!({
                "key": taint,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": TOLERATION_SECONDS,
            }));
        }
    }
}

/// Sets the priority of a pod without a class, or with one of the two system classes.
fn priority(spec: &mut Value) {
    let priority = match text(spec, "priorityClassName") {
        None => 0,
        Some("system-cluster-critical") => 2_000_000_000,
        Some("system-node-critical") => 2_000_001_000,
        Some(_) => return,
    };
    fill(spec, "priority", json!(priority));
    fill(spec, "preemptionPolicy", json!("PreemptLowerPriority"));
}

/// Sets the status of a new pod: pending, and blocked if it has scheduling gates.
fn first_status(object: &mut Value) {
    let class = quality_of_service(&object["spec"]);
    let mut status = json!({"phase": "Pending", "qosClass": class});
    let gated = object["spec"]
        .get("schedulingGates")
        .and_then(Value::as_array)
        .is_some_and(|gates| !gates.is_empty());
    if gated {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": object["metadata"]["creationTimestamp"],
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    set(object, "status", status);
}

/// Returns the quality of service class: guaranteed if all containers have limits for cpu and
/// memory that equal their requests, best effort if no container has limits or requests, and
/// burstable otherwise.
fn quality_of_service(spec: &Value) -> &'static str {
    let whole = spec
        .get("resources")
        .filter(|resources| resources.as_object().is_some_and(|fields| !fields.is_empty()));
    let resources: Vec<&Value> = match whole {
        Some(whole) => vec![whole],
        None => ["containers", "initContainers"]
            .iter()
            .filter_map(|list| spec.get(list)?.as_array())
            .flatten()
            .map(|container| &container["resources"])
            .collect(),
    };
    let amount = |resources: &Value, of: &str, name: &str| {
        resources
            .get(of)
            .and_then(|amounts| amounts.get(name))
            .and_then(Quantity::parse)
            .filter(|amount| amount.is_positive())
    };
    let mut any = false;
    let mut guaranteed = true;
    for resources in resources {
        for name in ["cpu", "memory"] {
            let request = amount(resources, "requests", name);
            let limit = amount(resources, "limits", name);
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_tag_or_with_latest_is_always_pulled() {
        for image in ["nginx", "nginx:latest", "localhost:5000/nginx", "a.example/b/c:latest"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        for image in ["nginx:1", "nginx@sha256:00", "localhost:5000/nginx:v1", ""] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }

    #[test]
    fn quality_of_service_compares_amounts_and_not_their_spelling() {
        let pod = |limits: Value, requests: Value| json!({"containers": [{"resources": {"limits": limits, "requests": requests}}]});
        let limits = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(
            quality_of_service(&pod(limits.clone(), json!({"cpu": "1000m", "memory": "1024Mi"}))),
            "Guaranteed"
        );
        assert_eq!(
            quality_of_service(&pod(limits, json!({"cpu": "1", "memory": "1023Mi"}))),
            "Burstable"
        );
        assert_eq!(quality_of_service(&pod(json!({"cpu": 0}), json!({}))), "BestEffort");
        assert_eq!(
            quality_of_service(&pod(json!({"example.com/gpu": "1"}), json!({}))),
            "BestEffort"
        );
    }
}
