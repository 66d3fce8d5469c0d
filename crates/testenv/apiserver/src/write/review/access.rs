//! `SubjectAccessReview` and its variants: whether a user may do something.

use serde_json::{Value, json};

use super::{Object, ReviewContext};
use crate::failure::Failure;
use crate::field_error::FieldError;
use crate::fields::text;
use crate::rbac::rule::{AccessTarget, Attributes};
use crate::target::Target;
use crate::user::User;

/// The review of the sender's own access.
const SELF: &str = "SelfSubjectAccessReview";
/// The review of access in one namespace.
const LOCAL: &str = "LocalSubjectAccessReview";

pub(super) fn answer(
    target: &Target,
    mut review: Object,
    context: &ReviewContext<'_>,
) -> Result<Object, Failure> {
    let kind = target.kind.kind.as_str();
    if kind == LOCAL {
        // A review without a namespace gets that of the path.
        crate::write::create::fit_namespace(target, &mut review)?;
    }
    let errors = errors(kind, &review);
    if !errors.is_empty() {
        // The real server leaves the kind empty here.
        return Err(Failure::invalid(&target.kind.group, "", "", &errors));
    }
    drop_empty(&mut review);
    let spec = review.get("spec").cloned().unwrap_or_default();
    let subject;
    let user = if kind == SELF {
        context.user
    } else {
        subject = read_subject(&spec);
        &subject
    };
    let decision = context.access.auth.decide(context.access.rbac, user, &attributes(&spec));
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    review.insert("status".into(), status);
    Ok(review)
}

fn errors(kind: &str, review: &Object) -> Vec<FieldError> {
    let none = Value::Null;
    let spec = review.get("spec").unwrap_or(&none);
    let part = |field: &str| spec.get(field).filter(|value| !value.is_null());
    let (resource, path) = (part("resourceAttributes"), part("nonResourceAttributes"));
    let mut errors = Vec::new();
    if let (Some(_), Some(path)) = (resource, path) {
        let why = "cannot be specified in combination with resourceAttributes";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", &as_go(path), why));
    }
    if resource.is_none() && path.is_none() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid("spec.resourceAttributes", &Value::Null, why));
    }
    let nobody = part("user").is_none_or(|user| user == "")
        && part("groups").and_then(Value::as_array).is_none_or(Vec::is_empty);
    if kind != SELF && nobody {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid_str("spec.user", "", why));
    }
    errors.extend(metadata_error(kind, review));
    if kind == LOCAL {
        let given = resource.and_then(|resource| resource["namespace"].as_str());
        let given = given.unwrap_or_default();
        if resource.is_some() && given != text(review, "namespace") {
            let field = "spec.resourceAttributes.namespace";
            errors.push(FieldError::invalid_str(field, given, "must match metadata.namespace"));
        }
        if let Some(path) = path {
            let why = "disallowed on this kind of request";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", &as_go(path), why));
        }
    }
    errors
}

/// Returns path attributes with their Go field names.
fn as_go(path: &Value) -> Value {
    let text = |field: &str| path[field].as_str().unwrap_or_default();
    json!({"Path": text("path"), "Verb": text("verb")})
}

/// Removes empty fields: the response does not have them.
fn drop_empty(review: &mut Object) {
    let Some(Value::Object(spec)) = review.get_mut("spec") else { return };
    for part in ["resourceAttributes", "nonResourceAttributes"] {
        if let Some(Value::Object(fields)) = spec.get_mut(part) {
            fields.retain(|_, value| *value != "");
        }
    }
    spec.retain(|_, value| *value != "" && *value != json!([]));
}

/// Returns an error if the metadata of a review is not empty.
fn metadata_error(kind: &str, review: &Object) -> Option<FieldError> {
    let metadata = review.get("metadata")?.as_object()?;
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let said = metadata.iter().filter(|(field, value)| {
        let own = *field == "managedFields" || kind == LOCAL && *field == "namespace";
        !own && !is_empty(value)
    });
    let detail = if kind == LOCAL { "must be empty except for namespace" } else { "must be empty" };
    let shown = review.get("metadata").cloned().unwrap_or_default();
    (said.count() > 0).then(|| FieldError::invalid("metadata", &shown, detail))
}

/// Returns the user whose access is reviewed.
fn read_subject(spec: &Value) -> User {
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let mut user = User::new(text("user"), texts(&spec["groups"])).uid(text("uid"));
    for (key, list) in spec["extra"].as_object().into_iter().flatten() {
        user.extra.insert(key.clone(), texts(list));
    }
    user
}

fn attributes(spec: &Value) -> Attributes<'_> {
    let resource = &spec["resourceAttributes"];
    if !resource.is_object() {
        let path = &spec["nonResourceAttributes"];
        let text = |field: &str| path[field].as_str().unwrap_or_default();
        return Attributes { verb: text("verb"), on: AccessTarget::Path(text("path")) };
    }
    let text = |field: &str| resource[field].as_str().unwrap_or_default();
    let on = AccessTarget::Resource {
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
    };
    Attributes { verb: text("verb"), on }
}
