use json_patch::{diff, patch};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

/// What the type knows of [`raw_object`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Typed {
    #[serde(default)]
    replicas: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    theme: Option<String>,
    #[serde(default)]
    inner: Inner,
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Inner {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Part {
    name: String,
    #[serde(default)]
    size: i64,
    #[serde(default)]
    inner: Inner,
}

/// What a defaulter does in the property below.
#[derive(Clone, Debug)]
enum Change {
    Replicas(i64),
    Theme(Option<String>),
    Host(Option<String>),
    Tag(String),
    PartSize(usize, i64),
    PartHost(usize, String),
    Insert(usize, String),
    Remove(usize),
    Swap(usize, usize),
}

impl Change {
    fn apply(&self, typed: &mut Typed) {
        let count = typed.parts.len();
        let at = |index: &usize| index % count.max(1);
        match self {
            Self::Replicas(replicas) => typed.replicas = *replicas,
            Self::Theme(theme) => typed.theme.clone_from(theme),
            Self::Host(host) => typed.inner.host.clone_from(host),
            Self::Tag(tag) => typed.inner.tags.push(tag.clone()),
            Self::PartSize(index, size) if count > 0 => typed.parts[at(index)].size = *size,
            Self::PartHost(index, host) if count > 0 => {
                typed.parts[at(index)].inner.host = Some(host.clone());
            }
            Self::Insert(index, name) if typed.parts.iter().all(|part| part.name != *name) => {
                let part = Part { name: name.clone(), size: 1, inner: Inner::default() };
                typed.parts.insert(index % (count + 1), part);
            }
            Self::Remove(index) if count > 0 => drop(typed.parts.remove(at(index))),
            Self::Swap(one, other) if count > 0 => typed.parts.swap(at(one), at(other)),
            _ => {}
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        (0..3i64).prop_map(Change::Replicas),
        proptest::option::of("[a-c]").prop_map(Change::Theme),
        proptest::option::of("[a-c]").prop_map(Change::Host),
        "[a-c]".prop_map(Change::Tag),
        (0..9usize, 0..3i64).prop_map(|(at, size)| Change::PartSize(at, size)),
        (0..9usize, "[a-c]").prop_map(|(at, host)| Change::PartHost(at, host)),
        (0..9usize, "[a-z]").prop_map(|(at, name)| Change::Insert(at, name)),
        (0..9usize).prop_map(Change::Remove),
        (0..9usize, 0..9usize).prop_map(|(one, other)| Change::Swap(one, other)),
    ];
    proptest::collection::vec(change, 0..6)
}

/// Fields that no type here knows: their names begin with `x-`.
fn unknown() -> impl Strategy<Value = Fields> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        "[a-z~/ ]{0,3}".prop_map(Value::from)
    ];
    let value = leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z~/]{1,2}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    proptest::collection::btree_map("x-[a-z~/]{1,2}", value, 0..3)
        .prop_map(|map| map.into_iter().collect())
}

fn inner() -> impl Strategy<Value = Value> {
    let host = proptest::option::of("[a-c]");
    (host, proptest::collection::vec("[a-c]", 0..2), unknown()).prop_map(|(host, tags, unknown)| {
        let mut fields = unknown;
        fields.extend(host.map(|host| ("host".to_owned(), json!(host))));
        fields.insert("tags".to_owned(), json!(tags));
        Value::Object(fields)
    })
}

/// An object as the server has it: some known fields, and unknown ones at every depth.
fn raw_object() -> impl Strategy<Value = Value> {
    let part = (0..3i64, proptest::option::of(inner()), unknown());
    let parts = proptest::collection::btree_map("[a-f]", part, 0..4);
    let replicas = proptest::option::of(0..3i64);
    (replicas, proptest::option::of(inner()), parts, unknown()).prop_map(
        |(replicas, inner, parts, unknown)| {
            let mut fields = unknown;
            fields.extend(replicas.map(|replicas| ("replicas".to_owned(), json!(replicas))));
            fields.extend(inner.map(|inner| ("inner".to_owned(), inner)));
            let parts = parts.into_iter().map(|(name, (size, inner, unknown))| {
                let mut part = unknown;
                part.insert("name".to_owned(), json!(name));
                part.insert("size".to_owned(), json!(size));
                part.extend(inner.map(|inner| ("inner".to_owned(), inner)));
                Value::Object(part)
            });
            fields.insert("parts".to_owned(), parts.collect());
            Value::Object(fields)
        },
    )
}

