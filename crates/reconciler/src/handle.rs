//! A handle of a controller, for code that does not have the controller itself.

use std::fmt;
use std::sync::Arc;

use futures::Stream;
use windlass_indexer::ObjectKey;

use crate::finished::{FinishedRuns, Readers};
use crate::key_stream::{KeyStream, Streams};

/// Adds streams to a controller while it runs, and shows its finished runs. Cheap to clone.
///
/// A builder returns it, so it is there before a manager builds the controller:
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_reconciler::{Controller, Watch};
/// let builder = Controller::of(Watch::<ConfigMap>::new());
/// let handle = builder.handle();
/// // … give the builder to a manager, and later:
/// let keys = futures::stream::iter(["shop/web".parse()?]);
/// handle.add_stream("webhook", keys);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct ControllerHandle {
    pub(crate) streams: Arc<Streams>,
    pub(crate) readers: Arc<Readers>,
}

impl ControllerHandle {
    /// Adds a stream of keys, like [`ControllerBuilder::stream`](crate::ControllerBuilder::stream).
    /// It is polled while the controller runs.
    pub fn add_stream(
        &self,
        name: impl Into<Arc<str>>,
        keys: impl Stream<Item = ObjectKey> + Send + 'static,
    ) {
        self.streams.add(KeyStream::of_keys(name, keys));
    }

    /// The runs that end from now on, each with its key. Reading them is optional: a slow reader
    /// [misses](FinishedRuns::missed) runs, and slows nothing down.
    #[must_use]
    pub fn finished(&self) -> FinishedRuns {
        self.readers.add()
    }
}

impl fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerHandle").finish_non_exhaustive()
    }
}
