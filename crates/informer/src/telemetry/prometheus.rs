//! The informers' metrics on a `prometheus-client` registry, under client-go's names where it has
//! one.
//!
//! Counters and histograms are updated by [`Observation`]s. States (sizes, pending events, the age of
//! the last event) are read from the informers during a scrape, through [`StatusHandle`]. So there
//! is no periodic task, and no gauge is older than its scrape.
//!
//! `families` is the table of the metrics. This file counts: it has one [`Series`] for each resource,
//! from when its first informer is made until its last one is gone.
//!
//! Invariant: a scrape holds no lock of this module while it asks an informer for its status. An
//! informer whose last user leaves meanwhile is dropped by the scrape, and that needs the locks.

mod families;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::decode::frames::Change;
use crate::resource::Resource;
use crate::share::lock::lock;
use crate::telemetry::observer::{Observation, Observer, StatusHandle};
use crate::telemetry::status::InformerStatus;
use crate::transport::source::SourceError;
use families::families;

/// Shows any number of informers on one `prometheus_client` registry. All metrics have the label
/// `resource`, as in `pods.v1`. Those of client-go's reflectors, under their names:
///
/// | metric | type | of each resource |
/// |---|---|---|
/// | `reflector_lists_total` | counter | lists that were completed, streamed or in pages |
/// | `reflector_list_duration_seconds` | histogram | how long they took |
/// | `reflector_items_per_list` | histogram | objects in them |
/// | `reflector_watches_total` | counter | watches that were opened, those that stream a list included |
/// | `reflector_short_watches_total` | counter | those that ended within a second and without an event |
/// | `reflector_watch_duration_seconds` | histogram | how long watches lasted |
/// | `reflector_items_per_watch` | histogram | events in them |
/// | `reflector_last_resource_version` | gauge | the version that the cache has come to |
///
/// And those of Windlass:
///
/// | metric, after `windlass_informer_` | type | of each resource |
/// |---|---|---|
/// | `synced` | gauge | 1 once the first list is complete |
/// | `list_size_bytes` | histogram | bytes of a list, as they were sent |
/// | `events_total` | counter | changes of watches, by `type`: `added`, `modified`, `deleted` |
/// | `last_event_age_seconds` | gauge | since the last change, of the feed where it was longest ago |
/// | `relists_total` | counter | lists after the first |
/// | `failures_total` | counter | lists and watches that failed, by `reason`: `gone` (410), `throttled` (429), `unauthorized` (401), `silent`, `other` |
/// | `stale_total` | counter | objects that were older than what is held, and were dropped |
/// | `swept_total` | counter | objects that were deleted because a list no longer had them |
/// | `repaired_total` | counter | objects that a list had and that a watch should have told of |
/// | `restored_total` | counter | times that the cluster was found restored |
/// | `quarantined_total` | counter | objects that came without a readable head |
/// | `quarantined_objects` | gauge | those whose current version is left out, a hundred at most |
/// | `undecodable_objects` | gauge | objects that do not decode as a `type` that they are read or indexed as |
/// | `objects` | gauge | objects in the cache |
/// | `store_bytes` | gauge | what it takes, by `part`: `objects`, `structure`, `interned` |
/// | `hot_objects`, `hot_bytes` | gauge | objects that are held decoded, by `type` |
/// | `hot_hits_total`, `hot_misses_total` | counter | reads that found the object decoded, or not, by `type` |
/// | `pending_events` | gauge | events that wait for a handler, by `handler` |
/// | `delivered_total` | counter | events that a handler was given |
/// | `merged_total` | counter | events that merged with others because the handler was slow |
/// | `panics_total` | counter | events that a handler panicked on |
///
/// ```
/// use prometheus_client::{encoding::text, registry::Registry};
/// use windlass_informer::{InformerMetrics, InformerOptions, SharedInformerFactory};
///
/// # fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut registry = Registry::default();
/// let metrics = InformerMetrics::register(&mut registry);
///
/// let factory = SharedInformerFactory::builder(client)
///     .defaults(InformerOptions::new().observer(metrics.observer()))
///     .build();
/// // … and whenever somebody scrapes:
/// let mut scrape = String::new();
/// text::encode(&mut scrape, &registry)?;
/// # drop(factory);
/// # Ok(())
/// # }
/// ```
///
/// The caller owns the registry, its prefix and its labels; there is no global one. Clones are the
/// same metrics.
///
/// A resource is shown from when its first informer is made until its last one is gone. After that
/// it starts at zero, like a process that was restarted. Several informers of one resource, as with
/// different selectors, are shown as one: numbers are added up, and it is synced when all of them
/// are. The same applies to handlers of one name, which is the handler's type unless
/// [`HandlerOptions::name`](crate::HandlerOptions::name) is set.
#[derive(Clone, Debug)]
pub struct InformerMetrics {
    resources: Arc<Resources>,
}