/// The unknown fields of an object, each with a path that survives reordering of `parts`.
fn unknown_fields(raw: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut collect = |path: &str, value: &Value| {
        for (key, value) in value.as_object().into_iter().flatten() {
            if key.starts_with("x-") {
                found.push((format!("{path}/{key}"), value.clone()));
            }
        }
    };
    collect("", raw);
    collect("inner", &raw["inner"]);
    for part in raw["parts"].as_array().into_iter().flatten() {
        let name = part["name"].as_str().expect("a part must have a name");
        collect(&format!("parts/{name}"), part);
        collect(&format!("parts/{name}/inner"), &part["inner"]);
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

proptest! {
    #[test]
    fn unknown_fields_survive_and_the_patch_gives_what_the_type_says(
        raw in raw_object(),
        changes in changes(),
    ) {
        let before: Typed = serde_json::from_value(raw.clone()).unwrap();
        let mut after = before.clone();
        for change in &changes {
            change.apply(&mut after);
        }
        let (before, shown) =
            (serde_json::to_value(&before).unwrap(), serde_json::to_value(&after).unwrap());

        let expected = overlay(&raw, &before, &shown).unwrap();
        let mut patched = raw.clone();
        let operations = diff(&raw, &expected);
        patch(&mut patched, &operations).unwrap();
        prop_assert_eq!(&patched, &expected);

        // The type sees what the defaulter left.
        let seen: Typed = serde_json::from_value(patched.clone()).unwrap();
        prop_assert_eq!(&seen, &after);
        if before == shown {
            prop_assert!(operations.0.is_empty(), "nothing changed, but the patch is {operations}");
        }

        // Nothing unknown is lost but with the element that the defaulter removed. A part that was
        // removed and inserted again may have its old fields or none.
        let left = unknown_fields(&patched);
        let was_removed = changes.iter().any(|change| matches!(change, Change::Remove(_)));
        let is_inserted = |part: &str| {
            changes.iter().any(|change| matches!(change, Change::Insert(_, name) if name == part))
        };
        let is_there = |part: &str| after.parts.iter().any(|left| left.name == part);
        for (path, value) in unknown_fields(&raw) {
            let part = path.strip_prefix("parts/").and_then(|rest| rest.split('/').next());
            let is_gone =
                part.is_some_and(|part| was_removed && (!is_there(part) || is_inserted(part)));
            prop_assert!(is_gone || left.contains(&(path.clone(), value)), "{path} is lost");
        }
    }
}

#[test]
fn defaults_that_the_type_only_writes_out_are_no_change() {
    let raw = json!({"spec": {}});
    let before = json!({"spec": {"replicas": 0, "inner": {}}});
    let after = json!({"spec": {"replicas": 0, "inner": {"host": "a"}}});
    assert_eq!(
        overlay(&raw, &before, &after),
        Ok(json!({"spec": {"inner": {"host": "a"}}})),
        "the parent of a changed field is added, and nothing else"
    );
}

#[test]
fn elements_that_move_and_change_take_their_unknown_fields_along() {
    let raw = json!([{"name": "a", "x": 1}, {"name": "b", "x": 2}]);
    let before = json!([{"name": "a"}, {"name": "b"}]);
    let after = json!([{"name": "new"}, {"name": "b", "size": 1}, {"name": "a"}]);
    assert_eq!(
        overlay(&raw, &before, &after),
        Ok(json!([{"name": "new"}, {"name": "b", "size": 1, "x": 2}, {"name": "a", "x": 1}]))
    );
}

#[test]
fn elements_after_those_that_the_type_shows_stay() {
    let raw = json!({"hosts": ["a", "b"], "parts": [{"name": "a", "more": 1}, {"kind": "other"}]});
    let before = json!({"hosts": ["a"], "parts": [{"name": "a"}]});
    let after = json!({"hosts": ["x"], "parts": []});
    let changed = json!({"hosts": ["x", "b"], "parts": [{"kind": "other"}]});
    assert_eq!(overlay(&raw, &before, &after), Ok(changed));
}

#[test]
fn a_list_of_which_the_type_shows_other_elements_is_refused() {
    let raw = json!({"parts": [{"name": "a"}, {"name": "b"}]});
    let error = overlay(&raw, &json!({"parts": [{"name": "b"}]}), &json!({"parts": []}));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("the list at /parts has 2 elements"), "{error}");
}

/// With a rule that compares every element with every other, this takes minutes.
#[test]
fn long_lists_are_matched_in_linear_time() {
    let element = |at: usize, size: usize| json!({"name": at.to_string(), "size": size});
    let before: Value = (0..50_000).map(|at| element(at, 0)).collect();
    let after: Value = (0..50_000).rev().map(|at| element(at, 1)).collect();
    let changed = overlay(&before, &before, &after).unwrap();
    assert_eq!(changed, after);
}

/// Objects in objects, with a field that the type does not show at the bottom of the raw one.
fn deep(levels: usize, leaf: Value) -> Value {
    (0..levels).fold(leaf, |inner, _| Value::Object(Map::from_iter([("a".to_owned(), inner)])))
}

#[test]
fn deep_object_that_changes_at_its_bottom_takes_memory_for_its_depth_once() {
    const LEVELS: usize = 10_000;
    let is_laid_over = windlass_nesting::on_large_stack(|| {
        let raw = deep(LEVELS, json!({"b": 1, "unknown": true}));
        let (before, after) = (deep(LEVELS, json!({"b": 1})), deep(LEVELS, json!({"b": 2})));
        let laid_over = overlay(&raw, &before, &after).expect("objects always match");
        // The type shows all of it.
        let open = overlay(&before, &before, &after).expect("it is all shown");
        laid_over == deep(LEVELS, json!({"b": 2, "unknown": true})) && open == after
    });
    assert!(is_laid_over.expect("there must be a thread"));
}
