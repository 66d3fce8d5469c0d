//! The informers that a controller uses, and what it knows of each.
//!
//! Most of them wake keys by their events; some are only read. They come and go while the controller runs: one that
//! is dropped takes its handler away, and its informer stops if nobody else uses it.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use serde::de::DeserializeOwned;
use windlass_indexer::Lister;
use windlass_informer::{Freshness, InformerStatus, Registration, Resource, SharedInformer};

use crate::write::Write;

/// Names a source of a controller, to remove it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceId(u64);

/// One informer that a controller uses.
pub(crate) struct Source {
    informer: Box<dyn ErasedInformer>,
    freshness: Freshness,
    /// `None` if it is only read.
    registration: Option<Registration>,
}

/// An informer whose type is forgotten.
trait ErasedInformer: Send + Sync {
    fn status(&self) -> InformerStatus;
    fn synced(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>>;
    fn lister(&self) -> &dyn Any;
}

impl<T: DeserializeOwned + Send + Sync + 'static> ErasedInformer for SharedInformer<T> {
    fn status(&self) -> InformerStatus {
        SharedInformer::status(self)
    }

    fn synced(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async { SharedInformer::synced(self).await.is_ok() })
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
        Self { freshness: informer.freshness(), informer: Box::new(informer), registration }
    }

    /// Waits until the cache is complete, and its events have reached the queue. `false` if it has stopped.
    pub(crate) async fn synced(&self) -> bool {
        match &self.registration {
            Some(registration) => registration.synced().await,
            None => self.informer.synced().await,
        }
    }

    pub(crate) fn status(&self) -> InformerStatus {
        self.informer.status()
    }

    pub(crate) fn resource(&self) -> &Resource {
        self.freshness.resource()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(registration) = &self.registration {
            registration.remove();
        }
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
        removed.is_some()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Source>> {
        self.read().sources.iter().map(|(_, source)| Arc::clone(source)).collect()
    }

    /// The lister of a type.
    pub(crate) fn lister<T: 'static>(&self) -> Option<Lister<T>> {
        let list = self.read();
        let mut listers = list.sources.iter().map(|(_, source)| source.informer.lister());
        listers.find_map(|lister| lister.downcast_ref::<Lister<T>>().cloned())
    }

    /// Those whose caches should show a write, and do not.
    pub(crate) fn behind(&self, write: &Write) -> Vec<Freshness> {
        let list = self.read();
        let all = list.sources.iter().map(|(_, source)| &source.freshness);
        let of_it = all.filter(|freshness| write.is_of(freshness.resource()));
        of_it.filter(|freshness| !freshness.has_seen(&write.written)).cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, SourceList> {
        self.list.read().unwrap_or_else(PoisonError::into_inner)
    }
}
