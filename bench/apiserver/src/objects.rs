//! The `ConfigMaps` of the benchmark: small, many, and the same for both servers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use serde_json::json;

use crate::Who;

/// Namespaces over which the objects are spread.
pub(crate) const NAMESPACES: usize = 100;

/// Who writes them, as it stands in their managed fields.
pub(crate) const MANAGER: &str = "apiserver-bench";

pub(crate) fn namespace(index: usize) -> String {
    format!("bench-{:02}", index % NAMESPACES)
}

pub(crate) fn name(index: usize) -> String {
    format!("object-{index:06}")
}

/// The `ConfigMap` with this index. Only the real server keeps the books on who wrote what; the
/// embedded one gets the same entry from here, so that both answer with as many bytes.
pub(crate) fn config_map(who: Who, index: usize) -> ConfigMap {
    let managed = (who != Who::Real).then(|| {
        let entry = json!({
            "manager": MANAGER,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:data": {".": {}, "f:color": {}, "f:value": {}},
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            },
        });
        vec![serde_json::from_value(entry).expect("a literal entry must be valid")]
    });
    let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name(index)),
            namespace: Some(namespace(index)),
            labels: Some(pairs(&[("app", "bench")])),
            managed_fields: managed,
            ..ObjectMeta::default()
        },
        data: Some(pairs(&[("color", "blue"), ("value", &index.to_string())])),
        ..ConfigMap::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn objects_have_names_of_their_own_in_all_namespaces() {
        let keys: BTreeSet<_> = (0..1000).map(|index| (namespace(index), name(index))).collect();
        assert_eq!(keys.len(), 1000);
        let namespaces: BTreeSet<_> = keys.into_iter().map(|(namespace, _)| namespace).collect();
        assert_eq!(namespaces.len(), NAMESPACES);
    }

    #[test]
    fn only_the_embedded_server_is_given_managed_fields() {
        let (ours, theirs) = (config_map(Who::Embedded, 7), config_map(Who::Real, 7));
        assert!(ours.metadata.managed_fields.is_some());
        let bare = ObjectMeta { managed_fields: None, ..ours.metadata.clone() };
        assert_eq!(ConfigMap { metadata: bare, ..ours }, theirs);
    }
}
