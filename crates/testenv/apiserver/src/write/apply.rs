//! Server-side apply: a client sends the fields that it wants to manage, and the server merges
//! them.
//!
//! [`State::apply`] is the verb. `managers` tracks which manager owns which field, and `field_set`
//! reads and writes `fieldsV1`. `compare` and `merge` walk through objects, and `check` rejects
//! configurations that cannot be merged. [`crate::merge_schema`] says how lists and maps merge.
//! `tracking` updates the managers for all other writes. `kubectl` handles the switch from
//! client-side apply.

mod check;
mod compare;
mod field_set;
mod kubectl;
mod managers;
mod merge;
pub(crate) mod tracking;

use serde_json::{Map, Value};

use self::kubectl::KUBECTL;
use self::managers::{Conflict, Manager, Managers, Operation};
use self::tracking::{MANAGED_FIELDS, Tracking};
use super::Written;
use super::decode::Decoder;
use super::update::check_name;
use crate::failure::Failure;
use crate::fields::{metadata_mut, text};
use crate::go_decoder::go_type;
use crate::json;
use crate::state::State;
use crate::target::Target;

/// The manager of the fields that were written before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// A configuration to apply.
pub(crate) struct Apply<'a> {
    pub(crate) config: Map<String, Value>,
    pub(crate) manager: &'a str,
    /// Whether to take over fields that others manage.
    pub(crate) force: bool,
}

