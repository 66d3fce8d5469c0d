//! Validation of `metadata`, the same for every kind.
//!
//! [`check_types`] runs first, as decoding does in the real server (its error is a 400). The other
//! functions treat fields of the wrong JSON type as absent. The real server validates the metadata
//! of an update twice, once for all kinds ([`validate_update_common`]) and once for the kind
//! ([`validate_update`]), and reports an error of both twice. To give the same bytes, callers
//! concatenate both results.

pub(crate) mod names;
mod owners;
mod types;

use serde_json::Value;

use crate::field_error::{FieldError, go_quote};

pub(crate) use names::NameRule;
pub(crate) use types::check_types;

/// The maximum size of all annotations, keys and values together, in bytes.
const ANNOTATIONS_MAX: usize = 256 * 1024;
const IMMUTABLE: &str = "field is immutable";

/// Validates the metadata of a new object, whose name has already been generated.
pub(crate) fn validate_create(meta: &Value, namespaced: bool, names: NameRule) -> Vec<FieldError> {
    validate_create_with(meta, namespaced, &|name, is_prefix| {
        if is_prefix { names.check_prefix(name) } else { names.check(name) }
    })
}

/// Like [`validate_create`], for a kind with its own rule for names: `check` gets a name and
/// whether it is a `generateName`.
pub(crate) fn validate_create_with(
    meta: &Value,
    namespaced: bool,
    check: &dyn Fn(&str, bool) -> Vec<String>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let prefix = text(meta, "generateName");
    if !prefix.is_empty() {
        push_all(&mut errors, "metadata.generateName", prefix, &check(prefix, true));
    }
    let name = text(meta, "name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        push_all(&mut errors, "metadata.name", name, &check(name, false));
    }
    check_namespace(meta, namespaced, &mut errors);
    let generation = whole(meta, "generation").unwrap_or(0);
    if generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("metadata.generation", &generation.into(), detail));
    }
    check_labels(meta, &mut errors);
    check_annotations(meta, &mut errors);
    owners::check(meta, &mut errors);
    check_finalizers(meta, &mut errors);
    errors
}

/// Validates the metadata of an update, as the real server does for all kinds.
pub(crate) fn validate_update_common(
    new: &Value,
    old: &Value,
    namespaced: bool,
) -> Vec<FieldError> {
    let mut errors = validate_create(new, namespaced, NameRule::Path);
    errors.extend(validate_update(new, old));
    errors
}

/// Validates the change from `old` to `new`, as the real server does for the kind. Whether an
/// update needs a resource version is checked by the store, which knows the rules of the kind.
pub(crate) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !text(old, "deletionTimestamp").is_empty() {
        check_no_new_finalizers(new, old, &mut errors);
    }
    let generation = whole(new, "generation").unwrap_or(0);
    if generation < whole(old, "generation").unwrap_or(0) {
        let detail = "must not be decremented";
        errors.push(FieldError::invalid("metadata.generation", &generation.into(), detail));
    }
    for name in ["name", "namespace", "uid"] {
        if text(new, name) != text(old, name) {
            let field = format!("metadata.{name}");
            errors.push(FieldError::invalid_str(field, text(new, name), IMMUTABLE));
        }
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new[name] != old[name] {
            errors.push(FieldError::invalid(format!("metadata.{name}"), &new[name], IMMUTABLE));
        }
    }
    check_labels(new, &mut errors);
    check_annotations(new, &mut errors);
    owners::check(new, &mut errors);
    errors
}

/// Copies from `old` what an update may leave out or cannot change, as the real server does before
/// it validates: a missing uid, the timestamps, the grace period and the generation.
pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    let Some(fields) = new.as_object_mut() else { return };
    let mut keep = |name: &str, always: bool| {
        let stated = fields.get(name).is_some_and(|value| !value.is_null() && value != "");
        match &old[name] {
            Value::Null => {}
            value if always || !stated => {
                fields.insert(name.to_owned(), value.clone());
            }
            _ => {}
        }
    };
    keep("uid", false);
    keep("creationTimestamp", true);
    keep("deletionTimestamp", true);
    keep("deletionGracePeriodSeconds", false);
    keep("generation", true);
    if old["generation"].is_null() {
        fields.remove("generation");
    }
}

fn check_namespace(meta: &Value, namespaced: bool, errors: &mut Vec<FieldError>) {
    let field = "metadata.namespace";
    let namespace = text(meta, "namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(field, "")),
        (true, false) => push_all(errors, field, namespace, &names::label(namespace)),
        (false, true) => {}
        (false, false) => errors.push(FieldError::forbidden(field, "not allowed on this type")),
    }
}

fn check_labels(meta: &Value, errors: &mut Vec<FieldError>) {
    let field = "metadata.labels";
    for (key, value) in pairs(meta, "labels") {
        push_all(errors, field, key, &names::qualified_name(key));
        push_all(errors, field, value, &names::label_value(value));
    }
}

fn check_annotations(meta: &Value, errors: &mut Vec<FieldError>) {
    let field = "metadata.annotations";
    let mut size = 0;
    for (key, value) in pairs(meta, "annotations") {
        // Upper case is allowed in the prefix of an annotation.
        push_all(errors, field, key, &names::qualified_name(&key.to_lowercase()));
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(field, ANNOTATIONS_MAX.try_into().unwrap_or(i64::MAX)));
    }
}

