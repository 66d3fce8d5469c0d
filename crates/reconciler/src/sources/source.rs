//! The informers that a controller uses.
//!
//! Most of them enqueue keys by their events; some are only read. They come and go while the
//! controller runs: one that is dropped removes its handler, and its informer stops if nobody else
//! uses it.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_indexer::{Lister, ObjectKey, ObjectType, ResourceVersion};
use windlass_informer::client::RequestTarget;
use windlass_informer::{InformerCache, Registration, Resource, SharedInformer};

use crate::writes::write::{TrackedWrite, Write};

/// Identifies a source of a controller, to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceId(u64);

/// One informer that a controller uses.
pub(crate) struct Source {
    /// A [`Lister`] of the type as which the cache is read. It keeps the informer running.
    lister: Box<dyn Any + Send + Sync>,
    pub(crate) cache: InformerCache,
    /// `None` if it has no handler: it is only read, or its events come by a subscription, which
    /// nobody waits for.
    registration: Option<Registration>,
    /// Whether it was added to a controller that was built before. Nobody waits for its cache.
    pub(crate) is_late: bool,
    /// Set after a failover, until the cache shows what the last leader has written.
    is_catching_up: AtomicBool,
    /// Cancelled when the controller does not use it any more.
    pub(crate) removed: CancellationToken,
}

impl Source {
    pub(crate) fn new<T: ObjectType>(
        informer: &SharedInformer<T>,
        registration: Option<Registration>,
    ) -> Self {
        Self {
            lister: Box::new(informer.lister().clone()),
            cache: informer.cache(),
            registration,
            is_late: false,
            is_catching_up: AtomicBool::new(false),
            removed: CancellationToken::new(),
        }
    }

    pub(crate) fn is_catching_up(&self) -> bool {
        self.is_catching_up.load(Ordering::Acquire)
    }

    pub(crate) fn set_catching_up(&self, is_catching_up: bool) {
        self.is_catching_up.store(is_catching_up, Ordering::Release);
    }

    /// Waits until the cache is complete, and its events have reached the queue. Returns `false` if
    /// the informer has stopped, or the source was removed.
    pub(crate) async fn wait_for_sync(&self) -> bool {
        let synced = async {
            match &self.registration {
                Some(registration) => registration.wait_for_sync().await,
                None => self.cache.wait_for_sync().await.is_ok(),
            }
        };
        self.removed.run_until_cancelled(synced).await.unwrap_or(false)
    }

    /// Ends it, also for those who still hold it or wait for its sync.
    fn remove(&self) {
        self.removed.cancel();
        if let Some(registration) = &self.registration {
            registration.remove();
        }
    }

    /// Its cache, if it is read as this type.
    pub(crate) fn lister<T: ObjectType>(&self) -> Option<&Lister<T>> {
        self.lister.downcast_ref()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.remove();
    }
}

/// All informers that a controller uses.
#[derive(Default)]
pub(crate) struct Sources(RwLock<Vec<(SourceId, Arc<Source>)>>);

/// The next id. Ids are unique in the process, so that a controller does not take the id of another
/// controller's source for one of its own.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl Sources {
    pub(crate) fn add(&self, source: Source) -> SourceId {
        let id = SourceId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        self.0.write().push((id, Arc::new(source)));
        id
    }

    /// Removes a source. Returns whether it was there.
    pub(crate) fn remove(&self, id: SourceId) -> bool {
        let mut sources = self.0.write();
        let index = sources.iter().position(|(source_id, _)| *source_id == id);
        let removed = index.map(|index| sources.remove(index));
        // Ending it runs user code, which must not happen under the lock.
        drop(sources);
        if let Some((_, source)) = &removed {
            source.remove();
        }
        removed.is_some()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Source>> {
        self.0.read().iter().map(|(_, source)| Arc::clone(source)).collect()
    }

    /// Whether a cache is of the resource that was written.
    pub(crate) fn has_cache_of(&self, write: &Write) -> bool {
        caches(&self.0.read(), |resource| write.is_of(resource)).next().is_some()
    }

    /// The first result that `find` returns for a cache of this resource, in this version.
    pub(crate) fn find_cache<R>(
        &self,
        resource: &Resource,
        find: impl FnMut(&InformerCache) -> Option<R>,
    ) -> Option<R> {
        caches(&self.0.read(), |cached| cached == resource).find_map(find)
    }

    /// The first resource of a cache that `matches` accepts.
    pub(crate) fn resource(&self, matches: impl Fn(&Resource) -> bool) -> Option<Resource> {
        caches(&self.0.read(), matches).next().map(|cache| cache.resource().clone())
    }

    /// The newest version of the target of a request that a cache shows.
    pub(crate) fn shown(&self, target: &RequestTarget) -> Option<ResourceVersion> {
        let key = target.key()?;
        let sources = self.0.read();
        let caches = caches(&sources, |resource| target.is_of(resource));
        let versions = caches.filter_map(|cache| cache.version_of(&key));
        versions.reduce(|one, other| if other > one { other } else { one })
    }

    /// The caches that are not caught up with a write.
    pub(crate) fn behind(&self, tracked: &TrackedWrite) -> Vec<InformerCache> {
        let TrackedWrite { write, written } = tracked;
        let sources = self.0.read();
        let caches = caches(&sources, |resource| write.is_of(resource));
        caches.filter(|cache| !cache.is_caught_up(written, write.answered)).cloned().collect()
    }

    /// Whether the cluster was restored from a backup after an object was written, so that the
    /// version may be somebody else's now.
    pub(crate) fn is_restored_since(
        &self,
        resource: &Resource,
        key: &ObjectKey,
        written: Instant,
    ) -> bool {
        let is_same = |cached: &Resource| {
            cached.group() == resource.group() && cached.plural() == resource.plural()
        };
        caches(&self.0.read(), is_same).any(|cache| cache.is_restored_since(key, written))
    }
}

/// The caches of a resource.
fn caches<'a>(
    sources: &'a [(SourceId, Arc<Source>)],
    is_of: impl Fn(&Resource) -> bool + 'a,
) -> impl Iterator<Item = &'a InformerCache> {
    let all = sources.iter().map(|(_, source)| &source.cache);
    all.filter(move |cache| is_of(cache.resource()))
}