impl State {
    /// Merges a configuration into an object, or creates the object.
    pub(crate) fn apply(
        &mut self,
        target: &Target,
        decoder: &Decoder<'_>,
        apply: Apply<'_>,
        dry_run: bool,
    ) -> Result<Written, Failure> {
        check_type(target, &apply.config)?;
        if apply.config.get("metadata").is_some_and(|metadata| metadata[MANAGED_FIELDS].is_array())
        {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        let held = self.store.get(target.kind.storage, &target.key()).cloned();
        let live = held.as_ref().map(|held| self.in_version(target, held)).transpose()?;
        let mut live = live.unwrap_or_default();
        let managers = tracking::take(&mut live);
        let mut managers = managers.as_ref().and_then(Managers::decode).unwrap_or_default();
        // The real server records no time for scales.
        let is_scale = target.subresource == "scale";
        let now = if is_scale { String::new() } else { self.clock.now() };
        let live = Value::Object(live);
        let object = merged(target, &live, &mut managers, apply, &now)?;
        let mut object = decoder.patched(object)?;
        tracking::put(&mut object, &managers);
        match held {
            Some(held) => self.replace(target, &held, object, dry_run, Tracking::Done),
            None if target.subresource.is_empty() => {
                check_is_new(target, &object)?;
                check_name(target, &object)?;
                // A new object cannot have a version yet.
                metadata_mut(&mut object).remove("resourceVersion");
                self.create(target, object, dry_run, Tracking::Done)
            }
            None => Err(Failure::not_found(&target.kind, &target.name)),
        }
    }
}

/// Returns the object with the configuration applied, without its managed fields.
fn merged(
    target: &Target,
    live: &Value,
    managers: &mut Managers,
    apply: Apply<'_>,
    now: &str,
) -> Result<Map<String, Value>, Failure> {
    let fields = tracking::fields(target);
    let version = tracking::version_of(target);
    let place = fields.place();
    let config = Value::Object(apply.config);
    check::check(place, &config).map_err(|why| {
        let named = shown_identity(target, &config);
        Failure::internal(format!("failed to create typed patch object ({named}): {why}"))
    })?;
    if managers.is_empty() {
        // Earlier writes to the fields of a scale are writes to the object itself.
        let part = Some(target.subresource.as_str()).filter(|part| *part != "scale");
        let part = part.unwrap_or_default();
        let nobody = Manager::new(BEFORE_FIRST_APPLY, Operation::Update, &version, part);
        managers.update(&fields, (&tracking::nothing(target), live), nobody, Some(now.to_owned()));
    }
    let manager = Manager::new(apply.manager, Operation::Apply, &version, &target.subresource);
    let mut attempt = |force| {
        let mut after = managers.clone();
        let changed = after.apply(&fields, (live, &config), &manager, force, now)?;
        *managers = after;
        Ok(changed)
    };
    let changed = attempt(apply.force).or_else(|conflicts: Vec<Conflict>| {
        if apply.manager != KUBECTL {
            return Err(conflicts);
        }
        let left = kubectl::left(&fields, live, &conflicts);
        if left.is_empty() { attempt(true) } else { Err(left) }
    });
    let changed = changed.map_err(|conflicts| refusal(&conflicts))?;
    let Value::Object(mut object) = changed.unwrap_or_else(|| live.clone()) else {
        return Err(Failure::bad_request("an object must stay an object"));
    };
    if apply.manager == KUBECTL {
        kubectl::annotate(&mut object, &config);
    }
    Ok(object)
}

/// Parses a configuration: YAML or JSON.
pub(crate) fn parse(body: &[u8]) -> Result<json::ParsedJson, Failure> {
    let mut read = json::read(body).or_else(|_| {
        let text = std::str::from_utf8(body).map_err(|error| error.to_string());
        let value =
            text.and_then(|text| serde_saphyr::from_str(text).map_err(|error| error.to_string()));
        value.map(|value| json::ParsedJson { value, duplicates: Vec::new() }).map_err(|why| {
            Failure::bad_request(format!(
                "error decoding YAML: error converting YAML to JSON: yaml: {why}"
            ))
        })
    })?;
    let depth_max = json::depth_max();
    if json::depth(&read.value) > depth_max {
        let why = json::too_deep(depth_max);
        return Err(Failure::bad_request(format!("error decoding YAML: {why}")));
    }
    json::integers_from_floats(&mut read.value);
    match &read.value {
        Value::Object(_) => Ok(read),
        Value::Null => Ok(json::ParsedJson { value: Value::Object(Map::new()), ..read }),
        other => Err(Failure::bad_request(format!(
            "error decoding YAML: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_type(other)
        ))),
    }
}

fn check_type(target: &Target, config: &Map<String, Value>) -> Result<(), Failure> {
    let given = |field: &str| config.get(field).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (given("apiVersion"), given("kind"));
    if version == tracking::version_of(target) && kind == target.kind.kind {
        return Ok(());
    }
    Err(Failure::bad_request(format!("invalid object type: {}", shown_type(version, kind))))
}

/// Returns a conflict if the configuration of a new object names a uid.
fn check_is_new(target: &Target, object: &Map<String, Value>) -> Result<(), Failure> {
    let uid = text(object, "uid");
    if uid.is_empty() {
        return Ok(());
    }
    let why = format!(
        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    );
    Err(Failure::conflict(&target.kind.group, &target.kind.plural, &target.name, &why))
}

/// Returns `apps/v1, Kind=Deployment`, or `/v1, Kind=Pod` for the core group.
pub(super) fn shown_type(version: &str, kind: &str) -> String {
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={kind}")
}

/// Returns the namespace, name and type of a configuration for an error text.
fn shown_identity(target: &Target, config: &Value) -> String {
    let given =
        |field: &str| config["metadata"].get(field).and_then(Value::as_str).unwrap_or_default();
    let shown = shown_type(&tracking::version_of(target), &target.kind.kind);
    format!("{}/{}; {shown}", given("namespace"), given("name"))
}

/// Returns the 409 that lists the conflicting managers and their fields.
fn refusal(conflicts: &[Conflict]) -> Failure {
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    for conflict in conflicts {
        let manager = conflict.manager.shown();
        lines.push(format!("conflicts with {manager}:"));
        for path in conflict.fields.paths() {
            lines.push(format!("- {path}"));
            causes.push((format!("conflict with {manager}"), path));
        }
    }
    let message = match causes.as_slice() {
        [(why, path)] => format!("Apply failed with 1 conflict: {why}: {path}"),
        several => {
            format!("Apply failed with {} conflicts: {}", several.len(), lines.join("\n"))
        }
    };
    Failure::apply_conflict(&message, &causes)
}
