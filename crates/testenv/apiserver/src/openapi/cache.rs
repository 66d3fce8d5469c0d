//! A cache of the generated documents.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use bytes::Bytes;
use ring::digest;
use serde_json::Value;

use super::document;
use crate::kinds::registry::Group;

/// One document, generated on first use.
#[derive(Debug)]
pub(crate) struct Document {
    group: Group,
    version: String,
    /// The definitions of its custom kinds.
    definitions: Vec<Value>,
    pub(super) generated: OnceLock<GeneratedDocument>,
}

/// The generated content of a document.
#[derive(Debug)]
pub(crate) struct GeneratedDocument {
    pub(crate) content: Bytes,
    /// The hash in the document's URL and `ETag`, by which clients cache it.
    pub(crate) hash: String,
}

/// Group and version.
pub(super) type Name = (String, String);

/// Documents by group and version.
#[derive(Debug, Default)]
pub(crate) struct Cache(pub(super) BTreeMap<Name, Arc<Document>>);

/// The documents of groups that have only built-in kinds.
pub(super) static BUILT_IN: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

impl Cache {
    /// Returns the document of a group and version. A cached document is used again unless the
    /// definitions have changed.
    pub(super) fn document(
        &mut self,
        group: &Group,
        version: &str,
        definitions: Vec<Value>,
    ) -> Arc<Document> {
        let key = (group.name.clone(), version.to_owned());
        let held = self.0.get(&key).filter(|held| held.definitions == definitions);
        if let Some(held) = held {
            return Arc::clone(held);
        }
        let (group, version, generated) = (group.clone(), version.to_owned(), OnceLock::new());
        let document = Arc::new(Document { group, version, definitions, generated });
        self.0.insert(key, Arc::clone(&document));
        document
    }
}

impl Document {
    /// Returns the content. The first caller generates it, others wait for it.
    pub(crate) fn generated(&self) -> &GeneratedDocument {
        self.generated.get_or_init(|| {
            let content = document::document(&self.group, &self.version, &self.definitions);
            GeneratedDocument::new(content.to_string().into())
        })
    }

    /// Returns the path of the document below `/openapi/v3`.
    pub(super) fn path(&self) -> String {
        let (group, version) = (&self.group.name, &self.version);
        if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
    }
}

impl GeneratedDocument {
    fn new(content: Bytes) -> Self {
        let mut hash = String::new();
        for byte in digest::digest(&digest::SHA512, &content).as_ref() {
            let _ = write!(hash, "{byte:02X}");
        }
        Self { content, hash }
    }
}
