//! Pod templates: comparing them, and naming the replica set of a new one.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use kube::api::ObjectMeta;

use serde_json::Value;
use windlass_reconciler::{OwnershipError, owner_reference};

use crate::objects::{Deployment, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus};

/// The label that distinguishes the pods of different templates.
pub(crate) const HASH_LABEL: &str = "pod-template-hash";

/// Without vowels and the digits that resemble them, so that no name contains a word.
pub(crate) const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The length of a hash.
const HASH_LENGTH: usize = 10;

/// Returns ten letters and digits: a hash of the template and of the number of collisions.
///
/// FNV-1a over the JSON. Upstream hashes a dump of Go's structures instead, so the hashes differ;
/// the replica set of a template is found by comparing templates, and never by its hash.
pub(super) fn hash(template: &Value, collisions: i32) -> String {
    let mut hash = Fnv::default();
    hash.add_value(template);
    hash.add(&collisions.to_le_bytes());
    let mut left = hash.0;
    let letter = |_| {
        let letter = ALPHABET[usize::try_from(left % 27).unwrap_or(0)];
        left /= 27;
        char::from(letter)
    };
    (0..HASH_LENGTH).map(letter).collect()
}

/// Returns whether two templates are equal except for the hash label.
pub(super) fn is_same(one: &Value, two: &Value) -> bool {
    without_hash(one) == without_hash(two)
}

/// Returns a replica set for the deployment's template, with no size yet.
///
/// # Errors
/// If the deployment was not read from a server.
pub(super) fn new_replica_set(deployment: &Deployment) -> Result<ReplicaSet, OwnershipError> {
    let spec = &deployment.spec;
    let hash = hash(&spec.template, deployment.status.collision_count.unwrap_or(0));
    let mut template = spec.template.clone();
    template["metadata"]["labels"][HASH_LABEL] = hash.clone().into();
    let mut selector = spec.selector.clone();
    let selected = selector.match_labels.get_or_insert_default();
    selected.insert(HASH_LABEL.to_owned(), hash.clone());
    Ok(ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name_any())),
            namespace: deployment.namespace(),
            labels: Some(labels(&template)),
            owner_references: Some(vec![owner_reference(deployment)?]),
            ..ObjectMeta::default()
        },
        spec: ReplicaSetSpec {
            replicas: Some(0),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template,
        },
        status: ReplicaSetStatus::default(),
    })
}

/// Returns the labels that a template gives to pods.
pub(crate) fn labels(template: &Value) -> BTreeMap<String, String> {
    let labels = template["metadata"]["labels"].as_object().into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn without_hash(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(HASH_LABEL);
    }
    template
}

/// The 64-bit FNV-1a hash.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Adds a value with its keys sorted.
    fn add_value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                let ordered: BTreeMap<&String, &Value> = fields.iter().collect();
                self.add(b"{");
                for (key, value) in ordered {
                    self.add(key.as_bytes());
                    self.add(b":");
                    self.add_value(value);
                }
                self.add(b"}");
            }
            Value::Array(items) => {
                self.add(b"[");
                for item in items {
                    self.add_value(item);
                }
                self.add(b"]");
            }
            other => self.add(other.to_string().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(image: &str) -> Value {
        json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": image}], "unheardOf": true},
        })
    }

    #[test]
    fn hash_depends_on_template_and_collisions() {
        let first = hash(&template("web:1"), 0);
        assert_eq!(first, hash(&template("web:1"), 0));
        assert_ne!(first, hash(&template("web:2"), 0));
        assert_ne!(first, hash(&template("web:1"), 1));
        assert_eq!(first.len(), HASH_LENGTH);
        assert!(first.bytes().all(|letter| ALPHABET.contains(&letter)), "{first}");
    }

    #[test]
    fn new_set_selects_its_own_pods_only() {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "1"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template("web:1")},
        }))
        .expect("a deployment");
        let set = new_replica_set(&deployment).expect("it has a uid");
        let hash = set.labels()[HASH_LABEL].clone();
        assert_eq!(set.name_any(), format!("web-{hash}"));
        assert_eq!(set.spec.selector.match_labels.expect("labels")[HASH_LABEL], hash);
        assert_eq!(labels(&set.spec.template), set.metadata.labels.expect("labels"));
        assert!(is_same(&set.spec.template, &deployment.spec.template));
        assert_ne!(set.spec.template, deployment.spec.template);
        assert!(!is_same(&template("web:2"), &deployment.spec.template));
    }
}
