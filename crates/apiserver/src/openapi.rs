//! `OpenAPI` v3: what the server tells clients about the fields of its kinds and about its paths.
//!
//! `/openapi/v3` names one document for each group and version, with a hash of its content;
//! kubectl reads the documents that it needs for `apply`, `diff` and `explain`. [`document`]
//! puts one together: the [`paths`] of its kinds, made of [`operation`]s, and the schemas that
//! these refer to. Schemas of built-in kinds are data ([`catalog`]), those of custom ones are made
//! from their definitions ([`custom`]).
//!
//! Nothing of this happens before the first request. Documents of built-in kinds are made once per
//! process, those with custom kinds once for every change of their definitions.

mod answer;
mod catalog;
mod custom;
mod document;
mod operation;
mod paths;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

pub(crate) use self::answer::answer;
use bytes::Bytes;
use ring::digest;
use serde_json::{Map, Value, json};

use crate::kinds::{Group, Origin, Registered};
use crate::state::State;

/// One document, ready to be sent.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) content: Bytes,
    /// What its address and its `ETag` have, so that clients may keep it.
    pub(crate) hash: String,
}

/// Group and version.
type Name = (String, String);

/// The documents that definitions have a part in, each with the definitions as they were then.
#[derive(Debug, Default)]
pub(crate) struct Cache(BTreeMap<Name, (Vec<Value>, Arc<Document>)>);

/// The documents that only built-in kinds have a part in.
static BUILT_IN: LazyLock<Mutex<BTreeMap<Name, Arc<Document>>>> = LazyLock::new(Mutex::default);

impl State {
    /// `/openapi/v3`: all documents.
    pub(crate) fn openapi_index(&mut self) -> Value {
        let groups = self.registry.groups();
        let named: Vec<Name> = groups
            .iter()
            .flat_map(|group| {
                let versions = group.versions().into_iter();
                versions.map(|version| (group.name.clone(), version.to_owned()))
            })
            .collect();
        let mut paths = Map::new();
        for (group, version) in named {
            let Some(document) = self.openapi_document(&group, &version) else { continue };
            let path = if group.is_empty() {
                format!("api/{version}")
            } else {
                format!("apis/{group}/{version}")
            };
            let url = format!("/openapi/v3/{path}?hash={}", document.hash);
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
        json!({ "paths": paths })
    }

    /// `/openapi/v3/apis/GROUP/VERSION`; the core group is the empty one.
    pub(crate) fn openapi_document(&mut self, group: &str, version: &str) -> Option<Arc<Document>> {
        let found = self.registry.group(group)?;
        if !found.versions().contains(&version) {
            return None;
        }
        let key = (group.to_owned(), version.to_owned());
        let is_custom = |kind: &Arc<Registered>| kind.origin == Origin::Custom;
        if !found.kinds.iter().any(is_custom) {
            let mut made = BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner);
            let document = made.entry(key).or_insert_with(|| make(found, version, &[]));
            return Some(Arc::clone(document));
        }
        let of_group = |spec: &&Value| spec["group"] == group;
        let definitions: Vec<Value> = self.served.values().filter(of_group).cloned().collect();
        if let Some((then, document)) = self.openapi.0.get(&key)
            && *then == definitions
        {
            return Some(Arc::clone(document));
        }
        let document = make(found, version, &definitions);
        let registry = &self.registry;
        self.openapi.0.retain(|(group, _), _| registry.group(group).is_some());
        self.openapi.0.insert(key, (definitions, Arc::clone(&document)));
        Some(document)
    }
}

fn make(group: &Group, version: &str, definitions: &[Value]) -> Arc<Document> {
    let content = document::document(group, version, definitions).to_string();
    let mut hash = String::new();
    for byte in digest::digest(&digest::SHA512, content.as_bytes()).as_ref() {
        let _ = write!(hash, "{byte:02X}");
    }
    Arc::new(Document { content: content.into(), hash })
}

#[cfg(test)]
mod tests;
