//! What is known of a server, shared by all reflectors that talk to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What reflectors have learned of a server: whether it can stream a list. Clones share it, and learning it once
/// is enough for all of them.
///
/// Share one between the reflectors of the same server *and API group*: an aggregated API server answers for
/// whole groups behind the same address, and may know less than the server in front of it.
#[derive(Clone, Debug, Default)]
pub struct ServerTraits {
    streams: Arc<AtomicU8>,
}

const UNKNOWN: u8 = 0;
const SUPPORTED: u8 = 1;
const UNSUPPORTED: u8 = 2;

impl ServerTraits {
    /// Of a server that is known not to stream lists, so that it is never tried.
    #[must_use]
    pub fn without_streamed_lists() -> Self {
        Self { streams: Arc::new(AtomicU8::new(UNSUPPORTED)) }
    }

    /// Whether the server can stream a list, if that is known.
    pub fn streams_lists(&self) -> Option<bool> {
        // Relaxed: the value stands for itself, nothing else is read because of it.
        match self.streams.load(Ordering::Relaxed) {
            SUPPORTED => Some(true),
            UNSUPPORTED => Some(false),
            _ => None,
        }
    }

    /// A streamed list was completed. What the server itself has refused stays refused.
    pub(super) fn streamed(&self) {
        self.learn_if_unknown(SUPPORTED);
    }

    /// The server has said, or shown, that it does not know how.
    pub(super) fn refused(&self) {
        self.streams.store(UNSUPPORTED, Ordering::Relaxed);
    }

    /// Streamed lists do not come to their end. This is only an inference: it does not count against a server
    /// that has completed one before.
    pub(super) fn unfinished(&self) {
        self.learn_if_unknown(UNSUPPORTED);
    }

    fn learn_if_unknown(&self, value: u8) {
        // The loser of a race learns nothing, which is what is meant.
        let _ = self.streams.compare_exchange(UNKNOWN, value, Ordering::Relaxed, Ordering::Relaxed);
    }
}
