//! The informers that a controller uses, and what it knows of each.
//!
//! Most of them wake keys by their events; some are only read. They come and go while the controller runs: one that
//! is dropped takes its handler away, and its informer stops if nobody else uses it.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use windlass_indexer::{Lister, ResourceVersion};
use windlass_informer::{
    Freshness, InformerStatus, Registration, RequestTarget, Resource, SharedInformer,
};

use crate::write::{Recorded, Write};

/// Names a source of a controller, to remove it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceId(u64);

/// One informer that a controller uses.
pub(crate) struct Source {
    informer: Box<dyn ErasedInformer>,
    freshness: Freshness,
    /// `None` if it is only read.
    registration: Option<Registration>,
    removed: CancellationToken,
}

/// Why there is no lister to give.
#[derive(Debug)]
pub(crate) enum NoLister {
    /// The controller has no such cache.
    Missing,
    /// It has several, and they are not the same: of these resources.
    Several(Vec<Resource>),
}

/// An informer whose type is forgotten.
trait ErasedInformer: Send + Sync {
    fn status(&self) -> InformerStatus;
    fn wait_for_sync(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>>;
    fn lister(&self) -> &dyn Any;
}

impl<T: DeserializeOwned + Send + Sync + 'static> ErasedInformer for SharedInformer<T> {
    fn status(&self) -> InformerStatus {
        SharedInformer::status(self)
    }

    fn wait_for_sync(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async { SharedInformer::wait_for_sync(self).await.is_ok() })
    }

    fn lister(&self) -> &dyn Any {
        SharedInformer::lister(self)
    }
}

impl Source {
    pub(crate) fn new<T>(informer: SharedInformer<T>, registration: Option<Registration>) -> Self
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        let (freshness, informer) = (informer.freshness(), Box::new(informer));
        Self { informer, freshness, registration, removed: CancellationToken::new() }
    }

    /// Waits until the cache is complete, and its events have reached the queue. `false` if it has stopped, or was
    /// [removed](Self::is_removed).
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

    /// Whether the controller does not use it any more.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.is_cancelled()
    }

    /// Ends it, also for those who still hold it. Whoever waits for it does so in vain, and is told.
    fn remove(&self) {
        self.removed.cancel();
        if let Some(registration) = &self.registration {
            registration.remove();
        }
    }

    pub(crate) fn status(&self) -> InformerStatus {
        self.informer.status()
    }

    pub(crate) fn resource(&self) -> &Resource {
        self.freshness.resource()
    }

    /// Whether it is of the same informer.
    fn is_same_cache(&self, other: &Self) -> bool {
        self.freshness.is_of_same_cache(&other.freshness)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.remove();
    }
}

/// All informers that a controller uses.
#[derive(Default)]
pub(crate) struct Sources {
    list: RwLock<SourceList>,
}

#[derive(Default)]
struct SourceList {
    sources: Vec<(SourceId, Arc<Source>)>,
    made: u64,
}

impl Sources {
    pub(crate) fn add(&self, source: Source) -> SourceId {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.made += 1;
        let id = SourceId(list.made);
        list.sources.push((id, Arc::new(source)));
        id
    }

    /// Returns whether it was there.
    pub(crate) fn remove(&self, id: SourceId) -> bool {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let place = list.sources.iter().position(|(of, _)| *of == id);
        let removed = place.map(|place| list.sources.remove(place));
        // Its end runs code of the user's, and so comes without the lock.
        drop(list);
        if let Some((_, source)) = &removed {
            source.remove();
        }
        removed.is_some()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Source>> {
        self.read().sources.iter().map(|(_, source)| Arc::clone(source)).collect()
    }

    /// The lister of a type, if there is no doubt which; of one resource, if that is named.
    pub(crate) fn lister<T: 'static>(&self, of: Option<&Resource>) -> Result<Lister<T>, NoLister> {
        let list = self.read();
        let sources = list.sources.iter().map(|(_, source)| &**source);
        let asked_for = sources.filter(|source| of.is_none_or(|of| of == source.resource()));
        let listers = asked_for.filter_map(|source| {
            let lister = source.informer.lister().downcast_ref::<Lister<T>>()?;
            Some((source, lister))
        });
        let listers: Vec<_> = listers.collect();
        let Some((first, lister)) = listers.first() else { return Err(NoLister::Missing) };
        let is_same = |(source, _): &(&Source, _)| source.is_same_cache(first);
        if listers.iter().all(is_same) {
            return Ok(Lister::clone(lister));
        }
        let mut resources: Vec<_> = listers.iter().map(|(of, _)| of.resource().clone()).collect();
        resources.sort_unstable();
        resources.dedup();
        Err(NoLister::Several(resources))
    }

    /// The version in which a cache shows the object of a request.
    pub(crate) fn shown(&self, target: &RequestTarget) -> Option<ResourceVersion> {
        let key = target.key()?;
        let list = self.read();
        let all = list.sources.iter().map(|(_, source)| &source.freshness);
        let of_it = all.filter(|freshness| target.is_of(freshness.resource()));
        let versions = of_it.filter_map(|freshness| freshness.version_of(&key));
        versions.reduce(|one, other| if other > one { other } else { one })
    }

    /// Those whose caches should show a write, and do not.
    pub(crate) fn behind(&self, recorded: &Recorded) -> Vec<Freshness> {
        let Recorded { write, written } = recorded;
        let list = self.read();
        let all = list.sources.iter().map(|(_, source)| &source.freshness);
        let of_it = all.filter(|freshness| write.is_of(freshness.resource()));
        let is_behind = |freshness: &&Freshness| !freshness.has_seen(written, write.answered);
        of_it.filter(is_behind).cloned().collect()
    }

    /// Whether the cluster was restored from a backup after a write, so that its version may be
    /// another's now.
    pub(crate) fn is_restored_since(&self, write: &Write) -> bool {
        let list = self.read();
        let all = list.sources.iter().map(|(_, source)| &source.freshness);
        let mut of_it = all.filter(|freshness| write.is_of(freshness.resource()));
        of_it.any(|freshness| freshness.is_restored_since(write.key(), write.answered))
    }

    fn read(&self) -> RwLockReadGuard<'_, SourceList> {
        self.list.read().unwrap_or_else(PoisonError::into_inner)
    }
}
