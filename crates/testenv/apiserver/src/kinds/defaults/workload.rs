//! Defaults of the kinds that create pods: deployments, sets, jobs and the replication controller.

use serde_json::{Value, json};

use super::{fill, is_empty, items, on, part, pod, set, text};

/// The annotation in which a daemon set counts the changes of its template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The pod labels with the name of the job, and (below) those with its uid.
const JOB_NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const JOB_UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// Fills in a deployment. Only a rolling update has `maxUnavailable` and `maxSurge`.
pub(super) fn deployment(object: &mut Value) {
    let numbers = [("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))];
    on(object, "spec.strategy", |strategy| rolling_update(strategy, numbers));
    on(object, "spec.template.spec", pod::pod_spec);
}

/// Fills in a daemon set like a deployment, and the generation of its template.
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

/// Fills in a stateful set. The default update strategy is a rolling update.
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

/// The selector and labels of a replication controller default to the labels of its template.
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

/// A job with neither `completions` nor `parallelism` runs one pod. This must run before the
/// fragment, which always fills in `parallelism`.
pub(super) fn completions(object: &mut Value) {
    let spec = &object["spec"];
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        fill(object, "spec", json!({}));
        on(object, "spec", |spec| set(spec, "completions", json!(1)));
    }
}

/// Fills in a job. It selects its pods by its uid, unless `manualSelector` is set.
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

/// Copies the labels of its template to an object without labels.
fn copy_labels(object: &mut Value, labels: Value) {
    if is_empty(object["metadata"].get("labels")) && !is_empty(Some(&labels)) {
        on(object, "metadata", |metadata| set(metadata, "labels", labels));
    }
}

/// Fills in the settings of a rolling update, if the strategy is one.
fn rolling_update(strategy: &mut Value, numbers: [(&str, Value); 2]) {
    if strategy["type"] == "RollingUpdate" {
        fill(strategy, "rollingUpdate", json!({}));
        for (field, number) in numbers {
            on(strategy, "rollingUpdate", |rolling| fill(rolling, field, number));
        }
    }
}
