//! Defaults of the kinds that make pods: deployments, sets, jobs and the replication controller.

use serde_json::{Value, json};

use super::{fill, is_empty, items, on, part, pod, set, text};

/// The annotation in which a daemon set counts the changes of its template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The labels that tie the pods of a job to it: to its name, and to its uid.
const JOB_NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const JOB_UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// Only a rolling update has the numbers of one.
pub(super) fn deployment(object: &mut Value) {
    let numbers = [("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))];
    on(object, "spec.strategy", |strategy| rolling_update(strategy, numbers));
    on(object, "spec.template.spec", pod::pod_spec);
}

/// As a deployment, and with the count of its templates.
pub(super) fn daemon_set(object: &mut Value, create: bool) {
    let numbers = [("maxUnavailable", json!(1)), ("maxSurge", json!(0))];
    on(object, "spec.updateStrategy", |strategy| rolling_update(strategy, numbers));
    on(object, "spec.template.spec", pod::pod_spec);
    if create {
        on(object, "metadata", |metadata| fill(metadata, "annotations", json!({})));
        on(object, "metadata.annotations", |annotations| {
            fill(annotations, TEMPLATE_GENERATION, json!("1"));
        });
    }
}

/// A stateful set that says nothing about updates rolls from the last pod to the first.
pub(super) fn stateful_set(object: &mut Value) {
    on(object, "spec.updateStrategy", |strategy| {
        if text(strategy, "type").is_none() {
            set(strategy, "type", json!("RollingUpdate"));
            fill(strategy, "rollingUpdate", json!({}));
        }
        if strategy["type"] == "RollingUpdate" {
            on(strategy, "rollingUpdate", |rolling| fill(rolling, "partition", json!(0)));
        }
    });
    on(object, "spec", |spec| {
        for claim in items(spec, "volumeClaimTemplates") {
            on(claim, "spec", |spec| part("claimSpec", spec));
        }
    });
    on(object, "spec.template.spec", pod::pod_spec);
}

/// Selector and labels of a replication controller are those of its template.
pub(super) fn replication_controller(object: &mut Value) {
    on(object, "spec.template", |template| {
        fill(template, "metadata", json!({}));
        fill(template, "spec", json!({}));
    });
    on(object, "spec.template.spec", pod::pod_spec);
    let Some(labels) = object["spec"]["template"]["metadata"].get("labels").cloned() else {
        return;
    };
    if is_empty(object["spec"].get("selector")) {
        on(object, "spec", |spec| set(spec, "selector", labels.clone()));
    }
    copy_labels(object, labels);
}

/// A job that says neither how many pods must succeed nor how many may run is one pod. This comes
/// before the fragment, which fills in the second number in any case.
pub(super) fn completions(object: &mut Value) {
    let spec = &object["spec"];
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        fill(object, "spec", json!({}));
        on(object, "spec", |spec| set(spec, "completions", json!(1)));
    }
}

/// A job finds its pods by its own uid unless its author knows better.
pub(super) fn job(object: &mut Value, create: bool) {
    on(object, "spec", |spec| {
        let limit = if spec.get("backoffLimitPerIndex").is_some() { i32::MAX } else { 6 };
        fill(spec, "backoffLimit", json!(limit));
        let replacement =
            if spec.get("podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
        fill(spec, "podReplacementPolicy", json!(replacement));
    });
    on(object, "spec.template.spec", pod::pod_spec);
    if create && object["spec"]["manualSelector"] != true {
        select_by_uid(object);
    }
    if let Some(labels) = object["spec"]["template"]["metadata"].get("labels").cloned() {
        copy_labels(object, labels);
    }
}

/// Labels the pods of a job with its name and uid, and selects them by the uid.
fn select_by_uid(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    let uid = object["metadata"]["uid"].clone();
    on(object, "spec.template.metadata", |metadata| fill(metadata, "labels", json!({})));
    on(object, "spec.template.metadata.labels", |labels| {
        for label in JOB_NAME_LABELS {
            fill(labels, label, name.clone());
        }
        for label in JOB_UID_LABELS {
            fill(labels, label, uid.clone());
        }
    });
    on(object, "spec", |spec| fill(spec, "selector", json!({})));
    on(object, "spec.selector", |selector| fill(selector, "matchLabels", json!({})));
    on(object, "spec.selector.matchLabels", |labels| fill(labels, JOB_UID_LABELS[1], uid));
}

/// Gives an object without labels those of its template.
fn copy_labels(object: &mut Value, labels: Value) {
    if is_empty(object["metadata"].get("labels")) && !is_empty(Some(&labels)) {
        on(object, "metadata", |metadata| set(metadata, "labels", labels));
    }
}

/// Fills in the numbers of a rolling update, if the strategy is one.
fn rolling_update(strategy: &mut Value, numbers: [(&str, Value); 2]) {
    if strategy["type"] == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        for (field, number) in numbers {
            on(strategy, "rollingUpdate", |rolling| fill(rolling, field, number));
        }
    }
}
