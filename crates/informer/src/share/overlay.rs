//! Lays one write over a snapshot of an informer's cache. The reconciler's overlay holds the
//! writes of a run, and calls this for each of them.
//!
//! The answer to a write has the object as the server holds it. The cache would hold it in another
//! form, or not at all. So what is laid over goes through the same steps as what arrives: the
//! selection of the informer, the cut of managedFields, the transform, the layout and the indexes.

use serde_json::{Value, json};
use windlass_indexer::{Head, Object, Snapshot};
use windlass_nesting::read_object;

use crate::decode::compact::ObjectScan;
use crate::share::informer_cache::{InformerCache, Written};

/// The kind in which the server sends metadata alone.
const METADATA_KIND: &str = "PartialObjectMetadata";

impl InformerCache {
    /// The cache as it is now. It costs the same for three objects and for a million.
    pub fn snapshot(&self) -> Snapshot {
        self.engine.cache.reader.snapshot()
    }

    /// Lays a write over a snapshot of this cache, as the cache would show it. `answer` is the body
    /// of the server's answer. A write that is older than the object in the snapshot changes
    /// nothing.
    ///
    /// - An object that the informer does not watch, by namespace, labels or name, is left out, and
    ///   removed if it was there. If the informer has a field selector on other fields, only the
    ///   server can tell: an object that the snapshot has stays, and one that it lacks is left out.
    /// - An answer that is not the object as the informer reads it tells too little, and changes
    ///   nothing: a scale, an object in another API version, or metadata alone where whole objects
    ///   are cached.
    pub fn overlay(&self, snapshot: &mut Snapshot, written: &Written, answer: &[u8]) {
        let head = match written {
            Written::Object(head) => head,
            Written::Gone { key, .. } => {
                snapshot.remove(key);
                return;
            }
        };
        let is_metadata_only = self.engine.is_metadata_only();
        let present = snapshot.get(head.key()).map(|object| object.head());
        let present = present.filter(|present| present.uid() == head.uid());
        // Answers in different forms may come in another order than their writes.
        let is_as_new = |present: &Head| present.resource_version() >= head.resource_version();
        if present.is_some_and(is_as_new) || !self.has_whole_answer(head, is_metadata_only) {
            return;
        }
        let is_certain = present.is_some() || !self.has_other_fields;
        if !self.selects(head) || !is_certain {
            snapshot.remove(head.key());
        } else if let Some(object) = self.ingest(answer, is_metadata_only) {
            self.engine.cache.reader.put_into(snapshot, object);
        }
    }

    /// Whether an answer with this head has everything that the cache would hold.
    fn has_whole_answer(&self, head: &Head, is_metadata_only: bool) -> bool {
        let resource = &self.engine.resource;
        let is_kind = head.kind() == Some(resource.kind());
        if is_metadata_only {
            return is_kind || head.kind() == Some(METADATA_KIND);
        }
        is_kind && head.api_version() == Some(&*resource.api_version())
    }

    /// The object in an answer as the cache would hold it; `None` if it would be quarantined.
    fn ingest(&self, answer: &[u8], is_metadata_only: bool) -> Option<Object> {
        let metadata = if is_metadata_only { Some(metadata_of(answer)?) } else { None };
        let managed_fields = self.engine.options.managed_fields;
        let kept = ObjectScan::copy_of(metadata.as_deref().unwrap_or(answer), managed_fields)?;
        self.engine.ingest().object(kept).ok()
    }
}

/// The metadata of an object, as the server would send it alone.
fn metadata_of(object: &[u8]) -> Option<Vec<u8>> {
    let metadata = |object: &Value| {
        let metadata = object.get("metadata")?;
        let kind = json!({
            "kind": METADATA_KIND, "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        });
        Some(kind.to_string().into_bytes())
    };
    read_object(object, metadata).flatten()
}
