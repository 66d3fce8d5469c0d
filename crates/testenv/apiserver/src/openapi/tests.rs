//! Tests of whole documents. The conformance suite checks their content.

use std::collections::BTreeSet;

use super::cache::Cache;
use super::*;
use crate::kinds::Registry;

fn documents() -> Vec<(String, Value)> {
    let registry = Registry::new();
    let mut documents = Vec::new();
    for group in registry.groups() {
        for version in group.versions() {
            let name = format!("{}/{version}", group.name);
            documents.push((name, document::document(group, version, &[])));
        }
    }
    documents
}

fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str);
            found.extend(name.and_then(|name| name.strip_prefix("#/components/schemas/")));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_schema_that_is_referred_to_is_in_the_document_and_no_other() {
    for (name, document) in documents() {
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let mut wanted = BTreeSet::new();
        references(&document, &mut wanted);
        let have: BTreeSet<&str> = schemas.keys().map(String::as_str).collect();
        assert_eq!(have, wanted, "{name}");
    }
}

#[test]
fn operation_ids_are_unique() {
    for (name, document) in documents() {
        let paths = document["paths"].as_object().expect("paths");
        let items = paths.values().filter_map(Value::as_object);
        let operations = items.flat_map(|item| item.values());
        let ids: Vec<&str> =
            operations.filter_map(|operation| operation.get("operationId")?.as_str()).collect();
        assert!(!ids.is_empty(), "{name}");
        let unique: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(unique.len(), ids.len(), "{name}");
    }
}

#[test]
fn document_is_generated_lazily_and_once() {
    let registry = Registry::new();
    let group = registry.group("apps").expect("a group");
    let mut cache = Cache::default();
    let one = cache.document(group, "v1", Vec::new());
    assert!(one.generated.get().is_none(), "it is generated later, without the lock of the state");
    let hash = one.generated().hash.clone();
    let same = cache.document(group, "v1", Vec::new());
    assert!(Arc::ptr_eq(&one, &same));
    let other = cache.document(group, "v1", vec![json!({"group": "apps", "versions": []})]);
    assert!(!Arc::ptr_eq(&one, &other) && other.generated.get().is_none());
    assert!(
        paths_of(&[one])["paths"]["apis/apps/v1"]["serverRelativeURL"]
            .as_str()
            .is_some_and(|url| url.ends_with(&hash))
    );
}
