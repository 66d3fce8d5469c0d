//! Objects for tests, as small as they come.

#![allow(dead_code, reason = "each test file uses a part")]

use windlass_indexer::{Put, Store};

/// Puts a ConfigMap-like object with labels, `"a=1,b=2"`, and a field for views, which is `value` as JSON.
pub(crate) fn put(store: &mut Store, key: &str, version: u64, labels: &str, value: &str) -> Put {
    let json = object(key, version, labels, value);
    store.put_bytes(json.as_bytes()).expect("a test's object must have a head")
}

pub(crate) fn object(key: &str, version: u64, labels: &str, value: &str) -> String {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let labels: Vec<_> = labels
        .split(',')
        .filter_map(|label| label.split_once('='))
        .map(|(key, value)| format!(r#""{key}":"{value}""#))
        .collect();
    let labels = labels.join(",");
    format!(
        r#"{{"kind":"Thing","apiVersion":"v1","metadata":{{"labels":{{{labels}}},"name":"{name}","namespace":"{namespace}","resourceVersion":"{version}","uid":"uid-{key}"}},"value":{value}}}"#
    )
}
