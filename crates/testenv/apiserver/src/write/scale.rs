//! `/scale`: reads and writes the replicas of an object through a form that all kinds share.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::Written;
use super::apply::Apply;
use super::apply::tracking::{Tracking, Writer};
use super::decode::Decoder;
use crate::failure::Failure;
use crate::field_error::FieldError;
use crate::fields::{metadata_mut, text};
use crate::kind::Scale;
use crate::state::State;
use crate::target::Target;

impl State {
    pub(crate) fn get_scale(&mut self, target: &Target) -> Result<Value, Failure> {
        let scale = scale_of(target)?;
        let stored = self.existing(target)?;
        let object = self.value_of(target, &stored)?;
        if !target.kind.is_builtin() && get_path(&object, &scale.spec_replicas).is_none() {
            return Err(Failure::internal_error(&format!(
                "the spec replicas field {:?} does not exist",
                scale.spec_replicas
            )));
        }
        Ok(as_scale(scale, &object))
    }

    /// Server-side apply of a scale: applies its replicas to the object, with managers of its own.
    /// Only built-in kinds have it.
    pub(crate) fn apply_scale(
        &mut self,
        target: &Target,
        decoder: &Decoder<'_>,
        apply: Apply<'_>,
        dry_run: bool,
    ) -> Result<Written, Failure> {
        let scale = scale_of(target)?;
        let old = self.existing(target)?.value();
        let given =
            |field: &str| apply.config.get(field).and_then(Value::as_str).unwrap_or_default();
        if (given("kind"), given("apiVersion")) != ("Scale", "autoscaling/v1") {
            let shown = super::apply::shown_type(given("apiVersion"), given("kind"));
            return Err(Failure::bad_request(format!("invalid object type: {shown}")));
        }
        if !target.kind.is_builtin() {
            // The real server looks up the kind of a scale in the group of the object.
            let metadata = apply.config.get("metadata").cloned().unwrap_or_default();
            let part = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            return Err(Failure::internal(format!(
                "failed to convert new object ({}/{}; autoscaling/v1, Kind=Scale) to proper version: \
                 request to convert CR to an invalid group/version: autoscaling/v1",
                part("namespace"),
                part("name")
            )));
        }
        let config = Value::Object(apply.config);
        check_scale(target, &old, &config)?;
        let mut whole = Map::new();
        whole.insert("kind".into(), target.kind.kind.as_str().into());
        let version = target.kind.api_version(&target.version().name);
        whole.insert("apiVersion".into(), version.into());
        whole.insert("metadata".into(), config["metadata"].clone());
        if let Some(replicas) = config["spec"].get("replicas") {
            set_path(&mut whole, &scale.spec_replicas, replicas.clone());
        }
        let apply = Apply { config: whole, ..apply };
        let written = self.apply(target, decoder, apply, dry_run)?;
        scaled(scale, written, None)
    }

    /// Changes the replicas. `edit` takes the scale and returns the changed one.
    pub(crate) fn update_scale(
        &mut self,
        target: &Target,
        dry_run: bool,
        writer: Writer<'_>,
        edit: impl FnOnce(Value) -> Result<Value, Failure>,
    ) -> Result<Written, Failure> {
        let scale = scale_of(target)?;
        let stored = self.existing(target)?;
        let old = self.value_of(target, &stored)?;
        let is_missing =
            !target.kind.is_builtin() && get_path(&old, &scale.spec_replicas).is_none();
        let mut shown = as_scale(scale, &old);
        if is_missing {
            shown["spec"]["replicas"] = i32::MIN.into();
        }
        let changed = edit(shown.clone())?;
        let changed = self.admit_scale(target, &shown, changed, dry_run)?;
        if is_missing && changed["spec"]["replicas"] == i32::MIN {
            return Err(Failure::bad_request(format!(
                "the spec replicas field {:?} cannot be empty",
                scale.spec_replicas
            )));
        }
        check_scale(target, &old, &changed)?;
        let replicas = changed["spec"].get("replicas").cloned().unwrap_or_else(|| 0.into());
        // For custom resources the schema decides.
        if target.kind.is_builtin() && replicas.as_i64().is_none_or(|replicas| replicas < 0) {
            let error = FieldError::invalid(
                "spec.replicas",
                &replicas,
                "must be greater than or equal to 0",
            );
            return Err(Failure::invalid("autoscaling", "Scale", &target.name, &[error]));
        }
        let version = changed["metadata"].get("resourceVersion").cloned();
        let whole = Target { subresource: String::new(), ..target.clone() };
        let tracking = Tracking::By(writer.through("scale"));
        let set = replicas.clone();
        let written = self.admitted(|state| {
            state.update(&whole, dry_run, tracking, |mut object| {
                set_path(&mut object, &scale.spec_replicas, set);
                if let Some(version) = version {
                    metadata_mut(&mut object).insert("resourceVersion".into(), version);
                }
                Ok(object)
            })
        })?;
        // The stored object is in another version, which may have its replicas in another place.
        let is_elsewhere = target.kind.conversion.is_some();
        scaled(scale, written, is_elsewhere.then_some((old, replicas)))
    }
}

