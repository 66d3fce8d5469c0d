//! What the mappers of a controller do, counted for its status and its metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What the mappers of [`watches_changes`](crate::ControllerBuilder::watches_changes) do, and what
/// becomes of events on which one of [`watches`](crate::ControllerBuilder::watches) has panicked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapperStatus {
    /// Objects whose events are being mapped.
    pub mapping: usize,
    /// Objects whose events wait to be mapped again, because a mapper failed.
    pub waiting: usize,
    /// Calls that returned an error.
    pub failed: u64,
    /// Calls that panicked.
    pub panicked: u64,
    /// Calls that were cancelled because they took too long.
    pub timed_out: u64,
    /// Events that lead to no run, because the object does not decode or the error is terminal, or
    /// because too many deletions wait; and updates whose new version was mapped, but for whose old
    /// version the mapper failed too often.
    pub given_up: u64,
}

/// The numbers behind a [`MapperStatus`].
#[derive(Default)]
pub(crate) struct MapperCounts {
    mapping: AtomicUsize,
    waiting: AtomicUsize,
    pub(super) failed: AtomicU64,
    pub(super) panicked: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) given_up: AtomicU64,
}

/// What one watch contributes to the gauges, until it is dropped.
pub(super) struct MapperGauges {
    pub(super) counts: Arc<MapperCounts>,
    mapping: usize,
    waiting: usize,
}

impl MapperCounts {
    /// Counts a panic of a mapper that is not awaited.
    pub(crate) fn add_panic(&self) {
        self.panicked.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an event that leads to no run.
    pub(crate) fn add_given_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn status(&self) -> MapperStatus {
        // Acquired, so that whoever finds nothing under way finds the keys in the queue.
        MapperStatus {
            mapping: self.mapping.load(Ordering::Acquire),
            waiting: self.waiting.load(Ordering::Acquire),
            failed: self.failed.load(Ordering::Relaxed),
            panicked: self.panicked.load(Ordering::Relaxed),
            timed_out: self.timed_out.load(Ordering::Relaxed),
            given_up: self.given_up.load(Ordering::Relaxed),
        }
    }
}

impl MapperGauges {
    pub(super) fn new(counts: Arc<MapperCounts>) -> Self {
        Self { counts, mapping: 0, waiting: 0 }
    }

    pub(super) fn set(&mut self, mapping: usize, waiting: usize) {
        change(&self.counts.mapping, &mut self.mapping, mapping);
        change(&self.counts.waiting, &mut self.waiting, waiting);
    }
}

impl Drop for MapperGauges {
    fn drop(&mut self) {
        self.set(0, 0);
    }
}

fn change(total: &AtomicUsize, shown: &mut usize, now: usize) {
    // Two steps: a difference may be negative.
    total.fetch_add(now, Ordering::AcqRel);
    total.fetch_sub(*shown, Ordering::AcqRel);
    *shown = now;
}
