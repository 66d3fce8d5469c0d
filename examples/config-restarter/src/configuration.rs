//! What is there of what a workload refers to: as a hash, or what is missing.
//!
//! The hash is over kind, namespace and name of every object, and over the keys that the workload
//! takes, with their content. It does not depend on the order of references, nor on metadata.
//! Nothing here shows the content of an object.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use ring::digest::{Context, SHA256};
use windlass::indexer::ObjectKey;

use crate::reference::{Kind, References};

/// The configuration of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// Everything that must exist does; the rest counts if it exists.
    Complete {
        /// SHA-256, in hexadecimal digits.
        hash: String,
    },
    /// Objects or keys are missing that must exist.
    Incomplete {
        /// Their names.
        missing: Vec<String>,
    },
}

/// An object that holds configuration.
#[derive(Clone)]
pub enum Source {
    /// A `ConfigMap`.
    ConfigMap(Arc<ConfigMap>),
    /// A Secret.
    Secret(Arc<Secret>),
}

impl Configuration {
    /// Reads what `references` name, by `get`.
    ///
    /// # Errors
    /// Returns the error of `get`.
    pub fn read<E>(
        references: &References,
        get: impl Fn(Kind, &ObjectKey) -> Result<Option<Source>, E>,
    ) -> Result<Self, E> {
        let (mut hash, mut missing) = (Context::new(&SHA256), Vec::new());
        for ((kind, object), usage) in references {
            let Some(source) = get(*kind, object)? else {
                if usage.is_required {
                    missing.push(format!("{kind} {object}"));
                }
                continue;
            };
            let mut entries = source.entries();
            let required = usage.keys.iter().filter(|(_, is_required)| **is_required);
            for (key, _) in required.filter(|(key, _)| !entries.contains_key(key.as_str())) {
                missing.push(format!("the key {key:?} of {kind} {object}"));
            }
            entries.retain(|key, _| usage.takes_all || usage.keys.contains_key(*key));
            add(&mut hash, kind.to_string().as_bytes());
            add(&mut hash, object.to_string().as_bytes());
            hash.update(&(entries.len() as u64).to_be_bytes());
            for (key, content) in entries {
                add(&mut hash, key.as_bytes());
                add(&mut hash, content);
            }
        }
        if !missing.is_empty() {
            return Ok(Self::Incomplete { missing });
        }
        let mut text = String::new();
        for byte in hash.finish().as_ref() {
            write!(text, "{byte:02x}").expect("writing to a string must succeed");
        }
        Ok(Self::Complete { hash: text })
    }
}

/// Adds a text with its length, so that where it ends makes a difference.
fn add(hash: &mut Context, text: &[u8]) {
    hash.update(&(text.len() as u64).to_be_bytes());
    hash.update(text);
}

