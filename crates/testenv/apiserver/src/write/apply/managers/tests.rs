//! Tests of managers, with small objects whose schema has all types of lists and maps.

use serde_json::{Value, json};

use super::*;
use crate::schema::Schema;

const NOW: &str = "2026-11-15T00:00:00Z";

fn schema() -> Schema {
    let text = json!({"type": "string"});
    let item = json!({
        "type": "object",
        "required": ["name"],
        "properties": {"name": text, "x": {"type": "integer"}},
    });
    Schema::parse(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": text,
            "b": text,
            "labels": {"type": "object", "additionalProperties": text},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "list": {"type": "array", "items": text},
            "keyed": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": item,
            },
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}}}),
    )
    .expect("the schema must be valid")
}

/// An object and its managers.
struct ManagedObject {
    schema: Schema,
    spec: Value,
    managers: Managers,
}

impl ManagedObject {
    fn new() -> Self {
        Self { schema: schema(), spec: json!({}), managers: Managers::default() }
    }

    fn fields(schema: &Schema) -> Fields<'_> {
        let places = BTreeMap::from([("v1".to_owned(), MergeSchema::of_schema(schema))]);
        Fields { places, version: "v1".to_owned(), unwritable: FieldSet::default() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests pass literals")]
    fn try_apply(&mut self, name: &str, spec: Value, force: bool) -> Result<(), Vec<Conflict>> {
        let manager = Manager::new(name, Operation::Apply, "v1", "");
        let (live, config) = (json!({"spec": self.spec}), json!({"spec": spec}));
        let mut managers = self.managers.clone();
        let fields = Self::fields(&self.schema);
        let new = managers.apply(&fields, (&live, &config), &manager, force, NOW)?;
        self.managers = managers;
        self.spec = new.unwrap_or(live)["spec"].take();
        Ok(())
    }

    fn apply(&mut self, name: &str, spec: Value) {
        self.try_apply(name, spec, false).expect("there must be no conflict");
    }

    fn update(&mut self, name: &str, spec: Value) {
        let manager = Manager::new(name, Operation::Update, "v1", "");
        let (old, new) = (json!({"spec": self.spec}), json!({"spec": spec}));
        let fields = Self::fields(&self.schema);
        self.managers.update(&fields, (&old, &new), manager, Some(NOW.to_owned()));
        self.spec = spec;
    }

    fn fields_of(&self, name: &str) -> Vec<String> {
        let found = self.managers.0.iter().find(|(manager, _)| manager.name == name);
        found.map(|(_, holding)| holding.fields.paths()).unwrap_or_default()
    }
}

#[test]
fn fields_no_longer_applied_are_removed() {
    let mut world = ManagedObject::new();
    world.apply("one", json!({"a": "1", "b": "1", "labels": {"x": "1", "y": "1"}}));
    world.apply("one", json!({"a": "1", "labels": {"x": "1"}}));
    assert_eq!(world.spec, json!({"a": "1", "labels": {"x": "1"}}));
    assert_eq!(world.fields_of("one"), [".spec.a", ".spec.labels.x"]);
}

#[test]
fn fields_of_other_managers_are_kept() {
    let mut world = ManagedObject::new();
    world.apply("one", json!({"a": "1", "set": ["x", "y"]}));
    world.apply("two", json!({"a": "1", "set": ["y", "z"]}));
    world.apply("one", json!({}));
    assert_eq!(world.spec, json!({"a": "1", "set": ["y", "z"]}));
    // It applied an empty spec.
    assert_eq!(world.fields_of("one"), [".spec"]);
}

#[test]
fn different_value_is_a_conflict_unless_forced() {
    let mut world = ManagedObject::new();
    world.apply("one", json!({"a": "1"}));
    let conflicts = world.try_apply("two", json!({"a": "2"}), false).expect_err("it must conflict");
    assert_eq!(conflicts[0].manager.name, "one");
    assert_eq!(conflicts[0].fields.paths(), [".spec.a"]);
    world.try_apply("two", json!({"a": "2"}), true).expect("force must win");
    assert_eq!(world.spec, json!({"a": "2"}));
    assert!(world.fields_of("one").is_empty());
}

#[test]
fn update_takes_over_changed_fields_without_conflict() {
    let mut world = ManagedObject::new();
    world.apply("one", json!({"a": "1", "b": "1"}));
    world.update("two", json!({"a": "2", "b": "1"}));
    assert_eq!(world.fields_of("one"), [".spec.b"]);
    assert_eq!(world.fields_of("two"), [".spec.a"]);
    let conflicts = world.try_apply("one", json!({"a": "1", "b": "1"}), false);
    let conflicts = conflicts.expect_err("it must conflict");
    assert_eq!(conflicts[0].manager.shown(), "\"two\" using v1");
}

#[test]
fn removed_field_loses_all_managers() {
    let mut world = ManagedObject::new();
    world.apply("one", json!({"a": "1", "b": "1"}));
    world.update("two", json!({"b": "1"}));
    assert_eq!(world.fields_of("one"), [".spec.b"]);
    assert!(world.fields_of("two").is_empty());
}

#[test]
fn items_of_keyed_lists_are_managed_one_by_one() {
    let mut world = ManagedObject::new();
    world.apply("one", json!({"keyed": [{"name": "a", "x": 1}]}));
    world.apply("two", json!({"keyed": [{"name": "b", "x": 2}]}));
    let both = json!({"keyed": [{"name": "a", "x": 1}, {"name": "b", "x": 2}]});
    assert_eq!(world.spec, both);
    assert_eq!(
        world.fields_of("one"),
        [".spec.keyed[name=\"a\"]", ".spec.keyed[name=\"a\"].name", ".spec.keyed[name=\"a\"].x"]
    );
    world.apply("one", json!({}));
    assert_eq!(world.spec, json!({"keyed": [{"name": "b", "x": 2}]}));
}

#[test]
fn atomic_lists_have_one_manager() {
    let mut world = ManagedObject::new();
    world.apply("one", json!({"list": ["a"]}));
    assert!(world.try_apply("two", json!({"list": ["b"]}), false).is_err());
    world.apply("two", json!({"list": ["a"]}));
}

#[test]
fn unmanaged_fields_are_kept() {
    let mut world = ManagedObject::new();
    world.spec = json!({"labels": {"server": "1"}});
    world.apply("one", json!({"a": "1", "labels": {"x": "1"}}));
    world.apply("one", json!({"a": "1"}));
    assert_eq!(world.spec["a"], "1");
}

#[test]
fn managers_round_trip() {
    let mut world = ManagedObject::new();
    world.apply("one", json!({"a": "1", "keyed": [{"name": "a"}]}));
    world.update("two", json!({"a": "1", "keyed": [{"name": "a"}], "b": "2"}));
    let encoded = world.managers.encode();
    assert_eq!(encoded[0]["manager"], "one");
    assert_eq!(encoded[1]["operation"], "Update");
    assert_eq!(Managers::decode(&encoded), Some(world.managers));
}

#[test]
fn malformed_managers_are_none() {
    assert_eq!(Managers::decode(&json!([{}])), None);
    assert_eq!(Managers::decode(&json!("x")), None);
    let entry = json!({"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2"});
    assert_eq!(Managers::decode(&json!([entry])), None);
}

#[test]
fn oldest_managers_beyond_the_limit_are_merged() {
    let mut world = ManagedObject::new();
    for count in 0..14 {
        let mut spec = world.spec.clone();
        spec["labels"][format!("l{count:02}")] = json!("1");
        world.update(&format!("m{count:02}"), spec);
    }
    assert_eq!(world.managers.0.len(), UPDATERS_MAX);
    assert!(world.fields_of(ANCIENT).contains(&".spec.labels.l00".to_owned()));
    assert_eq!(world.fields_of("m13"), [".spec.labels.l13"]);
}
