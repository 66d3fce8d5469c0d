//! Objects on their way from a feed to the cache.
//!
//! The cache gets them when the chunk of the body that they came in has been read.
//! Only those of a first list may wait for more, because nobody can rely on a part of that. It makes them lie closer together: bytes that come from
//! a network are allocated between buffers of TLS and HTTP, which go soon and leave holes that no other object fits
//! into. So what was gathered is moved, side by side, before the cache gets it. Without that, a cache of pods took
//! a quarter more than its pods.
//!
//! Invariant: nothing waits for longer than [`WAIT_MAX`], or when [`BYTES_MAX`] are there.

use std::time::Duration;
use std::vec::Drain;

use tokio::time::Instant;

use crate::share::cache::Arrived;

/// How many bytes are moved at once: about forty pods.
const BYTES_MAX: usize = 1 << 18;

/// How long an object may wait. Not long for who looks at an informer that does not get on.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Objects that the cache has not got yet.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Whether the cache holds bytes, and not what it decodes from them.
    is_compact: bool,
    objects: Vec<Arrived>,
    bytes: usize,
    /// When the first one that waits has waited long enough.
    due: Option<Instant>,
}

impl Gathered {
    pub(crate) fn new(is_compact: bool) -> Self {
        Self { is_compact, objects: Vec::new(), bytes: 0, due: None }
    }

    pub(crate) fn push(&mut self, arrived: Arrived) {
        self.bytes += arrived.bytes();
        self.objects.push(arrived);
    }

    /// Whether what is here, of a first list, can wait for more.
    pub(crate) fn waits(&mut self, now: Instant) -> bool {
        self.is_compact
            && !self.objects.is_empty()
            && self.bytes < BYTES_MAX
            && now < *self.due.get_or_insert(now + WAIT_MAX)
    }

    /// When what waits is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Moves the bytes of all objects. What they were in is to be dropped when the cache has them.
    pub(crate) fn move_bytes(&mut self) -> Vec<Box<[u8]>> {
        if !self.is_compact {
            return Vec::new();
        }
        self.objects.iter_mut().filter_map(Arrived::move_bytes).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Takes out all objects, in the order in which they came.
    pub(crate) fn drain(&mut self) -> Drain<'_, Arrived> {
        self.bytes = 0;
        self.due = None;
        self.objects.drain(..)
    }
}
