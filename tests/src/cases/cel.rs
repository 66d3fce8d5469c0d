//! CEL rules: what they reject ([`writes`]), rules about changes ([`transitions`]), the values that
//! they see ([`values`]), and which rules a definition may have ([`definitions`]).
//!
//! Most rules are those of real operators: immutable fields, one of two, ranges, lists without
//! duplicates. Only one place at a time is wrong, because the real server checks the fields of an
//! object in random order.
//! the fields of an object in random order.

mod definitions;
mod transitions;
mod values;
mod writes;

use serde_json::{Value, json};

pub(super) use self::definitions::*;
pub(super) use self::transitions::*;
pub(super) use self::values::*;
pub(super) use self::writes::*;
use crate::Script;
use crate::answer::Answer;
use crate::fixtures::{CRDS, definition, with};
use crate::request::Request;

/// Installs a kind for this case alone, with this schema of `spec`.
async fn kind(t: &mut Script, spec: Value) -> String {
    let schema = json!({"type": "object", "properties": {
        "spec": spec,
        "status": {"type": "object", "properties": {
            "phase": {"type": "string"}, "generation": {"type": "integer"}}},
    }});
    kind_of(t, schema).await
}

/// Like [`kind`], with a whole schema.
async fn kind_of(t: &mut Script, schema: Value) -> String {
    let group = group(t);
    let things = things(t);
    t.install(defining(&group, schema), &[&things]).await;
    things
}

fn group(t: &Script) -> String {
    format!("{}.example.dev", t.ns())
}

fn things(t: &Script) -> String {
    format!("/apis/{}/v1/namespaces/{}/things", group(t), t.ns())
}

fn defining(group: &str, schema: Value) -> Value {
    let whole = definition("things", "Thing", group);
    let mut version = whole["spec"]["versions"][0].clone();
    version["schema"]["openAPIV3Schema"] = schema;
    version["subresources"] = json!({"status": {}});
    with(whole, "/spec/versions", json!([version]))
}

/// An object of that kind.
fn thing(t: &Script, spec: Value) -> Value {
    let mut thing = json!({"kind": "Thing", "metadata": {"name": "a"}});
    thing["apiVersion"] = json!(format!("{}/v1", group(t)));
    thing["spec"] = spec;
    thing
}

/// The schema of an object with these properties and rules.
fn object(properties: Value, rules: Value) -> Value {
    let mut schema = json!({"type": "object"});
    schema["properties"] = properties;
    schema["x-kubernetes-validations"] = rules;
    schema
}

/// Creates a valid object.
async fn given(t: &mut Script, spec: Value) -> Answer {
    let thing = thing(t, spec);
    t.given(things(t), thing).await
}

/// Tries to create objects with these specs, one after the other, as dry runs.
async fn try_all(t: &mut Script, specs: &[Value]) {
    for spec in specs {
        let thing = thing(t, spec.clone());
        t.send(Request::post(format!("{}?dryRun=All", things(t)), thing)).await;
    }
}

/// Tries a definition with these rules at `spec`, as a dry run.
async fn try_rules(t: &mut Script, properties: Value, rules: &[Value]) {
    for rule in rules {
        let schema = json!({"type": "object", "properties": {
            "spec": object(properties.clone(), json!([rule]))}});
        try_schema(t, schema).await;
    }
}

async fn try_schema(t: &mut Script, schema: Value) {
    let definition = defining(&group(t), schema);
    t.pick(
        Request::post(format!("{CRDS}?dryRun=All"), definition),
        &["/message", "/details", "/reason"],
    )
    .await;
}
