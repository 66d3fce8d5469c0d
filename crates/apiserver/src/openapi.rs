//! `OpenAPI` v3: what the server tells clients about the fields of its kinds and about its paths.
//!
//! `/openapi/v3` names one document for each group and version, with a hash of its content;
//! kubectl reads the documents that it needs for `apply`, `diff` and `explain`. [`document`]
//! puts one together: the [`paths`] of its kinds, made of [`operation`]s, and the schemas that
//! these refer to. Schemas of built-in kinds are data ([`catalog`]), those of custom ones are made
//! from their definitions ([`custom`]).
//!
//! Nothing of this happens before the first request. Documents of built-in kinds are made once per
//! process, those with custom kinds once for every change of their definitions. They are made
//! without the lock of the state, so that other requests do not wait.

mod answer;
mod catalog;
mod custom;
mod document;
mod operation;
mod paths;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

pub(crate) use self::answer::answer;
use bytes::Bytes;
use ring::digest;
use serde_json::{Map, Value, json};

use crate::kinds::{Group, Origin, Registered};
use crate::state::State;

/// One document, made when it is asked for first.
#[derive(Debug)]
pub(crate) struct Document {
    group: Group,
    version: String,
    /// The definitions of its custom kinds.
    definitions: Vec<Value>,
    made: OnceLock<Made>,
}

/// What is sent of a document.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) content: Bytes,
    /// What its address and its `ETag` have, so that clients may keep it.
    pub(crate) hash: String,
}

/// Group and version.
type Name = (String, String);

/// Documents by their names.
#[derive(Debug, Default)]
pub(crate) struct Cache(BTreeMap<Name, Arc<Document>>);

/// The documents that only built-in kinds have a part in.
static BUILT_IN: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

impl State {
    /// All documents. Those that were not made yet are made by [`Document::made`], which takes
    /// milliseconds: the caller must have released the lock of the state.
    pub(crate) fn openapi_documents(&mut self) -> Vec<Arc<Document>> {
        let groups = self.registry.groups();
        let named: Vec<Name> = groups
            .iter()
            .flat_map(|group| {
                let versions = group.versions().into_iter();
                versions.map(|version| (group.name.clone(), version.to_owned()))
            })
            .collect();
        named.iter().filter_map(|(group, version)| self.openapi_document(group, version)).collect()
    }

    /// The document of a group, of which the core group is the empty one, and a version.
    pub(crate) fn openapi_document(&mut self, group: &str, version: &str) -> Option<Arc<Document>> {
        let found = self.registry.group(group)?;
        if !found.versions().contains(&version) {
            return None;
        }
        let is_custom = |kind: &Arc<Registered>| kind.origin == Origin::Custom;
        if !found.kinds.iter().any(is_custom) {
            let mut documents = BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner);
            return Some(documents.document(found, version, Vec::new()));
        }
        let of_group = |spec: &&Value| spec["group"] == group;
        let definitions: Vec<Value> = self.served.values().filter(of_group).cloned().collect();
        let registry = &self.registry;
        self.openapi.0.retain(|(group, _), _| registry.group(group).is_some());
        Some(self.openapi.document(found, version, definitions))
    }
}

impl Cache {
    /// The document of a group and version with these definitions: the one that is there already,
    /// unless the definitions were others then.
    fn document(&mut self, group: &Group, version: &str, definitions: Vec<Value>) -> Arc<Document> {
        let key = (group.name.clone(), version.to_owned());
        let held = self.0.get(&key).filter(|held| held.definitions == definitions);
        if let Some(held) = held {
            return Arc::clone(held);
        }
        let (group, version, made) = (group.clone(), version.to_owned(), OnceLock::new());
        let document = Arc::new(Document { group, version, definitions, made });
        self.0.insert(key, Arc::clone(&document));
        document
    }
}

impl Document {
    /// What is sent. The first caller makes it, others wait for that.
    pub(crate) fn made(&self) -> &Made {
        self.made.get_or_init(|| {
            let content = document::document(&self.group, &self.version, &self.definitions);
            Made::new(content.to_string().into())
        })
    }

    /// Where it is, below `/openapi/v3`.
    fn path(&self) -> String {
        let (group, version) = (&self.group.name, &self.version);
        if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
    }
}

impl Made {
    fn new(content: Bytes) -> Self {
        let mut hash = String::new();
        for byte in digest::digest(&digest::SHA512, &content).as_ref() {
            let _ = write!(hash, "{byte:02X}");
        }
        Self { content, hash }
    }
}

/// `/openapi/v3`: where all documents are.
pub(crate) fn index(documents: &[Arc<Document>]) -> Value {
    let mut paths = Map::new();
    for document in documents {
        let path = document.path();
        let url = format!("/openapi/v3/{path}?hash={}", document.made().hash);
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({ "paths": paths })
}

#[cfg(test)]
mod tests;
