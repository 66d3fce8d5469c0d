//! Documents that were made, so that they are made once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use bytes::Bytes;
use ring::digest;
use serde_json::Value;

use super::document;
use crate::kinds::Group;

/// One document, made when it is asked for first.
#[derive(Debug)]
pub(crate) struct Document {
    group: Group,
    version: String,
    /// The definitions of its custom kinds.
    definitions: Vec<Value>,
    pub(super) made: OnceLock<Made>,
}

/// What is sent of a document.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) content: Bytes,
    /// What its address and its `ETag` have, so that clients may keep it.
    pub(crate) hash: String,
}

/// Group and version.
pub(super) type Name = (String, String);

/// Documents by their names.
#[derive(Debug, Default)]
pub(crate) struct Cache(pub(super) BTreeMap<Name, Arc<Document>>);

/// The documents that only built-in kinds have a part in.
pub(super) static BUILT_IN: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

impl Cache {
    /// The document of a group and version with these definitions: the one that is there already,
    /// unless the definitions were others then.
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
    pub(super) fn path(&self) -> String {
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
