//! Small objects for tests.

#![allow(dead_code, reason = "each test file uses a part")]

use windlass_indexer::{Put, Store};

/// Puts an object with labels such as `"a=1,b=2"` and a field `value`, which is given as JSON.
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
    let metadata = format!(
        r#"{{"labels":{{{labels}}},"name":"{name}","namespace":"{namespace}",
            "resourceVersion":"{version}","uid":"uid-{key}"}}"#
    );
    format!(r#"{{"kind":"Thing","apiVersion":"v1","metadata":{metadata},"value":{value}}}"#)
}
