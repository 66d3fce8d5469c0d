//! Objects on their way from a feed to the cache.
//!
//! The cache gets the objects of a chunk as soon as the chunk is read. Only the objects of a first
//! list may be gathered over several chunks, because no reader relies on that list before it is
//! complete. Their bytes are then copied next to each other, against fragmentation of the heap:
//! bytes from the network are allocated between buffers of TLS and HTTP, which are soon freed and
//! leave holes.
//!
//! Invariant: objects go to the cache after [`WAIT_MAX`], or earlier if they have [`BYTES_MAX`].

use std::time::Duration;
use std::vec::Drain;

use tokio::time::Instant;

use crate::share::cache::Received;

/// When this many bytes are gathered, about forty pods, they go to the cache.
const BYTES_MAX: usize = 1 << 18;

/// How long an object may wait. Too short to be noticed, even if the list arrives slowly.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Objects that are not in the cache yet.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    objects: Vec<Received>,
    bytes: usize,
    /// When the first object must go to the cache.
    due: Option<Instant>,
}

impl Gathered {
    pub(crate) fn push(&mut self, arrived: Received) {
        self.bytes += arrived.bytes();
        self.objects.push(arrived);
    }

    /// Lets these objects, of a first list, wait for more if they may. Returns whether they do.
    pub(crate) fn start_waiting(&mut self, now: Instant) -> bool {
        !self.objects.is_empty()
            && self.bytes < BYTES_MAX
            && now < *self.due.get_or_insert(now + WAIT_MAX)
    }

    /// When the objects that wait must go to the cache.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Copies the bytes of all objects, so that they are next to each other. Returns the old bytes,
    /// which the caller drops when the cache has the new ones.
    pub(crate) fn move_bytes(&mut self) -> Vec<Box<[u8]>> {
        self.objects.iter_mut().filter_map(Received::move_bytes).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Takes out all objects, in the order in which they came.
    pub(crate) fn drain(&mut self) -> Drain<'_, Received> {
        self.bytes = 0;
        self.due = None;
        self.objects.drain(..)
    }
}
