//! Streams of keys to enqueue: those of the user, and watches whose mapper is awaited.
//!
//! A controller polls its streams while it runs. When it stops, the streams that have not ended
//! wait here for its next run. They can be added at any time.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_indexer::{ObjectKey, Reader};

use crate::cause::Cause;
use crate::sources::enqueue::Enqueuer;

/// What a stream yields.
pub(crate) enum StreamItem {
    /// One key.
    Key(ObjectKey, Cause),
    /// Every object of the controller.
    AllKeys(Cause),
}

/// A stream, with its name.
pub(crate) struct KeyStream {
    pub(crate) name: Arc<str>,
    pub(crate) items: Pin<Box<dyn Stream<Item = StreamItem> + Send>>,
}

/// The streams of a controller.
#[derive(Default)]
pub(crate) struct Streams {
    /// Streams that are not polled now.
    waiting: Mutex<Vec<KeyStream>>,
    /// Tells the running controller that there is another one.
    added: Notify,
}

impl KeyStream {
    /// Enqueues every key that the stream yields.
    pub(crate) fn of_keys(
        name: impl Into<Arc<str>>,
        keys: impl Stream<Item = ObjectKey> + Send + 'static,
    ) -> Self {
        Self::of(name.into(), keys, StreamItem::Key)
    }

    /// Enqueues all keys whenever the stream yields something.
    pub(crate) fn of_all<T>(
        name: impl Into<Arc<str>>,
        occasions: impl Stream<Item = T> + Send + 'static,
    ) -> Self {
        Self::of(name.into(), occasions, |_, cause| StreamItem::AllKeys(cause))
    }

    fn of<T>(
        name: Arc<str>,
        items: impl Stream<Item = T> + Send + 'static,
        to_item: impl Fn(T, Cause) -> StreamItem + Send + 'static,
    ) -> Self {
        let cause = Cause::Source(Arc::clone(&name));
        Self { name, items: Box::pin(items.map(move |item| to_item(item, cause.clone()))) }
    }

    /// Enqueues what the stream yields. Returns the stream if it has not ended.
    pub(crate) async fn enqueue_all(
        mut self,
        enqueuer: Enqueuer,
        objects: Reader,
        stop: CancellationToken,
    ) -> Option<Self> {
        while let Some(next) = stop.run_until_cancelled(self.items.next()).await {
            match next {
                Some(StreamItem::Key(key, cause)) => enqueuer.enqueue(key, cause),
                Some(StreamItem::AllKeys(cause)) => {
                    for object in &objects.snapshot().all() {
                        enqueuer.enqueue(object.head().key().clone(), cause.clone());
                    }
                }
                None => {
                    let controller = &*enqueuer.controller;
                    tracing::debug!(controller, stream = &*self.name, "a stream of keys has ended");
                    return None;
                }
            }
        }
        Some(self)
    }
}

impl Streams {
    /// Adds a stream, which is polled as soon as the controller runs.
    pub(crate) fn add(&self, stream: KeyStream) {
        self.waiting.lock().push(stream);
        self.added.notify_one();
    }

    /// The streams that nobody polls yet.
    pub(crate) fn take_waiting(&self) -> Vec<KeyStream> {
        std::mem::take(&mut self.waiting.lock())
    }

    /// Waits until a stream was added. Cancel safe.
    pub(crate) async fn wait_for_more(&self) {
        self.added.notified().await;
    }
}
