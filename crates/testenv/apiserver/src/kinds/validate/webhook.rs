//! Validation of webhook configurations, with the texts and the order of the real server.

use serde_json::{Value, json};

use super::values::text;
use crate::cel::Condition;
use crate::field_error::FieldError;
use crate::metadata::names;
use crate::selector::object;

/// The supported versions of `AdmissionReview`.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The form of a URL, for errors.
const URL_FORM: &str = "; desired format: https://host[/path]";

/// Validates a configuration of either kind.
pub(super) fn configuration(object: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = Vec::new();
    for (index, hook) in list(object, "webhooks").iter().enumerate() {
        let path = format!("webhooks[{index}]");
        webhook(hook, &path, errors);
        review_versions(hook, &format!("{path}.admissionReviewVersions"), errors);
        let name = text(hook, "name").unwrap_or_default();
        if seen.contains(&name) && !name.is_empty() {
            errors.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
        }
        seen.push(name);
    }
}

fn webhook(hook: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let at = |field: &str| format!("{path}.{field}");
    qualified(text(hook, "name").unwrap_or_default(), &at("name"), errors);
    for (index, one) in list(hook, "rules").iter().enumerate() {
        rule(one, &format!("{path}.rules[{index}]"), errors);
    }
    one_of(hook, "failurePolicy", path, &["Fail", "Ignore"], errors);
    one_of(hook, "matchPolicy", path, &["Equivalent", "Exact"], errors);
    if text(hook, "sideEffects").is_none() {
        let detail = "must specify one of None, NoneOnDryRun";
        errors.push(FieldError::required(at("sideEffects"), detail));
    }
    one_of(hook, "sideEffects", path, &["None", "NoneOnDryRun"], errors);
    if let Some(seconds) = hook["timeoutSeconds"].as_i64().filter(|n| !(1..=30).contains(n)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(at("timeoutSeconds"), &seconds.into(), detail));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        object::validate(&hook[field], &at(field), errors);
    }
    one_of(hook, "reinvocationPolicy", path, &["IfNeeded", "Never"], errors);
    let client = &hook["clientConfig"];
    match (text_or_empty(client, "url"), client["service"].is_object()) {
        (Some(url), false) => check_url(url, &at("clientConfig.url"), errors),
        (None, true) => check_service(&client["service"], &at("clientConfig.service"), errors),
        _ => {
            let detail = "exactly one of url or service is required";
            errors.push(FieldError::required(at("clientConfig"), detail));
        }
    }
    match_conditions(hook, &at("matchConditions"), errors);
}

/// Returns a string field, even if it is empty.
fn text_or_empty<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn one_of(
    value: &Value,
    field: &str,
    path: &str,
    supported: &[&str],
    errors: &mut Vec<FieldError>,
) {
    if let Some(given) = text(value, field).filter(|given| !supported.contains(given)) {
        errors.push(FieldError::not_supported(format!("{path}.{field}"), &given.into(), supported));
    }
}

/// Checks that a name has at least three parts, so that names of different authors do not collide.
fn qualified(name: &str, path: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let wrong = names::subdomain(name);
    if !wrong.is_empty() {
        errors.push(FieldError::invalid_str(path, name, &wrong.join(",")));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid_str(path, name, detail));
    }
}

fn rule(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let at = |field: &str| format!("{path}.{field}");
    wildcard(rule, "operations", "operations", path, errors);
    for (index, operation) in list(rule, "operations").iter().enumerate() {
        if !OPERATIONS.iter().any(|known| operation == known) {
            let field = at(&format!("operations[{index}]"));
            errors.push(FieldError::not_supported(field, operation, &OPERATIONS));
        }
    }
    wildcard(rule, "apiGroups", "API groups", path, errors);
    wildcard(rule, "apiVersions", "API versions", path, errors);
    for (index, version) in list(rule, "apiVersions").iter().enumerate() {
        if version == "" {
            errors.push(FieldError::required(at(&format!("apiVersions[{index}]")), ""));
        }
    }
    resources(list(rule, "resources"), &at("resources"), errors);
    one_of(rule, "scope", path, &["*", "Cluster", "Namespaced"], errors);
}

/// Checks that a list is not empty, and that `*` stands alone.
fn wildcard(rule: &Value, field: &str, what: &str, path: &str, errors: &mut Vec<FieldError>) {
    let values = list(rule, field);
    let field = format!("{path}.{field}");
    if values.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if values.len() > 1 && values.iter().any(|value| value == "*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(field, &values.into(), &detail));
    }
}

