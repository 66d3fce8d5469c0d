//! What is known about a server, shared by all reflectors that talk to it.

use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// Whether a server can stream a list. Clones share what they learn.
///
/// All reflectors of the same server *and API group* share one: an aggregated API server answers
/// for whole groups behind the same address, and may support less than the server in front of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerFeatures {
    streams_lists: Arc<Mutex<Option<bool>>>,
}

impl ServerFeatures {
    /// Whether the server can stream a list, if that is known.
    pub(crate) fn streams_lists(&self) -> Option<bool> {
        *lock(&self.streams_lists)
    }

    /// A streamed list was completed. Does not override an earlier refusal.
    pub(super) fn note_streamed_list(&self) {
        lock(&self.streams_lists).get_or_insert(true);
    }

    /// An answer of the server shows that it does not stream lists.
    pub(super) fn note_refusal(&self) {
        *lock(&self.streams_lists) = Some(false);
    }

    /// Streamed lists are not completed. This is only an inference: it is ignored for a server that
    /// has completed one before.
    pub(super) fn note_unfinished_list(&self) {
        lock(&self.streams_lists).get_or_insert(false);
    }
}
