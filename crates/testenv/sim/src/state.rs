//! The state of a cluster in a form that compares: what differs between any two runs is replaced by
//! what it means.
//!
//! Uids and generated names become roles ("the Pod that Website shop owns"), wherever they occur in
//! texts. Versions, times and who manages which field are left out. Objects of the same role are a
//! multiset.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::server::Server;

/// The objects of a cluster by role: `configmaps default/shop`.
pub(crate) type State = BTreeMap<String, Vec<Value>>;

/// A difference between two states.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The object, by kind, namespace and name.
    pub object: String,
    /// The field, as a JSON pointer; empty for the whole object.
    pub field: String,
    /// What it is in the reference, as JSON. `None`: it is not there.
    pub reference: Option<String>,
    /// What it is here.
    pub found: Option<String>,
}

impl Difference {
    /// What it is about, whatever the values are.
    pub(crate) fn place(&self) -> (String, String) {
        (self.object.clone(), self.field.clone())
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let told = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        let (reference, found) = (told(&self.reference), told(&self.found));
        write!(f, "{} {}\n    - {reference}\n    + {found}", self.object, self.field)
    }
}

struct Object {
    kind: String,
    namespace: String,
    name: String,
    value: Value,
}

/// Reads the objects of these kinds, each with the path of all of them.
pub(crate) fn read(server: &Server, kinds: &BTreeMap<String, String>) -> State {
    let objects: Vec<Object> =
        kinds.iter().flat_map(|(kind, path)| list(server, kind, path)).collect();
    let roles = roles(&objects);
    let mut state = State::new();
    for object in objects {
        let name = replace(&object.name, &roles);
        let place = match object.namespace.as_str() {
            "" => name,
            namespace => format!("{namespace}/{name}"),
        };
        let role = format!("{} {place}", object.kind);
        state.entry(role).or_default().push(normal(object.value, &roles));
    }
    for same in state.values_mut() {
        same.sort_by_cached_key(ToString::to_string);
    }
    state
}

fn list(server: &Server, kind: &str, path: &str) -> Vec<Object> {
    let list = server.ask_json(Method::GET, path, "", &Value::Null).unwrap_or_default();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let object = |value: Value| {
        let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
        Object { kind: kind.to_owned(), namespace: text("namespace"), name: text("name"), value }
    };
    items.into_iter().map(object).collect()
}

/// What stands for uids and generated names.
fn roles(objects: &[Object]) -> BTreeMap<String, String> {
    let mut roles = BTreeMap::new();
    for object in objects {
        let metadata = &object.value["metadata"];
        if let Some(prefix) = metadata["generateName"].as_str() {
            roles.insert(object.name.clone(), format!("{prefix}*"));
        }
    }
    let mut uids = BTreeMap::new();
    for object in objects {
        if let Some(uid) = object.value["metadata"]["uid"].as_str() {
            let name = replace(&object.name, &roles);
            uids.insert(uid.to_owned(), format!("<uid of {} {name}>", object.kind));
        }
    }
    roles.extend(uids);
    roles
}

fn replace(text: &str, roles: &BTreeMap<String, String>) -> String {
    if let Some(role) = roles.get(text) {
        return role.clone();
    }
    let mut text = text.to_owned();
    for (name, role) in roles {
        if text.contains(name) {
            text = text.replace(name, role);
        }
    }
    text
}

fn normal(mut object: Value, roles: &BTreeMap<String, String>) -> Value {
    let generation = object["metadata"]["generation"].clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "managedFields", "creationTimestamp", "generation"]
        {
            metadata.remove(field);
        }
    }
    normal_value(object, roles, &generation)
}