fn resources(resources: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut any_part_of, mut part_of_any) = (Vec::new(), Vec::new());
    let mut has_plain = false;
    for (index, resource) in resources.iter().enumerate() {
        let field = format!("{path}[{index}]");
        let resource = resource.as_str().unwrap_or_default();
        if resource.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let Some((name, part)) = resource.split_once('/') else {
            // As on the real server, only the last one counts.
            has_plain = resource != "*";
            continue;
        };
        if any_part_of.contains(&name) {
            let detail = format!("if '{name}/*' is present, must not specify {resource}");
            errors.push(FieldError::invalid_str(field.clone(), resource, &detail));
        }
        if part_of_any.contains(&part) {
            let detail = format!("if '*/{part}' is present, must not specify {resource}");
            errors.push(FieldError::invalid_str(field, resource, &detail));
        }
        if part == "*" {
            any_part_of.push(name);
        }
        if name == "*" {
            part_of_any.push(part);
        }
    }
    let has = |wanted: &str| resources.iter().any(|resource| resource == wanted);
    if resources.len() > 1 && has("*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, &resources.into(), detail));
    }
    if has("*") && has_plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, &resources.into(), detail));
    }
}

/// Validates the URL of a webhook.
pub(crate) fn check_url(url: &str, path: &str, errors: &mut Vec<FieldError>) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let mut invalid = |value: &str, detail: String| {
        errors.push(FieldError::invalid_str(path, value, &detail));
    };
    if scheme != "https" {
        invalid(scheme, format!("'https' is the only allowed URL scheme{URL_FORM}"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() || scheme.is_empty() {
        invalid("", format!("host must be specified{URL_FORM}"));
    }
    if !user.is_empty() {
        invalid(user, "user information is not permitted in the URL".to_owned());
    }
    if !fragment.is_empty() {
        invalid(fragment, "fragments are not permitted in the URL".to_owned());
    }
    if !query.is_empty() {
        invalid(query, "query parameters are not permitted in the URL".to_owned());
    }
}

/// Validates the service of a webhook.
pub(crate) fn check_service(service: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for field in ["name", "namespace"] {
        if text(service, field).is_none() {
            errors.push(FieldError::required(format!("{path}.{field}"), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65_535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{path}.port"), &port.into(), detail));
    }
    let Some(given) = text(service, "path").filter(|given| *given != "/") else { return };
    let mut invalid = |detail: &str| {
        errors.push(FieldError::invalid_str(format!("{path}.path"), given, detail));
    };
    if given == "//" {
        return invalid("segment[0] may not be empty");
    }
    if !given.starts_with('/') {
        invalid("must start with a '/'");
    }
    // The real server skips the first character, whatever it is.
    let mut rest = given.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            invalid(&format!("segment[{index}] may not be empty"));
            continue;
        }
        for wrong in names::subdomain(step) {
            invalid(&format!("segment[{index}]: {wrong}"));
        }
    }
}

fn match_conditions(hook: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let conditions = list(hook, "matchConditions");
    if conditions.len() > 64 {
        errors.push(FieldError::too_many(path, conditions.len(), 64));
    }
    let mut seen = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = |field: &str| format!("{path}[{index}].{field}");
        match text(condition, "expression").map(str::trim).filter(|text| !text.is_empty()) {
            None => errors.push(FieldError::required(at("expression"), "")),
            Some(source) => {
                if let Err(why) = Condition::compile(source) {
                    errors.push(FieldError::invalid_str(at("expression"), source, &why));
                }
            }
        }
        let Some(name) = text(condition, "name") else {
            errors.push(FieldError::required(at("name"), ""));
            continue;
        };
        for wrong in names::qualified_name(name) {
            errors.push(FieldError::invalid_str(at("name"), name, &wrong));
        }
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(at("name"), &name.into()));
        }
        seen.push(name);
    }
}

fn review_versions(hook: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let versions = list(hook, "admissionReviewVersions");
    if versions.is_empty() {
        let detail = format!("must specify one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(FieldError::required(path, &detail));
        return;
    }
    check_review_versions(versions, path, &REVIEW_VERSIONS, errors);
}

/// Checks review versions: no duplicates, and at least one known version.
pub(crate) fn check_review_versions(
    versions: &[Value],
    path: &str,
    known: &[&str],
    errors: &mut Vec<FieldError>,
) {
    for (index, version) in versions.iter().enumerate() {
        let field = format!("{path}[{index}]");
        let version = version.as_str().unwrap_or_default();
        if versions[..index].iter().any(|earlier| earlier == version) {
            errors.push(FieldError::invalid_str(field, version, "duplicate version"));
            continue;
        }
        for wrong in names::dns1035_label(version) {
            errors.push(FieldError::invalid_str(field.clone(), version, &wrong));
        }
    }
    if !versions.iter().any(|version| known.iter().any(|known| version == known)) {
        let detail = format!("must include at least one of {}", known.join(", "));
        errors.push(FieldError::invalid(path, &json!(versions), &detail));
    }
}