/// Returns the scale of the object after the write. `known` is set if the object is stored in
/// another version: the object before the write, and its new replicas.
fn scaled(
    scale: &Scale,
    written: Written,
    known: Option<(Map<String, Value>, Value)>,
) -> Result<Written, Failure> {
    let super::Answer::Object(stored) = written.answer else {
        return Err(Failure::internal("a scaled object is answered with itself"));
    };
    let mut object = stored.value();
    if let Some((mut before, replicas)) = known {
        set_path(&mut before, &scale.spec_replicas, replicas);
        let version = text(&object, "resourceVersion").to_owned();
        metadata_mut(&mut before).insert("resourceVersion".into(), version.into());
        object = before;
    }
    Ok(Written::value(StatusCode::OK, as_scale(scale, &object)))
}

/// Copies the replicas of a scale to its object.
pub(super) fn replicas_from(target: &Target, scale: &Value, object: &mut Map<String, Value>) {
    if let Some(place) = &target.version().scale {
        let replicas = scale["spec"].get("replicas").cloned().unwrap_or_else(|| 0.into());
        set_path(object, &place.spec_replicas, replicas);
    }
}

/// Checks that a body is a scale, and that it belongs to the object that the path names.
fn check_scale(target: &Target, old: &Map<String, Value>, scale: &Value) -> Result<(), Failure> {
    let misfit = |why: &str| {
        Failure::bad_request(format!("Scale in version \"v1\" cannot be handled as a Scale: {why}"))
    };
    if !scale.is_object() {
        return Err(misfit("json: cannot unmarshal array into Go value of type v1.Scale"));
    }
    let given = |field: &str| scale.get(field).and_then(Value::as_str).unwrap_or_default();
    if !matches!((given("kind"), given("apiVersion")), ("" | "Scale", "" | "autoscaling/v1")) {
        return Err(misfit(&format!("{} is not a Scale of autoscaling/v1", given("kind"))));
    }
    let replicas = scale["spec"].get("replicas").filter(|replicas| !replicas.is_null());
    if replicas.is_some_and(|replicas| replicas.as_i64().is_none_or(|n| i32::try_from(n).is_err()))
    {
        return Err(misfit(
            "json: cannot unmarshal the value into Go struct field ScaleSpec.spec.replicas of type int32",
        ));
    }
    let metadata =
        |field: &str| scale["metadata"].get(field).and_then(Value::as_str).unwrap_or_default();
    for (field, wanted) in
        [("name", target.name.as_str()), ("namespace", target.namespace.as_str())]
    {
        if !metadata(field).is_empty() && metadata(field) != wanted {
            return Err(Failure::bad_request(format!(
                "the {field} of the object ({}) does not match the {field} on the URL ({wanted})",
                metadata(field)
            )));
        }
    }
    let uid = metadata("uid");
    if !uid.is_empty() && uid != text(old, "uid") {
        let why = format!("the uid in the body ({uid}) is not that of the object");
        return Err(Failure::conflict(&target.kind.group, &target.kind.plural, &target.name, &why));
    }
    Ok(())
}

fn scale_of(target: &Target) -> Result<&Scale, Failure> {
    let scale = target.version().scale.as_ref();
    scale.ok_or_else(|| Failure::not_found(&target.kind, &target.name))
}

pub(super) fn as_scale(scale: &Scale, object: &Map<String, Value>) -> Value {
    let number = |path: &str| get_path(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        let value = text(object, field);
        if !value.is_empty() {
            metadata.insert(field.to_owned(), value.into());
        }
    }
    let mut status = json!({"replicas": number(&scale.status_replicas)});
    let selector = scale.label_selector.as_deref().and_then(|path| get_path(object, path));
    if let Some(selector) = selector.and_then(selector_text) {
        status["selector"] = selector.into();
    }
    let mut spec = Map::new();
    let replicas = number(&scale.spec_replicas);
    if replicas != 0 {
        spec.insert("replicas".into(), replicas.into());
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    })
}

/// Returns a selector as one string: custom resources hold a string, built-in kinds `matchLabels`.
fn selector_text(selector: &Value) -> Option<String> {
    if let Some(text) = selector.as_str() {
        return Some(text.to_owned());
    }
    let labels = selector.get("matchLabels")?.as_object()?;
    let terms =
        labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    Some(terms.collect::<Vec<_>>().join(","))
}

fn get_path<'a>(object: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut names = path.trim_start_matches('.').split('.');
    let first = object.get(names.next()?);
    names.fold(first, |value, name| value?.get(name))
}

fn set_path(object: &mut Map<String, Value>, path: &str, value: Value) {
    let names: Vec<&str> = path.trim_start_matches('.').split('.').collect();
    let Some((last, parents)) = names.split_last() else { return };
    let mut at = object;
    for name in parents {
        let next = at.entry(*name).or_insert_with(|| Value::Object(Map::new()));
        let Some(next) = next.as_object_mut() else { return };
        at = next;
    }
    at.insert((*last).to_owned(), value);
}
