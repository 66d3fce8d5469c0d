//! What a workload refers to: which `ConfigMap`s and Secrets, which of their keys, and which of
//! these must exist.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{Container, KeyToPath, PodSpec, PodTemplateSpec, Volume};
use windlass::indexer::ObjectKey;

use crate::annotation::{Annotations, EXTRA_CONFIG_MAPS, EXTRA_SECRETS};

/// The kinds of objects that hold configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A `ConfigMap`.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// What a workload takes from an object. Several references to one object are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Whether the object must exist.
    pub is_required: bool,
    /// Whether it takes all keys.
    pub takes_all: bool,
    /// The keys that it takes by name, and whether they must exist.
    pub keys: BTreeMap<String, bool>,
}

/// All objects that a workload refers to, each once and in order.
pub type References = BTreeMap<(Kind, ObjectKey), Usage>;

/// The references of a workload in a namespace, with its annotations and its template.
pub fn references(
    namespace: &str,
    annotations: &Annotations,
    template: &PodTemplateSpec,
) -> References {
    let mut found = Collector { namespace, references: References::new() };
    if let Some(pod) = &template.spec {
        found.add_pod(pod);
    }
    for (kind, annotation) in [(Kind::ConfigMap, EXTRA_CONFIG_MAPS), (Kind::Secret, EXTRA_SECRETS)]
    {
        found.add_extra(kind, annotations.get(annotation).map_or("", String::as_str));
    }
    found.references
}

struct Collector<'a> {
    namespace: &'a str,
    references: References,
}

impl Collector<'_> {
    fn add_pod(&mut self, pod: &PodSpec) {
        for volume in pod.volumes.iter().flatten() {
            self.add_volume(volume);
        }
        for container in pod.containers.iter().chain(pod.init_containers.iter().flatten()) {
            self.add_container(container);
        }
    }

    fn add_volume(&mut self, volume: &Volume) {
        if let Some(map) = &volume.config_map {
            self.add(Kind::ConfigMap, &map.name, map.optional, &keys(map.items.as_deref()));
        }
        if let Some(secret) = &volume.secret {
            let name = secret.secret_name.as_deref().unwrap_or_default();
            self.add(Kind::Secret, name, secret.optional, &keys(secret.items.as_deref()));
        }
        let projected = volume.projected.iter().flat_map(|projected| &projected.sources);
        for source in projected.flatten() {
            if let Some(map) = &source.config_map {
                self.add(Kind::ConfigMap, &map.name, map.optional, &keys(map.items.as_deref()));
            }
            if let Some(secret) = &source.secret {
                let items = keys(secret.items.as_deref());
                self.add(Kind::Secret, &secret.name, secret.optional, &items);
            }
        }
    }

    fn add_container(&mut self, container: &Container) {
        for source in container.env_from.iter().flatten() {
            if let Some(map) = &source.config_map_ref {
                self.add(Kind::ConfigMap, &map.name, map.optional, &[]);
            }
            if let Some(secret) = &source.secret_ref {
                self.add(Kind::Secret, &secret.name, secret.optional, &[]);
            }
        }
        for source in container.env.iter().flatten().flat_map(|variable| &variable.value_from) {
            if let Some(map) = &source.config_map_key_ref {
                self.add(Kind::ConfigMap, &map.name, map.optional, &[&map.key]);
            }
            if let Some(secret) = &source.secret_key_ref {
                self.add(Kind::Secret, &secret.name, secret.optional, &[&secret.key]);
            }
        }
    }

    /// Adds the entries of an annotation. Those that are no name are ignored.
    fn add_extra(&mut self, kind: Kind, list: &str) {
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            match *entry.split('/').collect::<Vec<_>>() {
                [name] => self.add(kind, name, Some(true), &[]),
                [namespace, name] => {
                    self.add_key(kind, ObjectKey::namespaced(namespace, name), Some(true), &[]);
                }
                _ => {}
            }
        }
    }

    /// Adds a reference to an object in the namespace of the workload.
    fn add(&mut self, kind: Kind, name: &str, optional: Option<bool>, keys: &[&str]) {
        self.add_key(kind, ObjectKey::namespaced(self.namespace, name), optional, keys);
    }

    /// Adds a reference to these keys of an object; to all, if there are none.
    fn add_key(&mut self, kind: Kind, object: ObjectKey, optional: Option<bool>, keys: &[&str]) {
        let is_required = optional != Some(true);
        let usage = self.references.entry((kind, object)).or_default();
        usage.is_required |= is_required;
        usage.takes_all |= keys.is_empty();
        for key in keys {
            *usage.keys.entry((*key).to_owned()).or_default() |= is_required;
        }
    }
}

