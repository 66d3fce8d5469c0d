//! The informers that a controller uses.
//!
//! Most of them enqueue keys by their events; some are only read. They come and go while the
//! controller runs: one that is dropped removes its handler, and its informer stops if nobody else
//! uses it.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures::future::BoxFuture;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use windlass_indexer::{Lister, ResourceVersion, Snapshot};
use windlass_informer::client::RequestTarget;
use windlass_informer::{InformerCache, InformerStatus, Registration, Resource, SharedInformer};

use crate::bounds::ObjectType;
use crate::overlay::Answered;
use crate::write::{Recorded, Write};

/// Identifies a source of a controller, to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceId(u64);

/// One informer that a controller uses.
pub(crate) struct Source {
    informer: Box<dyn ErasedInformer>,
    cache: InformerCache,
    /// `None` if it is only read.
    registration: Option<Registration>,
    /// Whether it was added to a controller that was built before. Nobody waits for its cache.
    is_late: bool,
    removed: CancellationToken,
}

/// An informer of any type.
trait ErasedInformer: Send + Sync {
    fn status(&self) -> InformerStatus;
    fn has_synced(&self) -> bool;
    fn wait_for_sync(&self) -> BoxFuture<'_, bool>;
    fn lister(&self) -> &dyn Any;
}

impl<T: ObjectType> ErasedInformer for SharedInformer<T> {
    fn status(&self) -> InformerStatus {
        SharedInformer::status(self)
    }

    fn has_synced(&self) -> bool {
        SharedInformer::has_synced(self)
    }

    fn wait_for_sync(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { SharedInformer::wait_for_sync(self).await.is_ok() })
    }

    fn lister(&self) -> &dyn Any {
        SharedInformer::lister(self)
    }
}

impl Source {
    pub(crate) fn new<T: ObjectType>(
        informer: SharedInformer<T>,
        registration: Option<Registration>,
    ) -> Self {
        let (cache, informer) = (informer.cache(), Box::new(informer));
        let removed = CancellationToken::new();
        Self { informer, cache, registration, is_late: false, removed }
    }

    /// The same, added to a controller that was built before.
    pub(crate) fn late(mut self) -> Self {
        self.is_late = true;
        self
    }

    pub(crate) fn is_late(&self) -> bool {
        self.is_late
    }

    /// Waits until the cache is complete, and its events have reached the queue. Returns `false` if
    /// the informer has stopped, or the source was [removed](Self::is_removed).
    pub(crate) async fn wait_for_sync(&self) -> bool {
        let synced = async {
            match &self.registration {
                Some(registration) => registration.wait_for_sync().await,
                None => self.informer.wait_for_sync().await,
            }
        };
        tokio::select! {
            biased;
            () = self.removed.cancelled() => false,
            synced = synced => synced,
        }
    }

    /// A future that ends when the controller does not use it any more.
    pub(crate) fn wait_for_removal(&self) -> WaitForCancellationFutureOwned {
        self.removed.clone().cancelled_owned()
    }

    /// Whether the controller does not use it any more.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.is_cancelled()
    }

    /// Ends it, also for those who still hold it or wait for its sync.
    fn remove(&self) {
        self.removed.cancel();
        if let Some(registration) = &self.registration {
            registration.remove();
        }
    }

    /// The status of its informer. It visits the whole cache to tell its size.
    pub(crate) fn status(&self) -> InformerStatus {
        self.informer.status()
    }

    /// Whether its cache is complete and kept up to date.
    pub(crate) fn has_synced(&self) -> bool {
        self.informer.has_synced()
    }

    pub(crate) fn resource(&self) -> &Resource {
        self.cache.resource()
    }

    /// Its cache, if it is read as this type.
    pub(crate) fn lister<T: ObjectType>(&self) -> Option<&Lister<T>> {
        self.informer.lister().downcast_ref()
    }

    /// Whether both have the same informer, perhaps as different types.
    pub(crate) fn has_same_cache(&self, other: &Self) -> bool {
        self.cache.is_of_same_cache(&other.cache)
    }

    /// The cache as it is now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.cache.snapshot()
    }

    /// Lays a write over a snapshot of the cache.
    pub(crate) fn overlay(&self, snapshot: &mut Snapshot, answered: &Answered) {
        self.cache.overlay(snapshot, &answered.recorded.written, &answered.answer);
    }

    pub(crate) fn cache(&self) -> &InformerCache {
        &self.cache
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

/// The last id. Ids are unique in the process, so that a controller does not take the id of another
/// controller's source for one of its own.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

impl Sources {
    pub(crate) fn add(&self, source: Source) -> SourceId {
        let id = SourceId(LAST_ID.fetch_add(1, Ordering::Relaxed));
        self.write().push((id, Arc::new(source)));
        id
    }

    /// Removes a source. Returns whether it was there.
    pub(crate) fn remove(&self, id: SourceId) -> bool {
        let mut sources = self.write();
        let place = sources.iter().position(|(of, _)| *of == id);
        let removed = place.map(|place| sources.remove(place));
        // Ending it runs user code, which must not happen under the lock.
        drop(sources);
        if let Some((_, source)) = &removed {
            source.remove();
        }
        removed.is_some()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Source>> {
        self.read().iter().map(|(_, source)| Arc::clone(source)).collect()
    }

    /// Whether a cache is of the resource that was written.
    pub(crate) fn has_cache_of(&self, write: &Write) -> bool {
        caches(&self.read(), |resource| write.is_of(resource)).next().is_some()
    }

    /// The first result that `find` returns for a cache of this resource, in this version.
    pub(crate) fn find_cache<R>(
        &self,
        resource: &Resource,
        find: impl FnMut(&InformerCache) -> Option<R>,
    ) -> Option<R> {
        caches(&self.read(), |of| of == resource).find_map(find)
    }

    /// The first resource of a cache that `is_it` accepts.
    pub(crate) fn resource(&self, is_it: impl Fn(&Resource) -> bool) -> Option<Resource> {
        caches(&self.read(), is_it).next().map(|cache| cache.resource().clone())
    }

    /// The newest version of the target of a request that a cache shows.
    pub(crate) fn shown(&self, target: &RequestTarget) -> Option<ResourceVersion> {
        let key = target.key()?;
        let sources = self.read();
        let caches = caches(&sources, |resource| target.is_of(resource));
        let versions = caches.filter_map(|cache| cache.version_of(&key));
        versions.reduce(|one, other| if other > one { other } else { one })
    }

    /// The caches that are not caught up with a write.
    pub(crate) fn behind(&self, recorded: &Recorded) -> Vec<InformerCache> {
        let Recorded { write, written } = recorded;
        let sources = self.read();
        let caches = caches(&sources, |resource| write.is_of(resource));
        caches.filter(|cache| !cache.is_caught_up(written, write.answered)).cloned().collect()
    }

    /// Whether the cluster was restored from a backup after a write, so that its version may be
    /// somebody else's now.
    pub(crate) fn is_restored_since(&self, write: &Write) -> bool {
        caches(&self.read(), |resource| write.is_of(resource))
            .any(|cache| cache.is_restored_since(&write.key, write.answered))
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<(SourceId, Arc<Source>)>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<(SourceId, Arc<Source>)>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
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
