//! `OpenAPI` v3: the schemas of the kinds and the operations of the paths.
//!
//! `/openapi/v3` lists one document for each group and version, with a hash of its content; kubectl
//! reads the documents that it needs for `apply`, `diff` and `explain`. [`document`] assembles a
//! document from the [`paths`] of its kinds, their [`operation`]s, and the schemas that these refer
//! to. Schemas of built-in kinds are data ([`catalog`]); those of custom kinds come from their
//! definitions ([`custom`]). [`cache`] keeps the documents.
//!
//! Documents are generated on request: those of built-in kinds once per process, those with custom
//! kinds once for every change of their definitions. They are generated without the lock of the
//! state, so that other requests do not wait.

mod answer;
mod cache;
mod catalog;
mod custom;
mod document;
mod operation;
mod paths;

use std::sync::{Arc, PoisonError};

use http::Response;
use http::request::Parts;
use serde_json::{Map, Value, json};

pub(crate) use self::cache::Cache;
use self::cache::{BUILT_IN, Document, Name};
use crate::body::Body;
use crate::failure::Failure;
use crate::kind::Origin;
use crate::kinds::Registered;
use crate::reply;
use crate::shared::Shared;
use crate::state::State;

impl State {
    /// Returns all documents. [`Document::generated`] generates those that are missing, which takes
    /// milliseconds: the caller must have released the lock of the state.
    fn openapi_documents(&mut self) -> Vec<Arc<Document>> {
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

    /// Returns the document of a group (empty: core) and a version.
    fn openapi_document(&mut self, group: &str, version: &str) -> Option<Arc<Document>> {
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

/// Answers `/openapi/v3`: the paths of all documents.
#[expect(clippy::unnecessary_wraps, reason = "without the feature `kubectl` it is an error")]
pub(crate) fn index(shared: &Shared) -> Result<Response<Body>, Failure> {
    let documents = shared.state().openapi_documents();
    Ok(reply::plain(&paths_of(&documents)))
}

fn paths_of(documents: &[Arc<Document>]) -> Value {
    let mut paths = Map::new();
    for document in documents {
        let path = document.path();
        let url = format!("/openapi/v3/{path}?hash={}", document.generated().hash);
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({ "paths": paths })
}

/// Answers with the document of a group and version.
#[expect(clippy::unnecessary_wraps, reason = "without the feature `kubectl` it is an error")]
pub(crate) fn document(
    shared: &Shared,
    request: &Parts,
    group: &str,
    version: &str,
) -> Result<Response<Body>, Failure> {
    let document = shared.state().openapi_document(group, version);
    let generated = document.as_deref().map(Document::generated);
    Ok(answer::answer(generated, request.uri.path(), request.uri.query(), &request.headers))
}

#[cfg(test)]
mod tests;