impl Source {
    /// All keys, with their content.
    fn entries(&self) -> BTreeMap<&str, &[u8]> {
        let (texts, bytes) = match self {
            Self::ConfigMap(map) => (map.data.as_ref(), map.binary_data.as_ref()),
            Self::Secret(secret) => (None, secret.data.as_ref()),
        };
        let texts = texts.into_iter().flatten().map(|(key, text)| (key.as_str(), text.as_bytes()));
        let bytes = bytes.into_iter().flatten().map(|(key, bytes)| (key.as_str(), &*bytes.0));
        texts.chain(bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::{Value, json};

    use super::*;
    use crate::reference::Usage;

    /// The objects that exist, by kind and key.
    #[derive(Clone)]
    struct Objects(Vec<(Kind, &'static str, Value)>);

    impl Objects {
        fn read(&self, references: &References) -> Configuration {
            let read = Configuration::read(references, |kind, key| {
                let is_it =
                    |(of, name, _): &&(Kind, &str, Value)| *of == kind && key.to_string() == *name;
                Ok::<_, Infallible>(
                    self.0.iter().find(is_it).map(|(_, _, object)| source(kind, object)),
                )
            });
            read.unwrap_or_else(|never| match never {})
        }

        /// The same with another object.
        fn with(&self, kind: Kind, key: &'static str, object: Value) -> Self {
            let others = self.0.iter().filter(|(of, name, _)| (*of, *name) != (kind, key)).cloned();
            Self(others.chain([(kind, key, object)]).collect())
        }
    }

    fn source(kind: Kind, object: &Value) -> Source {
        fn decoded<T: serde::de::DeserializeOwned>(object: &Value) -> Arc<T> {
            Arc::new(serde_json::from_value(object.clone()).expect("an object"))
        }
        match kind {
            Kind::ConfigMap => Source::ConfigMap(decoded(object)),
            Kind::Secret => Source::Secret(decoded(object)),
        }
    }

    fn takes(
        kind: Kind,
        key: &str,
        keys: &[&str],
        is_required: bool,
    ) -> ((Kind, ObjectKey), Usage) {
        let names = keys.iter().map(|key| ((*key).to_owned(), is_required)).collect();
        let usage = Usage { is_required, takes_all: keys.is_empty(), keys: names };
        ((kind, key.parse().expect("a key")), usage)
    }

    fn objects() -> Objects {
        Objects(vec![
            (Kind::ConfigMap, "shop/settings", json!({"data": {"a": "1", "b": "2"}})),
            (Kind::Secret, "shop/password", json!({"data": {"password": "c2VjcmV0"}})),
        ])
    }

    fn everything() -> References {
        let all = [(Kind::ConfigMap, "shop/settings"), (Kind::Secret, "shop/password")];
        all.map(|(kind, key)| takes(kind, key, &[], true)).into()
    }

    #[test]
    fn hash_changes_with_text_with_bytes_and_with_secrets() {
        let (references, objects) = (everything(), objects());
        let changed = [
            (Kind::ConfigMap, "shop/settings", json!({"data": {"a": "1", "b": "3"}})),
            (Kind::ConfigMap, "shop/settings", json!({"data": {"a": "1"}})),
            (
                Kind::ConfigMap,
                "shop/settings",
                json!({"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AA=="}}),
            ),
            (Kind::Secret, "shop/password", json!({"data": {"password": "b3RoZXI="}})),
        ];
        let mut hashes = vec![objects.read(&references)];
        for (kind, key, object) in changed {
            hashes.push(objects.with(kind, key, object).read(&references));
        }
        for (number, hash) in hashes.iter().enumerate() {
            let Configuration::Complete { hash: text } = hash else { panic!("{hash:?}") };
            assert_eq!(text.len(), 64);
            assert!(!hashes[..number].contains(hash), "{number} is not different");
        }
    }

    #[test]
    fn metadata_does_not_count_nor_whether_content_is_text_or_bytes() {
        let (references, objects) = (everything(), objects());
        let labelled = json!({"metadata": {"labels": {"a": "b"}}, "data": {"a": "1", "b": "2"}});
        let as_bytes = json!({"data": {"a": "1"}, "binaryData": {"b": "Mg=="}});
        for same in [labelled, as_bytes] {
            let changed = objects.with(Kind::ConfigMap, "shop/settings", same);
            assert_eq!(changed.read(&references), objects.read(&references));
        }
    }

    #[test]
    fn only_keys_count_that_are_taken() {
        let references = [takes(Kind::ConfigMap, "shop/settings", &["a"], true)].into();
        let objects = objects();
        let other =
            objects.with(Kind::ConfigMap, "shop/settings", json!({"data": {"a": "1", "b": "3"}}));
        assert_eq!(other.read(&references), objects.read(&references));
        let taken =
            objects.with(Kind::ConfigMap, "shop/settings", json!({"data": {"a": "2", "b": "2"}}));
        assert_ne!(taken.read(&references), objects.read(&references));
    }

    #[test]
    fn content_that_moves_to_another_key_name_or_namespace_counts() {
        let one = |kind, object: &'static str, key: &str, content: &str| {
            let objects = Objects(vec![(kind, object, json!({"data": {key: content}}))]);
            objects.read(&[takes(kind, object, &[], true)].into())
        };
        let hashes = [
            one(Kind::ConfigMap, "shop/settings", "ab", "c"),
            one(Kind::ConfigMap, "shop/settings", "a", "bc"),
            one(Kind::ConfigMap, "shop/other", "ab", "c"),
            one(Kind::ConfigMap, "other/settings", "ab", "c"),
        ];
        for (number, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..number].contains(hash), "{number} is not different");
        }
    }

    #[test]
    fn missing_objects_and_keys_are_named_and_optional_ones_are_not() {
        let objects = objects();
        let references = [
            takes(Kind::ConfigMap, "shop/settings", &["a", "c"], true),
            takes(Kind::ConfigMap, "shop/gone", &[], true),
            takes(Kind::Secret, "shop/password", &["user"], false),
            takes(Kind::Secret, "shop/gone", &[], false),
        ];
        let missing = ["ConfigMap shop/gone", "the key \"c\" of ConfigMap shop/settings"];
        let missing = missing.map(str::to_owned).to_vec();
        assert_eq!(objects.read(&references.into()), Configuration::Incomplete { missing });
    }

    #[test]
    fn optional_object_counts_as_soon_as_it_exists() {
        let references = [takes(Kind::Secret, "shop/extra", &[], false)].into();
        let without = objects().read(&references);
        let with = objects().with(Kind::Secret, "shop/extra", json!({"data": {"a": "MQ=="}}));
        assert!(matches!(without, Configuration::Complete { .. }));
        assert_ne!(with.read(&references), without);
    }
}