fn check_finalizers(meta: &Value, errors: &mut Vec<FieldError>) {
    let field = "metadata.finalizers";
    let finalizers = texts(meta, "finalizers");
    for finalizer in &finalizers {
        push_all(errors, field, finalizer, &names::qualified_name(finalizer));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(field, &meta["finalizers"], detail));
    }
}

fn check_no_new_finalizers(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let known = texts(old, "finalizers");
    let mut extra = texts(new, "finalizers");
    extra.retain(|finalizer| !known.contains(finalizer));
    extra.sort_unstable();
    extra.dedup();
    if !extra.is_empty() {
        let quoted: Vec<_> = extra.into_iter().map(go_quote).collect();
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            quoted.join(", ")
        );
        errors.push(FieldError::forbidden("metadata.finalizers", &detail));
    }
}

/// Adds one error about `value` for each text in `wrong`.
fn push_all(errors: &mut Vec<FieldError>, field: &str, value: &str, wrong: &[String]) {
    errors.extend(wrong.iter().map(|detail| FieldError::invalid_str(field, value, detail)));
}

fn text<'a>(meta: &'a Value, name: &str) -> &'a str {
    meta[name].as_str().unwrap_or_default()
}

fn whole(meta: &Value, name: &str) -> Option<i64> {
    meta[name].as_i64()
}

/// Returns the entries of a map of texts, in the order of their keys.
fn pairs<'a>(meta: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let fields = meta[name].as_object().into_iter().flatten();
    fields.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn texts<'a>(meta: &'a Value, name: &str) -> Vec<&'a str> {
    meta[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn create(meta: &Value) -> Vec<String> {
        texts_of(&validate_create(meta, true, NameRule::Subdomain))
    }

    fn texts_of(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn name_is_required() {
        assert_eq!(
            create(&json!({"namespace": "default"})),
            ["metadata.name: Required value: name or generateName is required"]
        );
        let errors = create(&json!({"namespace": "default", "name": "Bad_Name"}));
        assert!(errors[0].starts_with(
            "metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of"
        ));
    }

    #[test]
    fn namespace_is_required_exactly_for_namespaced_kinds() {
        assert_eq!(create(&json!({"name": "a"})), ["metadata.namespace: Required value"]);
        let meta = json!({"name": "a", "namespace": "x"});
        assert_eq!(create(&meta), [""; 0]);
        assert_eq!(
            texts_of(&validate_create(&meta, false, NameRule::Label)),
            ["metadata.namespace: Forbidden: not allowed on this type"]
        );
    }

    #[test]
    fn syntax_of_labels_annotations_and_finalizers_is_checked() {
        let errors = create(&json!({
            "name": "a", "namespace": "x",
            "labels": {"a b": "c d"},
            "annotations": {"UPPER.example.com/x": "any thing", "a b": ""},
            "finalizers": ["no slash", "orphan", "foregroundDeletion"],
        }));
        let starts = [
            "metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric",
            "metadata.labels: Invalid value: \"c d\": a valid label must be an empty string or",
            "metadata.annotations: Invalid value: \"a b\": name part must consist of",
            "metadata.finalizers: Invalid value: \"no slash\": name part must consist of",
            "metadata.finalizers: Invalid value: [\"no slash\",\"orphan\",\"foregroundDeletion\"]: finalizer orphan \
             and foregroundDeletion cannot be both set",
        ];
        assert_eq!(errors.len(), starts.len());
        for (error, start) in errors.iter().zip(starts) {
            assert!(error.starts_with(start), "{error}");
        }
    }

    #[test]
    fn annotations_have_a_total_size() {
        let meta = json!({"name": "a", "namespace": "x", "annotations": {"a": "x".repeat(ANNOTATIONS_MAX)}});
        assert_eq!(
            create(&meta),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"]
        );
    }

    #[test]
    fn no_finalizer_is_added_to_an_object_that_is_being_deleted() {
        let old = json!({"name": "ig", "deletionTimestamp": "2026-11-15T00:44:40Z", "finalizers": ["ex.dev/f"]});
        let mut new = old.clone();
        new["finalizers"] = json!(["ex.dev/f", "ex.dev/g"]);
        assert_eq!(
            texts_of(&validate_update(&new, &old)),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, \
                 found new finalizers []string{\"ex.dev/g\"}"
            ]
        );
        new["finalizers"] = json!([]);
        assert_eq!(validate_update(&new, &old), []);
    }

    #[test]
    fn uid_and_deletion_timestamp_are_immutable() {
        let old = json!({"name": "a", "uid": "1", "creationTimestamp": "2026-11-15T00:44:40Z"});
        let mut new = json!({"name": "a", "uid": "2", "deletionTimestamp": "2026-11-15T00:44:40Z"});
        prepare_update(&mut new, &old);
        assert_eq!(
            texts_of(&validate_update(&new, &old)),
            [
                "metadata.uid: Invalid value: \"2\": field is immutable",
                "metadata.deletionTimestamp: Invalid value: \"2026-11-15T00:44:40Z\": field is immutable"
            ]
        );
        let mut new = json!({"name": "a", "uid": ""});
        prepare_update(&mut new, &old);
        assert_eq!(validate_update(&new, &old), []);
    }

    #[test]
    fn malformed_metadata_does_not_panic() {
        for meta in
            [json!(null), json!("x"), json!([1]), json!({"labels": 1, "finalizers": {"a": 1}})]
        {
            validate_create(&meta, true, NameRule::Path);
            validate_update_common(&meta, &meta, false);
            let mut new = meta.clone();
            prepare_update(&mut new, &meta);
        }
    }
}
