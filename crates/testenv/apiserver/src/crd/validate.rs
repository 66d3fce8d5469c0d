//! Validation of a `CustomResourceDefinition`, with the paths and messages of the real server.
//!
//! The real server moves what all versions have in common (schema, subresources, columns,
//! selectable fields) to the top of the definition before it validates, so that an error in the
//! schema of a definition with one version is found at `spec.validation.openAPIV3Schema`.
//! [`shared`] does the same. Metadata is validated here too, as its name depends on the definition.
//! Fields of the wrong JSON type count as absent.

mod names;
mod version;

use serde_json::{Value, json};

use crate::field_error::{FieldError, go_json, go_quote};
use crate::kinds::{check_review_versions, check_service, check_url};
use crate::metadata::{self, NameRule};

use names::check_names;

const APPROVAL: &str = "api-approved.kubernetes.io";

/// Sets the defaults of a definition: the singular, the list kind, the conversion, and the port of
/// the conversion webhook's Service.
pub(crate) fn default(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let kind = text(&spec["names"], "kind").to_owned();
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let mut fill = |name: &str, value: String| {
            let stated =
                names.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
            if !stated && !value.is_empty() {
                names.insert(name.to_owned(), value.into());
            }
        };
        fill("singular", kind.to_lowercase());
        fill("listKind", if kind.is_empty() { String::new() } else { format!("{kind}List") });
    }
    if spec["conversion"].is_null() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    let service = spec.pointer_mut("/conversion/webhook/clientConfig/service");
    if let Some(service) = service.and_then(Value::as_object_mut)
        && service.get("port").is_none_or(Value::is_null)
    {
        service.insert("port".to_owned(), 443.into());
    }
}

/// Validates a new definition and its metadata. [`default`] must have run before.
pub(crate) fn validate(crd: &Value) -> Vec<FieldError> {
    let required =
        format!("{}.{}", text(&crd["spec"]["names"], "plural"), text(&crd["spec"], "group"));
    let mut errors = metadata::validate_create_with(&crd["metadata"], false, &|name, is_prefix| {
        let rule = NameRule::Subdomain;
        let mut wrong = if is_prefix { rule.check_prefix(name) } else { rule.check(name) };
        if name != required {
            wrong.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        wrong
    });
    check_spec(&crd["spec"], &mut errors);
    // The real server adds the storage version to `status.storedVersions` before it validates.
    let storage = versions(&crd["spec"]).iter().find(|version| is_true(version, "storage"));
    let stored: Vec<&str> = storage.map(|version| text(version, "name")).into_iter().collect();
    check_stored_versions(&crd["spec"], &stored, &mut errors);
    check_approval(crd, None, &mut errors);
    check_preserve(crd, None, &mut errors);
    errors
}

/// Validates an update of a definition. This is only the part that is specific to definitions: the
/// caller runs [`metadata::validate_update_common`] first. An update keeps the old status.
pub(crate) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = metadata::validate_update(&new["metadata"], &old["metadata"]);
    let (spec, old_spec) = (&new["spec"], &old["spec"]);
    check_spec(spec, &mut errors);
    let mut immutable = |field: &str, value: &Value, before: &Value| {
        if value.as_str().unwrap_or_default() != before.as_str().unwrap_or_default() {
            let value = value.as_str().unwrap_or_default();
            errors.push(FieldError::invalid_str(field, value, "field is immutable"));
        }
    };
    if is_established(old) {
        immutable("spec.scope", &spec["scope"], &old_spec["scope"]);
        immutable("spec.names.kind", &spec["names"]["kind"], &old_spec["names"]["kind"]);
    }
    immutable("spec.group", &spec["group"], &old_spec["group"]);
    immutable("spec.names.plural", &spec["names"]["plural"], &old_spec["names"]["plural"]);
    let stored = old["status"]["storedVersions"].as_array().into_iter().flatten();
    let mut stored: Vec<&str> = stored.filter_map(Value::as_str).collect();
    let storage = versions(spec).iter().find(|version| is_true(version, "storage"));
    if let Some(name) =
        storage.map(|version| text(version, "name")).filter(|name| !stored.contains(name))
    {
        stored.push(name);
    }
    check_stored_versions(spec, &stored, &mut errors);
    check_approval(new, Some(old), &mut errors);
    check_preserve(new, Some(old), &mut errors);
    errors
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn is_true(value: &Value, name: &str) -> bool {
    value[name] == Value::Bool(true)
}

fn versions(spec: &Value) -> &[Value] {
    spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Established" && one["status"] == "True")
}

/// Returns the value at `name` if it is the same in all versions.
fn shared<'a>(spec: &'a Value, name: &str) -> Option<&'a Value> {
    let (first, others) = versions(spec).split_first()?;
    others.iter().all(|version| version[name] == first[name]).then(|| &first[name])
}

