//! Validation of the kinds that create pods: numbers, selectors and templates.

use serde_json::{Value, json};

use super::pod;
use super::values::{not_negative, text};
use crate::field_error::FieldError;

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
        Some(selector) => match parse(selector, errors) {
            None => {
                errors.push(FieldError::invalid(
                    "spec.selector",
                    selector,
                    "invalid label selector",
                ));
                return;
            }
            Some(requirements) if requirements.is_empty() => {
                let detail = format!("empty selector is invalid for {name}");
                errors.push(FieldError::invalid("spec.selector", selector, &detail));
            }
            Some(requirements) => {
                if !requirements.iter().all(|requirement| requirement.holds(labels)) {
                    mismatch(labels, errors);
                }
            }
        },
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

/// One condition of a label selector.
enum Requirement<'a> {
    /// The label has one of these values.
    In(&'a str, Vec<&'a str>),
    /// The label has none of these values, or is not there.
    NotIn(&'a str, Vec<&'a str>),
    /// The label is there.
    Exists(&'a str),
    /// The label is not there.
    DoesNotExist(&'a str),
}

impl Requirement<'_> {
    /// Whether the labels meet the requirement.
    fn holds(&self, labels: &Value) -> bool {
        let label = |key: &str| labels.get(key).and_then(Value::as_str);
        match self {
            Self::In(key, values) => label(key).is_some_and(|value| values.contains(&value)),
            Self::NotIn(key, values) => label(key).is_none_or(|value| !values.contains(&value)),
            Self::Exists(key) => label(key).is_some(),
            Self::DoesNotExist(key) => label(key).is_none(),
        }
    }
}

/// Parses a label selector. Adds its errors and returns `None` if it is invalid.
fn parse<'a>(selector: &'a Value, errors: &mut Vec<FieldError>) -> Option<Vec<Requirement<'a>>> {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let mut requirements: Vec<Requirement<'_>> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| Requirement::In(key, value.as_str().into_iter().collect()))
        .collect();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let before = errors.len();
    for (index, expression) in expressions.into_iter().flatten().enumerate() {
        let path = format!("spec.selector.matchExpressions[{index}]");
        requirements.extend(requirement(expression, &path, errors));
    }
    (errors.len() == before).then_some(requirements)
}

/// Parses one expression of a label selector. Adds its error and returns `None` if it is invalid.
fn requirement<'a>(
    expression: &'a Value,
    path: &str,
    errors: &mut Vec<FieldError>,
) -> Option<Requirement<'a>> {
    let key = text(expression, "key").unwrap_or_default();
    let values: Vec<&str> = expression
        .get("values")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let operator = text(expression, "operator").unwrap_or_default();
    match (operator, values.is_empty()) {
        ("In", false) => Some(Requirement::In(key, values)),
        ("NotIn", false) => Some(Requirement::NotIn(key, values)),
        ("Exists", true) => Some(Requirement::Exists(key)),
        ("DoesNotExist", true) => Some(Requirement::DoesNotExist(key)),
        ("In" | "NotIn", true) => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(format!("{path}.values"), detail));
            None
        }
        ("Exists" | "DoesNotExist", false) => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(format!("{path}.values"), detail));
            None
        }
        _ => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid(format!("{path}.operator"), &json!(operator), detail));
            None
        }
    }
}
