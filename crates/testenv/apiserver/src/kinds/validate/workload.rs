//! Validation of the kinds that create pods: numbers, selectors and templates.

use serde_json::{Value, json};

use super::pod;
use super::values::{not_negative, text};
use crate::field_error::FieldError;
use crate::selector::object;

/// Validates an object of the kind with that plural. Other kinds have no checks.
pub(super) fn workload(plural: &str, object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    match plural {
        // The real server says "deployment" for both.
        "deployments" | "replicasets" => replicated(spec, "deployment", errors),
        "statefulsets" => replicated(spec, "statefulset", errors),
        // A daemon set without a selector only gets the mismatch error.
        "daemonsets" => selected(spec, "daemonset", errors),
        "replicationcontrollers" => replication_controller(spec, errors),
        "jobs" => {
            for field in ["parallelism", "completions", "backoffLimit"] {
                not_negative(spec, field, "spec", errors);
            }
            job_template(&spec["template"], "spec.template", errors);
        }
        "cronjobs" => cron_job(spec, errors),
        _ => {}
    }
}

/// Validates a kind with replicas and a selector.
fn replicated(spec: &Value, name: &str, errors: &mut Vec<FieldError>) {
    not_negative(spec, "replicas", "spec", errors);
    if spec.get("selector").is_none() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    selected(spec, name, errors);
}

/// Validates a kind with a selector and pods that restart always.
fn selected(spec: &Value, name: &str, errors: &mut Vec<FieldError>) {
    let labels = &spec["template"]["metadata"]["labels"];
    match spec.get("selector") {
        None => mismatch(labels, errors),
        Some(selector) => {
            let before = errors.len();
            object::validate(selector, "spec.selector", errors);
            let invalid = |detail: &str| FieldError::invalid("spec.selector", selector, detail);
            if errors.len() > before {
                errors.push(invalid("invalid label selector"));
                return;
            }
            if object::is_empty(selector) {
                errors.push(invalid(&format!("empty selector is invalid for {name}")));
            } else if !object::selects(selector, labels) {
                mismatch(labels, errors);
            }
        }
    }
    template_of_always(&spec["template"], errors);
}

/// Validates the template of pods that restart always.
fn template_of_always(template: &Value, errors: &mut Vec<FieldError>) {
    pod::pod_spec(&template["spec"], "spec.template.spec", errors);
    if let Some(policy) = text(&template["spec"], "restartPolicy")
        && matches!(policy, "OnFailure" | "Never")
    {
        let field = "spec.template.spec.restartPolicy";
        errors.push(FieldError::not_supported(field, &json!(policy), &["Always"]));
    }
}

/// Validates a replication controller, whose selector is a plain map.
fn replication_controller(spec: &Value, errors: &mut Vec<FieldError>) {
    not_negative(spec, "replicas", "spec", errors);
    let selector =
        spec.get("selector").and_then(Value::as_object).filter(|selector| !selector.is_empty());
    if selector.is_none() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    if spec.get("template").is_none() {
        errors.push(FieldError::required("spec.template", ""));
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if selector
        .is_some_and(|selector| selector.iter().any(|(key, value)| labels.get(key) != Some(value)))
    {
        mismatch(labels, errors);
    }
    template_of_always(&spec["template"], errors);
}

/// Validates a cron job. Its schedule has five fields, or is a name such as `@daily`.
fn cron_job(spec: &Value, errors: &mut Vec<FieldError>) {
    match text(spec, "schedule") {
        None => errors.push(FieldError::required("spec.schedule", "")),
        Some(schedule) if !schedule.starts_with('@') => {
            let fields: Vec<&str> = schedule.split_whitespace().collect();
            if fields.len() != 5 {
                let detail = format!(
                    "expected exactly 5 fields, found {}: [{}]",
                    fields.len(),
                    fields.join(" ")
                );
                errors.push(FieldError::invalid("spec.schedule", &json!(schedule), &detail));
            }
        }
        Some(_) => {}
    }
    let policies = ["Allow", "Forbid", "Replace"];
    if let Some(policy) = text(spec, "concurrencyPolicy")
        && !policies.contains(&policy)
    {
        errors.push(FieldError::not_supported("spec.concurrencyPolicy", &json!(policy), &policies));
    }
    job_template(
        &spec["jobTemplate"]["spec"]["template"],
        "spec.jobTemplate.spec.template",
        errors,
    );
}

/// Validates the template of pods that run to completion.
fn job_template(template: &Value, path: &str, errors: &mut Vec<FieldError>) {
    pod::pod_spec(&template["spec"], &format!("{path}.spec"), errors);
    if text(&template["spec"], "restartPolicy").is_none_or(|policy| policy == "Always") {
        let field = format!("{path}.spec.restartPolicy");
        errors.push(FieldError::required(field, "valid values: \"OnFailure\", \"Never\""));
    }
}

/// Adds the error for a template with labels that the selector does not match.
fn mismatch(labels: &Value, errors: &mut Vec<FieldError>) {
    let detail = "`selector` does not match template `labels`";
    errors.push(FieldError::invalid("spec.template.metadata.labels", labels, detail));
}