fn check_spec(spec: &Value, errors: &mut Vec<FieldError>) {
    check_group_and_scope(spec, errors);
    let versions = versions(spec);
    for (index, version) in versions.iter().enumerate() {
        if version["schema"]["openAPIV3Schema"].is_null() {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            errors.push(FieldError::required(field, ""));
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let name = text(version, "name");
        let wrong = metadata::names::dns1035_label(name);
        if !wrong.is_empty() {
            let field = format!("spec.versions[{index}].name");
            errors.push(FieldError::invalid_str(field, name, &wrong.join(",")));
        }
        version::check_own(spec, version, &format!("spec.versions[{index}]"), errors);
    }
    check_versions(spec, errors);
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"], name).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{name}"), ""));
        }
    }
    check_names(&spec["names"], "spec.names", errors);
    version::check_shared(spec, errors);
    check_conversion(&spec["conversion"], errors);
}

fn check_group_and_scope(spec: &Value, errors: &mut Vec<FieldError>) {
    let group = text(spec, "group");
    let wrong = metadata::names::subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid_str("spec.group", group, &wrong.join(",")));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid_str("spec.group", group, detail));
    }
    match text(spec, "scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let supported = ["Cluster", "Namespaced"];
            errors.push(FieldError::not_supported("spec.scope", &other.into(), &supported));
        }
    }
}

/// Checks the list of versions: names are unique, and exactly one is the storage version.
fn check_versions(spec: &Value, errors: &mut Vec<FieldError>) {
    let versions = versions(spec);
    let repeats = (1..versions.len()).any(|index| {
        versions[..index].iter().any(|one| text(one, "name") == text(&versions[index], "name"))
    });
    if repeats {
        let detail = "must contain unique version names";
        errors.push(FieldError::invalid_as("spec.versions", &render(spec), detail));
    }
    if versions.iter().filter(|version| is_true(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid_as("spec.versions", &render(spec), detail));
    }
    // The real server's internal type has a field of its own for the first version.
    let first = versions.first().map_or("", |version| text(version, "name"));
    let wrong = metadata::names::dns1035_label(first);
    if !first.is_empty() && !wrong.is_empty() {
        errors.push(FieldError::invalid_str("spec.version", first, &wrong.join(",")));
    }
}

/// Renders the versions as Go prints its internal structs. Fields that the versions do not share
/// are written as plain JSON, which is close but not the same.
fn render(spec: &Value) -> String {
    let Some(versions) = spec["versions"].as_array() else { return "null".to_owned() };
    let own = |version: &Value, name: &str| {
        if shared(spec, name).is_some() { "null".to_owned() } else { go_json(&version[name]) }
    };
    let rendered: Vec<_> = versions
        .iter()
        .map(|version| {
            format!(
                "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\
                 \"Schema\":{},\"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
                go_json(&text(version, "name").into()),
                is_true(version, "served"),
                is_true(version, "storage"),
                is_true(version, "deprecated"),
                go_json(&version["deprecationWarning"]),
                own(version, "schema"),
                own(version, "subresources"),
                own(version, "additionalPrinterColumns"),
                own(version, "selectableFields"),
            )
        })
        .collect();
    format!("[{}]", rendered.join(","))
}

