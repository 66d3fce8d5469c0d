//! What is counted for one resource.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::lock::lock;
use crate::telemetry::observer::{Observation, StatusHandle};
use crate::telemetry::status::InformerStatus;
use crate::transport::source::SourceError;

/// What is counted for one resource, and the informers that have the rest.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) counters: Counters,
    pub(super) list_duration: Histogram,
    pub(super) list_items: Histogram,
    pub(super) list_bytes: Histogram,
    pub(super) watch_duration: Histogram,
    pub(super) watch_items: Histogram,
    informers: Mutex<Vec<StatusHandle>>,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) lists: Counter,
    pub(super) watches: Counter,
    pub(super) short_watches: Counter,
    /// In the order of [`EVENTS`].
    pub(super) events: [Counter; EVENTS.len()],
    /// In the order of [`REASONS`].
    pub(super) failures: [Counter; REASONS.len()],
    pub(super) relists: Counter,
    pub(super) stale: Counter,
    pub(super) swept: Counter,
    pub(super) repaired: Counter,
    pub(super) restored: Counter,
    pub(super) quarantined: Counter,
}

/// One resource in one scrape.
pub(super) struct Shown {
    pub(super) resource: String,
    pub(super) series: Arc<Series>,
    pub(super) informers: Vec<InformerStatus>,
}

/// The values of the label `type`, in the order of [`EventType`](crate::observe::EventType).
pub(super) const EVENTS: [&str; 3] = ["added", "modified", "deleted"];

/// The values of the label `reason`.
pub(super) const REASONS: [&str; 5] = ["gone", "throttled", "unauthorized", "silent", "other"];

/// A watch that ends sooner than this, and without an event, is short: client-go's bound.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// Seconds of a list: from a small one nearby to a million objects far away.
const LIST_SECONDS: [f64; 12] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];

/// Seconds of a watch: a healthy one lasts five to ten minutes.
const WATCH_SECONDS: [f64; 9] = [0.1, 1.0, 5.0, 15.0, 60.0, 180.0, 300.0, 600.0, 1_800.0];

/// Objects of a list and events of a watch.
const ITEMS: [f64; 8] = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];

impl Series {
    pub(super) fn new() -> Self {
        Self {
            counters: Counters::default(),
            list_duration: Histogram::new(LIST_SECONDS),
            list_items: Histogram::new(ITEMS),
            // From 1 KiB to 4 GiB.
            list_bytes: Histogram::new(exponential_buckets(1_024.0, 4.0, 12)),
            watch_duration: Histogram::new(WATCH_SECONDS),
            watch_items: Histogram::new(ITEMS),
            informers: Mutex::default(),
        }
    }

    /// The informers of the resource that are not dropped.
    pub(super) fn live_informers(&self) -> MutexGuard<'_, Vec<StatusHandle>> {
        let mut informers = lock(&self.informers);
        informers.retain(|informer| !informer.is_gone());
        informers
    }

    pub(super) fn count(&self, observation: &Observation<'_>) {
        let counters = &self.counters;
        match observation {
            Observation::ListBegun { is_relist } => {
                counters.relists.inc_by(u64::from(*is_relist));
            }
            Observation::Listed { list, swept, repaired, is_restored } => {
                counters.lists.inc();
                counters.swept.inc_by(*swept);
                counters.repaired.inc_by(*repaired);
                counters.restored.inc_by(u64::from(*is_restored));
                self.list_duration.observe(list.elapsed.as_secs_f64());
                self.list_items.observe(float(list.objects));
                self.list_bytes.observe(float(list.bytes));
            }
            Observation::WatchOpened => _ = counters.watches.inc(),
            Observation::WatchClosed { lasted, events } => {
                self.watch_duration.observe(lasted.as_secs_f64());
                self.watch_items.observe(float(*events));
                let is_short = *lasted < SHORT_WATCH && *events == 0;
                counters.short_watches.inc_by(u64::from(is_short));
            }
            Observation::Changed(change) => _ = counters.events[*change as usize].inc(),
            Observation::Stale(count) => _ = counters.stale.inc_by(*count),
            Observation::Quarantined(_) => _ = counters.quarantined.inc(),
            Observation::Failed { error, .. } => _ = counters.failures[reason_index(error)].inc(),
            _ => {}
        }
    }
}

/// The index into [`REASONS`].
fn reason_index(error: &SourceError) -> usize {
    match error {
        error if error.is_gone() => 0,
        error if error.is_throttled() => 1,
        error if error.is_unauthorized() => 2,
        SourceError::Silent(_) => 3,
        _ => 4,
    }
}

/// Metrics are floating point numbers.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}
