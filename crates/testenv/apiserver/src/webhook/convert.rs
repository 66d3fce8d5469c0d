//! Conversion of custom resources between the versions of their definition.
//!
//! With the strategy `None`, objects differ only in their `apiVersion`. With `Webhook`, the
//! definition's webhook converts them: several in one request, and only those that are in another
//! version.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::caller::Caller;
use super::review::CONVERSION;
use crate::field_error::{FieldError, join};
use crate::kind::Version;
use crate::kinds::{Registered, prune_metadata};
use crate::metadata::names;
use crate::object::Stored;

/// How long a conversion may take, as on the real server.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Converts one object, which includes its type, to a version of its kind.
///
/// # Errors
/// Returns the error of the real server.
pub(crate) async fn object(
    of: &Registered,
    to: &str,
    object: Value,
    caller: &mut Caller<'_>,
) -> Result<Value, String> {
    let mut converted = objects(of, to, vec![object], caller).await?;
    Ok(converted.pop().unwrap_or_default())
}

/// Converts several objects, which include their types, to a version of their kind, in one request.
/// Objects that are already in this version stay as they are. Errors have the text for a single
/// object, because the real server converts the items of a list one by one.
///
/// # Errors
/// Returns the error of the real server.
pub(crate) async fn objects(
    of: &Registered,
    to: &str,
    mut objects: Vec<Value>,
    caller: &mut Caller<'_>,
) -> Result<Vec<Value>, String> {
    let wanted = of.api_version(to);
    let others: Vec<usize> =
        (0..objects.len()).filter(|&at| objects[at]["apiVersion"] != *wanted).collect();
    let Some(&first) = others.first() else { return Ok(objects) };
    let Some(conversion) = of.conversion.as_deref() else {
        for at in others {
            objects[at]["apiVersion"] = wanted.as_str().into();
        }
        return Ok(objects);
    };
    let Some(version) = conversion.review_version else {
        return Err("no supported conversion review versions".to_owned());
    };
    let from = text(&objects[first], "apiVersion");
    let subject = format!("conversion webhook for {from}, Kind={}", of.kind);
    let uid = caller.ids.uid();
    let sent: Vec<&Value> = others.iter().map(|&at| &objects[at]).collect();
    let review = json!({
        "kind": CONVERSION.name,
        "apiVersion": format!("{}/{version}", CONVERSION.group),
        "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": sent},
        "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
    });
    let body = conversion.client.post(caller.webhooks, &review, TIMEOUT).await;
    let answered = body.and_then(|body| answer(&body, version, &uid));
    let converted = answered.map_err(|why| format!("{subject} failed: {why}"))?;
    if converted.len() != others.len() {
        return Err(format!(
            "{subject} returned {} objects, expected {}",
            converted.len(),
            others.len()
        ));
    }
    for (at, mut new) in others.into_iter().zip(converted) {
        check(of, &wanted, &objects[at], &mut new)
            .map_err(|why| format!("{subject} returned invalid {why}"))?;
        prune_metadata(&mut new);
        default_custom(of, to, &mut new, false);
        objects[at] = new;
    }
    Ok(objects)
}

/// Converts stored objects. Those that are already in the version stay as they are.
///
/// # Errors
/// Returns the error of the real server.
pub(crate) async fn stored(
    of: &Registered,
    to: &str,
    mut items: Vec<Arc<Stored>>,
    caller: &mut Caller<'_>,
) -> Result<Vec<Arc<Stored>>, String> {
    let others: Vec<usize> =
        (0..items.len()).filter(|&at| items[at].version_before(of, to).is_some()).collect();
    if others.is_empty() {
        return Ok(items);
    }
    let shown = others.iter().map(|&at| {
        let mut object = items[at].value();
        let version = items[at].version.as_deref().unwrap_or_default();
        object.insert("kind".to_owned(), of.kind.as_str().into());
        object.insert("apiVersion".to_owned(), of.api_version(version).into());
        Value::Object(object)
    });
    let converted = objects(of, to, shown.collect(), caller).await?;
    for (at, object) in others.into_iter().zip(converted) {
        let Value::Object(object) = object else { continue };
        items[at] = Arc::new(Stored::draft(object, items[at].revision, of, to));
    }
    Ok(items)
}

/// Removes the fields that the schema of a version does not have, and sets defaults if `defaults`
/// is set.
pub(super) fn default_custom(of: &Registered, version: &str, object: &mut Value, defaults: bool) {
    if let Some(schema) = of.version(version).and_then(Version::schema) {
        schema.prune(object);
        if defaults {
            schema.default(object);
        }
    }
}

fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the objects of the answer to the question `uid`.
fn answer(body: &[u8], version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let review = CONVERSION.decode(body, version)?;
    let response = review.get("response").filter(|response| response.is_object());
    if version == "v1" {
        CONVERSION.check_type(&review)?;
    }
    let response = response.ok_or("no response provided")?;
    let given = text(response, "uid");
    if version == "v1" && given != uid {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    let result = &response["result"];
    let status = text(result, "status");
    if status != "Success" {
        let message = text(result, "message");
        return Err(if message.is_empty() {
            format!("response.result.status was '{status}', not 'Success'")
        } else {
            message
        });
    }
    Ok(response["convertedObjects"].as_array().cloned().unwrap_or_default())
}

/// Checks that the webhook has returned the same object, and restores its metadata: only labels and
/// annotations may change.
fn check(of: &Registered, wanted: &str, old: &Value, new: &mut Value) -> Result<(), String> {
    let given = text(new, "apiVersion");
    if given != wanted {
        return Err(format!(
            "object at index 0: invalid groupVersion (expected {wanted}, received {given})"
        ));
    }
    let kind = text(new, "kind");
    if kind != of.kind {
        return Err(format!(
            "object at index 0: invalid kind (expected {}, received {kind})",
            of.kind
        ));
    }
    for (field, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (before, after) = (text(&old["metadata"], field), text(&new["metadata"], field));
        if before != after {
            return Err(format!("object: must have the same {name}: {before} != {after}"));
        }
    }
    restore_metadata(old, new).map_err(|why| format!("metadata: {why}"))
}

fn restore_metadata(old: &Value, new: &mut Value) -> Result<(), String> {
    let Some(metadata) = new.get_mut("metadata") else {
        return Err("missing metadata in converted object".to_owned());
    };
    let Value::Object(given) = metadata.take() else {
        return Err("invalid metadata of type string in converted object".to_owned());
    };
    let mut restored = old["metadata"].as_object().cloned().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let before = restored.remove(field);
        let Some(Value::Object(entries)) = given.get(field).filter(|value| !value.is_null()) else {
            continue;
        };
        if before.as_ref().and_then(Value::as_object) != Some(entries) {
            check_entries(field, entries)?;
        }
        restored.insert(field.to_owned(), Value::Object(entries.clone()));
    }
    new["metadata"] = Value::Object(restored);
    Ok(())
}

fn check_entries(field: &str, entries: &Map<String, Value>) -> Result<(), String> {
    let mut errors = Vec::new();
    for (key, value) in entries {
        let Some(value) = value.as_str() else {
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {} in converted object",
                go_kind(value)
            ));
        };
        let path = format!("metadata.{field}");
        errors.extend(
            names::qualified_name(key)
                .iter()
                .map(|why| FieldError::invalid_str(path.clone(), key, why)),
        );
        if field == "labels" {
            let wrong = names::label_value(value);
            errors
                .extend(wrong.iter().map(|why| FieldError::invalid_str(path.clone(), value, why)));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(join(&errors)) }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Number(_) => "int64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        _ => "<nil>",
    }
}
