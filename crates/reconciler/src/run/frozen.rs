//! The caches of a controller as one run sees them: as they were when it began, with what it has
//! written itself laid over them.
//!
//! Freezing a cache is a clone of one pointer. What the run writes is laid over when it reads next,
//! in its own call: transforms and indexes are user code, and a panic in one is a panic of the run.

use std::sync::Arc;

use parking_lot::Mutex;
use windlass_indexer::{Lister, Object, ObjectKey, ObjectType, Snapshot};
use windlass_informer::Resource;

use crate::run::recording::WriteLog;
use crate::sources::source::Source;
use crate::writes::write::TrackedWrite;

/// The caches of a controller when a run begins. They are frozen one after the other, so two of
/// them can differ by a moment.
pub(crate) struct FrozenCaches(Vec<FrozenCache>);

/// One of them.
pub(crate) struct FrozenCache {
    pub(crate) source: Arc<Source>,
    /// Whether it may lack what the last leader has written.
    is_catching_up: bool,
    overlaid: Mutex<OverlaidSnapshot>,
}

/// A snapshot with answers to writes of the run laid over it.
struct OverlaidSnapshot {
    snapshot: Snapshot,
    /// The [number](crate::writes::answers::Answers) of the last answer that was laid over it.
    up_to: u64,
}

impl FrozenCaches {
    /// Freezes the caches of these sources.
    pub(crate) fn of(sources: Vec<Arc<Source>>) -> Self {
        let mut frozen: Vec<FrozenCache> = Vec::with_capacity(sources.len());
        for source in sources {
            // Read first: the cache may catch up before it is frozen, not the other way round.
            let is_catching_up = source.is_catching_up();
            // Sources that share an informer, as different types, show the same moment.
            let same =
                frozen.iter().find(|other| other.source.cache.is_of_same_cache(&source.cache));
            let snapshot = same.map_or_else(|| source.cache.snapshot(), FrozenCache::current);
            frozen.push(FrozenCache {
                source,
                is_catching_up,
                overlaid: Mutex::new(OverlaidSnapshot { snapshot, up_to: 0 }),
            });
        }
        Self(frozen)
    }

    /// The reconciled object, for the start of the run. Its source is the first.
    pub(crate) fn primary(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.0.first()?.current().get(key).cloned()
    }

    /// Whether a cache of such a resource may lack what the last leader has written.
    pub(crate) fn is_catching_up(&self, is_of: impl Fn(&Resource) -> bool) -> bool {
        self.0.iter().any(|cache| cache.is_catching_up && is_of(cache.source.cache.resource()))
    }

    /// The caches of a type; those of a resource, if that is given.
    pub(crate) fn of_type<'c, T: ObjectType>(
        &'c self,
        resource: Option<&Resource>,
    ) -> Vec<(&'c FrozenCache, &'c Lister<T>)> {
        let caches = self.0.iter();
        let caches =
            caches.filter(|cache| resource.is_none_or(|it| it == cache.source.cache.resource()));
        caches.filter_map(|cache| Some((cache, cache.source.lister::<T>()?))).collect()
    }
}

impl FrozenCache {
    /// The cache with what the run has written up to now.
    pub(crate) fn snapshot(&self, log: Option<&WriteLog>) -> Snapshot {
        let cache = &self.source.cache;
        let mut overlaid = self.overlaid.lock();
        if let Some(log) = log {
            let (answers, up_to) = log.answers_after(overlaid.up_to);
            for answered in answers {
                let TrackedWrite { write, written } = &answered.tracked;
                if write.is_of(cache.resource()) {
                    cache.overlay(&mut overlaid.snapshot, written, &answered.answer);
                }
            }
            overlaid.up_to = up_to;
        }
        overlaid.snapshot.clone()
    }

    /// The snapshot, with the writes that were laid over it so far.
    fn current(&self) -> Snapshot {
        self.overlaid.lock().snapshot.clone()
    }
}