fn check_conversion(conversion: &Value, errors: &mut Vec<FieldError>) {
    if conversion.is_null() {
        return;
    }
    match text(conversion, "strategy") {
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        "None" => {
            let detail = "should not be set when strategy is not set to Webhook";
            if !conversion["webhook"]["clientConfig"].is_null() {
                errors.push(FieldError::forbidden("spec.conversion.webhookClientConfig", detail));
            }
            let versions = conversion["webhook"]["conversionReviewVersions"].as_array();
            if versions.is_some_and(|versions| !versions.is_empty()) {
                let field = "spec.conversion.conversionReviewVersions";
                errors.push(FieldError::forbidden(field, detail));
            }
        }
        "Webhook" => check_webhook(&conversion["webhook"], errors),
        other => errors.push(FieldError::not_supported(
            "spec.conversion.strategy",
            &other.into(),
            &["None", "Webhook"],
        )),
    }
}

fn check_webhook(webhook: &Value, errors: &mut Vec<FieldError>) {
    let client = &webhook["clientConfig"];
    // The internal type of the real server has both fields beside the strategy.
    let path = "spec.conversion.webhookClientConfig";
    let url = client["url"].as_str();
    match (url, client["service"].is_object()) {
        _ if !client.is_object() => {
            errors.push(FieldError::required(path, "required when strategy is set to Webhook"));
        }
        (Some(url), false) => check_url(url, &format!("{path}.url"), errors),
        (None, true) => check_service(&client["service"], &format!("{path}.service"), errors),
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
    let path = "spec.conversion.conversionReviewVersions";
    let versions = webhook["conversionReviewVersions"].as_array();
    match versions.map(Vec::as_slice).unwrap_or_default() {
        [] => errors.push(FieldError::required(path, "")),
        versions => check_review_versions(versions, path, &["v1", "v1beta1"], errors),
    }
}

/// Checks that all stored versions are still declared, and that the storage version is among them.
fn check_stored_versions(spec: &Value, stored: &[&str], errors: &mut Vec<FieldError>) {
    let field = "status.storedVersions";
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        errors.push(FieldError::invalid(field, &Value::Null, detail));
        return;
    }
    let mut missing: Vec<(usize, &str)> = stored.iter().copied().enumerate().collect();
    for version in versions(spec) {
        let name = text(version, "name");
        let place = missing.iter().position(|(_, stored)| *stored == name);
        if let Some(place) = place {
            missing.remove(place);
        } else if is_true(version, "storage") {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(field, &stored.into(), &detail));
        }
    }
    for (index, name) in missing {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in \
             spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
             {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid_str(format!("{field}[{index}]"), name, &detail));
    }
}

/// Checks that groups of the Kubernetes community have the approval annotation.
fn check_approval(crd: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let group = text(&crd["spec"], "group");
    let protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    let approval = text(&crd["metadata"]["annotations"], APPROVAL);
    if !protected
        || old.is_some_and(|old| {
            approval_kind(text(&old["metadata"]["annotations"], APPROVAL))
                == approval_kind(approval)
        })
    {
        return;
    }
    let field = format!("metadata.annotations[{APPROVAL}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let needs = format!("protected groups must have approval annotation {}", go_quote(APPROVAL));
    match approval_kind(approval) {
        Approval::Valid => {}
        Approval::Missing => errors.push(FieldError::required(field, &format!("{needs}, {see}"))),
        Approval::Invalid => {
            let detail = format!(
                "{needs} with either a URL or a reason starting with \"unapproved\", {see}"
            );
            errors.push(FieldError::invalid_str(field, approval, &detail));
        }
    }
}

#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Valid,
    Invalid,
}

fn approval_kind(annotation: &str) -> Approval {
    let is_url = annotation.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/')
    });
    match annotation {
        "" => Approval::Missing,
        _ if is_url || annotation.starts_with("unapproved") => Approval::Valid,
        _ => Approval::Invalid,
    }
}

fn check_preserve(crd: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let preserves = |crd: &Value| is_true(&crd["spec"], "preserveUnknownFields");
    if preserves(crd) && !old.is_some_and(preserves) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &true.into(), detail));
    }
}

#[cfg(test)]
mod tests;