/// The keys that a volume shows. Without any, it shows all.
fn keys(items: Option<&[KeyToPath]>) -> Vec<&str> {
    items.unwrap_or_default().iter().map(|item| item.key.as_str()).collect()
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(annotations: Value, pod: &Value) -> References {
        let template = serde_json::from_value(json!({"spec": pod})).expect("a template");
        let annotations = serde_json::from_value(annotations).expect("annotations");
        references("shop", &annotations, &template)
    }

    /// The references of a pod whose only container has these fields.
    fn of_container(mut container: Value) -> References {
        container["name"] = "main".into();
        of(json!({}), &json!({"containers": [container]}))
    }

    fn of_volumes(volumes: &[Value]) -> References {
        let mut volumes = volumes.to_vec();
        for (number, volume) in volumes.iter_mut().enumerate() {
            volume["name"] = number.to_string().into();
        }
        of(json!({}), &json!({"containers": [], "volumes": volumes}))
    }

    fn expected<const N: usize>(usages: [(Kind, &str, Usage); N]) -> References {
        let parse = |key: &str| key.parse().expect("a key");
        usages.into_iter().map(|(kind, key, usage)| ((kind, parse(key)), usage)).collect()
    }

    fn all(is_required: bool) -> Usage {
        Usage { is_required, takes_all: true, keys: BTreeMap::new() }
    }

    fn keys<const N: usize>(is_required: bool, keys: [(&str, bool); N]) -> Usage {
        let keys = keys.map(|(key, is_required)| (key.to_owned(), is_required)).into();
        Usage { is_required, takes_all: false, keys }
    }

    #[test]
    fn volume_takes_all_keys_or_its_items() {
        let found = of_volumes(&[
            json!({"configMap": {"name": "all"}}),
            json!({"configMap": {"name": "some", "items": [{"key": "a", "path": "b"}]}}),
            json!({"configMap": {"name": "maybe", "optional": true}}),
            json!({"secret": {"secretName": "all", "items": []}}),
            json!({"secret": {
                "secretName": "some", "items": [{"key": "a", "path": "b"}], "optional": true,
            }}),
        ]);
        let expected = expected([
            (Kind::ConfigMap, "shop/all", all(true)),
            (Kind::ConfigMap, "shop/some", keys(true, [("a", true)])),
            (Kind::ConfigMap, "shop/maybe", all(false)),
            (Kind::Secret, "shop/all", all(true)),
            (Kind::Secret, "shop/some", keys(false, [("a", false)])),
        ]);
        assert_eq!(found, expected);
    }

    #[test]
    fn projected_volume_takes_all_keys_or_its_items() {
        let found = of_volumes(&[json!({"projected": {"sources": [
            {"configMap": {"name": "all"}},
            {"configMap": {"name": "some", "items": [{"key": "a", "path": "b"}]}},
            {"secret": {"name": "all", "optional": true}},
            {"secret": {"name": "some", "items": [{"key": "a", "path": "b"}]}},
            {"serviceAccountToken": {"path": "token"}},
        ]}})]);
        let expected = expected([
            (Kind::ConfigMap, "shop/all", all(true)),
            (Kind::ConfigMap, "shop/some", keys(true, [("a", true)])),
            (Kind::Secret, "shop/all", all(false)),
            (Kind::Secret, "shop/some", keys(true, [("a", true)])),
        ]);
        assert_eq!(found, expected);
    }

    #[test]
    fn environment_takes_objects_and_single_keys() {
        let found = of_container(json!({
            "envFrom": [
                {"configMapRef": {"name": "all"}},
                {"secretRef": {"name": "all", "optional": true}},
            ],
            "env": [
                {"name": "A", "value": "text"},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "b"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "one", "key": "c"}}},
                {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "E", "valueFrom": {
                    "secretKeyRef": {"name": "maybe", "key": "e", "optional": true},
                }},
            ],
        }));
        let expected = expected([
            (Kind::ConfigMap, "shop/all", all(true)),
            (Kind::ConfigMap, "shop/one", keys(true, [("b", true)])),
            (Kind::Secret, "shop/all", all(false)),
            (Kind::Secret, "shop/maybe", keys(false, [("e", false)])),
            (Kind::Secret, "shop/one", keys(true, [("c", true)])),
        ]);
        assert_eq!(found, expected);
    }

    #[test]
    fn init_containers_count() {
        let init = json!({"name": "init", "envFrom": [{"secretRef": {"name": "init"}}]});
        let found = of(json!({}), &json!({"containers": [], "initContainers": [init]}));
        assert_eq!(found, expected([(Kind::Secret, "shop/init", all(true))]));
    }

    #[test]
    fn extra_objects_are_optional_and_may_be_elsewhere() {
        let annotations = json!({
            EXTRA_CONFIG_MAPS: "here, other/there ,a/b/c,, ",
            EXTRA_SECRETS: "here",
        });
        let expected = expected([
            (Kind::ConfigMap, "other/there", all(false)),
            (Kind::ConfigMap, "shop/here", all(false)),
            (Kind::Secret, "shop/here", all(false)),
        ]);
        assert_eq!(of(annotations, &json!({"containers": []})), expected);
    }

    #[test]
    fn references_to_one_object_are_merged() {
        let key = |key: &str, optional: bool| {
            let source = json!({"name": "one", "key": key, "optional": optional});
            json!({"name": key, "valueFrom": {"secretKeyRef": source}})
        };
        let container = json!({"env": [
            key("a", true), key("a", false), key("b", true), key("b", true),
        ]});
        let merged = keys(true, [("a", true), ("b", false)]);
        assert_eq!(
            of_container(container.clone()),
            expected([(Kind::Secret, "shop/one", merged.clone())])
        );

        let mut container = container;
        container["envFrom"] = json!([{"secretRef": {"name": "one", "optional": true}}]);
        let merged = Usage { takes_all: true, ..merged };
        assert_eq!(of_container(container), expected([(Kind::Secret, "shop/one", merged)]));
    }
}
