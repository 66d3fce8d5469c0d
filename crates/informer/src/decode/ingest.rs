//! From the bytes of an object to an object: what it lacks is filled in, what nobody wants is cut, its head is
//! read. An object whose head cannot be read goes into quarantine, and the others go on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_indexer::{HeadError, HeadParser, Object, ObjectKey};

use crate::decode::transform::Transform;
use crate::resource::Resource;
use crate::share::lock::lock;

/// Makes objects. Each feed has one.
#[derive(Debug)]
pub(crate) struct Ingest {
    parser: HeadParser,
    transform: Option<Transform>,
    /// `"kind":"Pod","apiVersion":"v1"`, in the order in which a watch sends it: items of lists lack it.
    type_meta: Box<str>,
}

/// Objects that have no readable head, by key where that much could be read.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    held: Mutex<Quarantined>,
    /// How often an object came that had no readable head. Nearly always never, and then nobody locks.
    total: AtomicU64,
}

#[derive(Debug, Default)]
struct Quarantined {
    by_key: BTreeMap<ObjectKey, HeadError>,
    /// The last one whose key could not be read.
    nameless: Option<HeadError>,
}

/// How many are named: enough to see what is wrong.
const NAMED_MAX: usize = 100;

impl Ingest {
    pub(crate) fn new(
        parser: HeadParser,
        resource: &Resource,
        transform: Option<Transform>,
    ) -> Self {
        let (api_version, kind) = (resource.api_version(), resource.kind());
        let type_meta = format!(r#""kind":"{kind}","apiVersion":"{api_version}""#);
        Self { parser, transform, type_meta: type_meta.into() }
    }

    /// The object that `bytes` are.
    pub(crate) fn object(&mut self, bytes: Box<[u8]>) -> Result<Object, HeadError> {
        let bytes = match self.transform.as_ref().map(|transform| transform.apply(&bytes)) {
            None => bytes,
            Some(Some(changed)) => changed,
            Some(None) => return Err(self.untransformable(&bytes)),
        };
        let head = self.parser.parse(&bytes)?;
        if head.kind().is_some() || head.api_version().is_some() {
            return Ok(Object::new(head, bytes));
        }
        let bytes = self.with_type_meta(&bytes);
        Ok(Object::new(self.parser.parse(&bytes)?, bytes))
    }

    fn untransformable(&mut self, bytes: &[u8]) -> HeadError {
        match self.parser.parse(bytes) {
            Err(error) => error,
            Ok(head) => {
                let reason = "it cannot be read as JSON, so its transform cannot be applied";
                HeadError::rejected(Some(head.key().clone()), reason)
            }
        }
    }

    fn with_type_meta(&self, bytes: &[u8]) -> Box<[u8]> {
        // A head was read, so this is an object, and it has a name at least.
        [b"{", self.type_meta.as_bytes(), b",", &bytes[1..]].concat().into_boxed_slice()
    }
}

impl Quarantine {
    pub(crate) fn add(&self, error: HeadError) {
        let mut held = lock(&self.held);
        self.total.fetch_add(1, Ordering::Relaxed);
        match error.key().cloned() {
            Some(key) if held.by_key.len() < NAMED_MAX || held.by_key.contains_key(&key) => {
                held.by_key.insert(key, error);
            }
            Some(_) => {}
            None => held.nameless = Some(error),
        }
    }

    /// A readable version came, or the object is gone.
    pub(crate) fn release(&self, key: &ObjectKey) {
        if self.total() > 0 {
            lock(&self.held).by_key.remove(key);
        }
    }

    /// A list of a namespace, or of all, is complete, and had these: others are gone.
    pub(crate) fn sweep(&self, namespace: Option<&str>, unreadable: &BTreeSet<ObjectKey>) {
        if self.total() > 0 {
            let is_listed = |key: &ObjectKey| namespace.is_none() || namespace == key.namespace();
            let mut held = lock(&self.held);
            held.by_key.retain(|key, _| unreadable.contains(key) || !is_listed(key));
        }
    }

    /// How often an object came that had no readable head.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The objects whose current version is not in the cache.
    pub(crate) fn list(&self) -> Vec<HeadError> {
        let held = lock(&self.held);
        held.by_key.values().chain(&held.nameless).cloned().collect()
    }
}