fn normal_value(value: Value, roles: &BTreeMap<String, String>, generation: &Value) -> Value {
    match value {
        Value::String(text) if text.parse::<Timestamp>().is_ok() => "<time>".into(),
        Value::String(text) => replace(&text, roles).into(),
        Value::Array(values) => {
            let mut values: Vec<Value> =
                values.into_iter().map(|value| normal_value(value, roles, generation)).collect();
            // Lists that are sets, as conditions and owners are.
            if values.iter().all(|value| value["type"].is_string() || value["uid"].is_string()) {
                values.sort_by_cached_key(ToString::to_string);
            }
            Value::Array(values)
        }
        Value::Object(fields) => {
            let normal_field = |(name, value): (String, Value)| {
                let value = match name.as_str() {
                    "observedGeneration" => observed(&value, generation),
                    // The server chooses the next one that is free.
                    "clusterIP" | "clusterIPs" if value != "None" => "<an address>".into(),
                    _ => normal_value(value, roles, generation),
                };
                (name, value)
            };
            Value::Object(fields.into_iter().map(normal_field).collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// Generations are counts of changes: what counts is whether the observed one is the last.
fn observed(value: &Value, generation: &Value) -> Value {
    match (value.as_i64(), generation.as_i64()) {
        (Some(observed), Some(generation)) if observed == generation => "<the last>".into(),
        (Some(observed), Some(generation)) if observed < generation => "<an older one>".into(),
        _ => value.clone(),
    }
}

/// Compares two states. Fields of `ignored` places do not count.
pub(crate) fn compare(
    reference: &State,
    found: &State,
    is_ignored: &dyn Fn(&Difference) -> bool,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    let roles: BTreeSet<&String> = reference.keys().chain(found.keys()).collect();
    for role in roles {
        let none = Vec::new();
        let (one, two) = (reference.get(role).unwrap_or(&none), found.get(role).unwrap_or(&none));
        for index in 0..one.len().max(two.len()) {
            let (one, two) = (one.get(index), two.get(index));
            compare_values(role, "", one, two, &mut differences);
        }
    }
    differences.retain(|difference| !is_ignored(difference));
    differences
}

fn compare_values(
    role: &str,
    field: &str,
    one: Option<&Value>,
    two: Option<&Value>,
    differences: &mut Vec<Difference>,
) {
    match (one, two) {
        (one, two) if one == two => {}
        (Some(Value::Object(one)), Some(Value::Object(two))) => {
            let names: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
            for name in names {
                let field = format!("{field}/{}", name.replace('~', "~0").replace('/', "~1"));
                compare_values(role, &field, one.get(name), two.get(name), differences);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(two))) => {
            for index in 0..one.len().max(two.len()) {
                let field = format!("{field}/{index}");
                compare_values(role, &field, one.get(index), two.get(index), differences);
            }
        }
        (one, two) => differences.push(Difference {
            object: role.to_owned(),
            field: field.to_owned(),
            reference: one.map(ToString::to_string),
            found: two.map(ToString::to_string),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn uids_names_and_times_are_replaced_by_what_they_mean() {
        let object = |name: &str, uid: &str, time: &str, generated: bool| {
            let mut value = json!({"metadata": {
                "name": name, "uid": uid, "resourceVersion": "7", "generation": 3,
            }, "status": {
                "pod": format!("{name} runs"), "since": time, "observedGeneration": 3,
                "conditions": [{"type": "B"}, {"type": "A"}],
            }});
            if generated {
                value["metadata"]["generateName"] = "web-".into();
            }
            let (kind, namespace) = ("pods".to_owned(), "default".to_owned());
            Object { kind, namespace, name: name.to_owned(), value }
        };
        let normal = |object: Object| {
            let roles = roles(std::slice::from_ref(&object));
            normal(object.value, &roles)
        };
        let one = normal(object("web-abc", "u1", "2030-01-01T00:00:00Z", true));
        let two = normal(object("web-xyz", "u2", "2031-02-02T00:00:00.5Z", true));
        assert_eq!(one, two);
        assert_eq!(one["status"]["pod"], "web-* runs");
        assert_eq!(one["status"]["observedGeneration"], "<the last>");
        assert_eq!(one["status"]["conditions"][0]["type"], "A");
        let named = normal(object("web-abc", "u1", "2030-01-01T00:00:00Z", false));
        assert_eq!(named["status"]["pod"], "web-abc runs");
    }

    #[test]
    fn difference_names_the_field() {
        let state = |replicas: u32, count: usize| {
            let object = json!({"spec": {"replicas": replicas, "a/b": 1}});
            State::from([("sets a".to_owned(), vec![object; count])])
        };
        let all = |_: &Difference| false;
        assert_eq!(compare(&state(1, 1), &state(1, 1), &all), []);
        let found = compare(&state(1, 1), &state(2, 1), &all);
        assert_eq!((found[0].field.as_str(), found.len()), ("/spec/replicas", 1));
        let found = compare(&state(1, 1), &state(1, 2), &all);
        assert_eq!((found[0].field.as_str(), &found[0].reference), ("", &None));
        assert_eq!(compare(&state(1, 1), &state(2, 1), &|one| one.field == "/spec/replicas"), []);
    }
}