/// What is shown, by resource. Ordered, so that a scrape is ordered.
#[derive(Debug, Default)]
struct Resources(RwLock<BTreeMap<Resource, Arc<Series>>>);

/// What is counted for one resource, and the informers that have the rest.
#[derive(Debug)]
struct Series {
    counters: Counters,
    list_duration: Histogram,
    list_items: Histogram,
    list_bytes: Histogram,
    watch_duration: Histogram,
    watch_items: Histogram,
    informers: Mutex<Vec<StatusHandle>>,
}

#[derive(Debug, Default)]
struct Counters {
    lists: Counter,
    watches: Counter,
    short_watches: Counter,
    /// In the order of [`EVENTS`].
    events: [Counter; EVENTS.len()],
    /// In the order of [`REASONS`].
    failures: [Counter; REASONS.len()],
    relists: Counter,
    stale: Counter,
    swept: Counter,
    repaired: Counter,
    restored: Counter,
    quarantined: Counter,
}

/// One resource in one scrape.
struct Shown {
    resource: String,
    series: Arc<Series>,
    informers: Vec<InformerStatus>,
}

/// The values of the label `type`.
const EVENTS: [&str; 3] = ["added", "modified", "deleted"];

/// The values of the label `reason`.
const REASONS: [&str; 5] = ["gone", "throttled", "unauthorized", "silent", "other"];

/// A watch that ends sooner than this, and without an event, is short: client-go's bound.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// Seconds of a list: from a small one nearby to a million objects far away.
const LIST_SECONDS: [f64; 12] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];

/// Seconds of a watch: a healthy one lasts five to ten minutes.
const WATCH_SECONDS: [f64; 9] = [0.1, 1.0, 5.0, 15.0, 60.0, 180.0, 300.0, 600.0, 1_800.0];

/// Objects of a list and events of a watch.
const ITEMS: [f64; 8] = [0.0, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];

impl InformerMetrics {
    /// Enters the metrics into a registry, once for all informers.
    #[must_use = "informers are shown that have an observer of it"]
    pub fn register(registry: &mut Registry) -> Self {
        let resources = Arc::new(Resources::default());
        registry.register_collector(Box::new(Arc::clone(&resources)));
        Self { resources }
    }

    /// An observer for [`InformerOptions::observer`](crate::InformerOptions::observer), of a
    /// factory's defaults or of single informers.
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(self.clone())
    }
}

impl Resources {
    /// Adds an informer. Nobody can remove its series before it is in there.
    fn add(&self, resource: &Resource, informer: StatusHandle) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Resources that come and go must not pile up, even if nobody ever scrapes.
        all.retain(|_, series| !series.live_informers().is_empty());
        let series = all.entry(resource.clone()).or_insert_with(|| Arc::new(Series::new()));
        series.live_informers().push(informer);
    }

    /// The resources that have an informer at this moment, in order.
    fn shown(&self) -> Vec<Shown> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let shown = all.into_iter().filter_map(|(resource, series)| {
            let handles = series.live_informers().clone();
            let informers: Vec<_> = handles.iter().filter_map(StatusHandle::status).collect();
            let resource = resource.to_string();
            (!informers.is_empty()).then_some(Shown { resource, series, informers })
        });
        shown.collect()
    }
}

impl Collector for Resources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let shown = self.shown();
        if shown.is_empty() {
            return Ok(());
        }
        families().iter().try_for_each(|family| family.encode(&mut encoder, &shown))
    }
}

impl Series {
    fn new() -> Self {
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

    fn live_informers(&self) -> MutexGuard<'_, Vec<StatusHandle>> {
        let mut informers = lock(&self.informers);
        informers.retain(|informer| !informer.is_gone());
        informers
    }

    fn count(&self, observation: &Observation<'_>) {
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
            Observation::Changed(change) => _ = counters.events[event_index(*change)].inc(),
            Observation::Stale(count) => _ = counters.stale.inc_by(*count),
            Observation::Quarantined(_) => _ = counters.quarantined.inc(),
            Observation::Failed { error, .. } => _ = counters.failures[reason_index(error)].inc(),
            _ => {}
        }
    }
}

/// The index into [`EVENTS`].
fn event_index(change: Change) -> usize {
    match change {
        Change::Added => 0,
        Change::Modified => 1,
        Change::Deleted => 2,
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

impl Observer for InformerMetrics {
    fn observe(&self, resource: &Resource, observation: &Observation<'_>) {
        if let Observation::Created(informer) = observation {
            self.resources.add(resource, informer.clone());
            return;
        }
        let all = self.resources.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = all.get(resource) {
            series.count(observation);
        }
    }
}

/// Metrics are floating point numbers.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}
