//! Adds that the ledger has not seen yet.
//!
//! A producer only appends here, under a lock held for a few nanoseconds, and whoever next needs the
//! ledger applies the whole batch. So producers and workers rarely meet at one lock, and the look-ups of
//! a batch overlap in the processor instead of waiting for memory one by one.

use crate::clock::Stamp;
use crate::priority::{Group, Priority};
use crate::slots::KeyHash;
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// A batch this long is worth applying even if no worker asks for it.
const BATCH: usize = 256;

/// A batch this long must be applied by the producer, whoever else is busy: the bound of the intake.
const BATCH_MAX: usize = 8 * BATCH;

/// A key that is added, with all that the caller said about it but a delay.
pub(crate) struct Arrival<K, C> {
    pub(crate) key: K,
    pub(crate) hash: KeyHash,
    pub(crate) at: Stamp,
    pub(crate) reason: Reason<C>,
}

/// Why and how urgently a key is added, and with whom it takes turns.
pub(crate) struct Reason<C> {
    pub(crate) priority: Priority,
    pub(crate) group: Option<Group>,
    pub(crate) cause: Option<C>,
    /// Whether the cause is a timer's: of an add that waits, told when its time has come.
    pub(crate) is_timer: bool,
}

pub(crate) struct Intake<K, C> {
    arrivals: Vec<Arrival<K, C>>,
    /// Set for good when the queue shuts down.
    closed: bool,
}

/// Which keys the intake may hold, for a worker that has not locked it: a yes may be wrong, a no is not.
///
/// Bits are set and cleared with the intake locked. They are read without: of an add that happened before, in the
/// sense of the memory model, a reader sees the bit, and any other may be taken to come later.
#[repr(align(128))]
pub(crate) struct Filter {
    words: [AtomicU64; FILTER_WORDS],
    empty: AtomicBool,
    /// Whether all keys in the intake are of `Normal` priority.
    plain: AtomicBool,
}

/// With a batch of keys inside, another key passes fifteen times out of sixteen.
const FILTER_WORDS: usize = 64;

/// What the producer that brought an arrival should do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Nothing.
    Low,
    /// Apply the batch if the ledger is free.
    Batch,
    /// Apply the batch.
    Full,
}

impl Filter {
    pub(crate) fn new() -> Self {
        Self {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            empty: AtomicBool::new(true),
            plain: AtomicBool::new(true),
        }
    }

    /// Sequentially consistent with the rings of the doorbell, see there.
    pub(crate) fn is_empty(&self) -> bool {
        self.empty.load(Ordering::SeqCst)
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.plain.load(Ordering::Relaxed)
    }

    pub(crate) fn may_hold(&self, hash: KeyHash) -> bool {
        let (word, bit) = Self::place(hash);
        self.words[word].load(Ordering::Relaxed) & bit != 0
    }

    fn insert<K, C>(&self, arrival: &Arrival<K, C>) {
        let (word, bit) = Self::place(arrival.hash);
        let word = &self.words[word];
        if self.empty.load(Ordering::Relaxed) {
            self.empty.store(false, Ordering::SeqCst);
        }
        word.store(word.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
        if arrival.reason.priority != Priority::Normal {
            self.plain.store(false, Ordering::Relaxed);
        }
    }

    /// Clears it of these, which are all that it holds.
    fn clear<K, C>(&self, arrivals: &[Arrival<K, C>]) {
        self.empty.store(true, Ordering::Relaxed);
        self.plain.store(true, Ordering::Relaxed);
        if arrivals.len() < FILTER_WORDS / 8 {
            // Of a few, less memory is touched that way.
            for arrival in arrivals {
                self.words[Self::place(arrival.hash).0].store(0, Ordering::Relaxed);
            }
        } else {
            self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }

    fn place(hash: KeyHash) -> (usize, u64) {
        let bits = hash.bits() as usize;
        (bits / 64 % FILTER_WORDS, 1 << (bits % 64))
    }
}

impl<K, C> Intake<K, C> {
    pub(crate) fn new() -> Self {
        Self { arrivals: Vec::new(), closed: false }
    }

    /// Takes an arrival, or gives the key back if the intake is closed.
    #[inline]
    pub(crate) fn push(&mut self, arrival: Arrival<K, C>, filter: &Filter) -> Result<Fill, K> {
        if self.closed {
            return Err(arrival.key);
        }
        filter.insert(&arrival);
        self.arrivals.push(arrival);
        Ok(match self.arrivals.len() {
            BATCH_MAX.. => Fill::Full,
            // Once for each batch: a look at the other lock takes it from the core that uses it.
            len if len.is_multiple_of(BATCH) => Fill::Batch,
            _ => Fill::Low,
        })
    }

    /// Exchanges the arrivals for an empty buffer.
    pub(crate) fn swap(&mut self, buffer: &mut Vec<Arrival<K, C>>, filter: &Filter) {
        debug_assert!(buffer.is_empty(), "arrivals must not be overwritten");
        if !self.arrivals.is_empty() {
            std::mem::swap(&mut self.arrivals, buffer);
            filter.clear(buffer);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }
}
