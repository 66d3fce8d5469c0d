//! The informers' metrics on a `prometheus-client` registry, under client-go's names where it has
//! one.
//!
//! Counters and histograms are updated by [`Observation`]s. States (sizes, pending events, the age
//! of the last event) are read from the informers during a scrape, through [`StatusHandle`]. So
//! there is no periodic task, and no gauge is older than its scrape.
//!
//! `series` counts for one resource, from when its first informer is made until its last one is
//! gone. `families` is the table of the metrics.
//!
//! Invariant: a scrape holds no lock of this module while it asks an informer for its status. An
//! informer whose last user leaves meanwhile is dropped by the scrape, and that needs the locks.

mod families;
mod series;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::lock::lock;
use crate::resource::Resource;
use crate::telemetry::observer::{Observation, Observer, StatusHandle};
use families::FAMILIES;
use series::{Series, Shown};

/// Shows any number of informers on one `prometheus_client` registry. All metrics have the label
/// `resource`, as in `pods.v1`. Those of client-go's reflectors, under their names:
///
/// | metric | type | of each resource |
/// |---|---|---|
/// | `reflector_lists_total` | counter | lists that were completed, streamed or in pages |
/// | `reflector_list_duration_seconds` | histogram | how long they took |
/// | `reflector_items_per_list` | histogram | objects in them |
/// | `reflector_watches_total` | counter | watches that were opened, also for streamed lists |
/// | `reflector_short_watches_total` | counter | watches that ended within 1 s, without an event |
/// | `reflector_watch_duration_seconds` | histogram | how long watches lasted |
/// | `reflector_items_per_watch` | histogram | events in them |
/// | `reflector_last_resource_version` | gauge | the version that the cache has come to |
///
/// And those of Windlass:
///
/// | metric, after `windlass_informer_` | type | of each resource |
/// |---|---|---|
/// | `synced` | gauge | 1 while the informer is synced: all first lists are complete, and it runs |
/// | `list_size_bytes` | histogram | bytes of a list, as they were sent |
/// | `events_total` | counter | changes of watches, by `type`: `added`, `modified`, `deleted` |
/// | `last_event_age_seconds` | gauge | since the last change, of the feed that waits longest |
/// | `relists_total` | counter | lists after the first |
/// | `failures_total` | counter | lists and watches that failed, by `reason` (see below) |
/// | `stale_total` | counter | objects that were older than what is held, and were dropped |
/// | `swept_total` | counter | objects that were deleted because a list no longer had them |
/// | `repaired_total` | counter | objects that a list had and that a watch should have reported |
/// | `restored_total` | counter | times that the cluster was found restored |
/// | `quarantined_total` | counter | objects that came without a readable head |
/// | `quarantined_objects` | gauge | those whose current version is left out, a hundred at most |
/// | `undecodable_objects` | gauge | objects that do not decode as a `type` that they are read as |
/// | `objects` | gauge | objects in the cache |
/// | `store_bytes` | gauge | what it takes, by `part`: `objects`, `structure`, `interned` |
/// | `hot_objects`, `hot_bytes` | gauge | objects that are held decoded, by `type` |
/// | `hot_hits_total`, `hot_misses_total` | counter | reads that had the object decoded, or not |
/// | `pending_events` | gauge | events that wait for a handler, by `handler` |
/// | `delivered_total` | counter | events that a handler was given |
/// | `merged_total` | counter | events that merged with others because the handler was slow |
/// | `panics_total` | counter | events that a handler panicked on |
///
/// The reasons of failures are `gone` (410), `throttled` (429), `unauthorized` (401), `silent` and
/// `other`.
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
struct Resources(Mutex<BTreeMap<Resource, Arc<Series>>>);

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
        let mut all = lock(&self.0);
        // Entries of stopped informers must not accumulate, even if there are no scrapes.
        all.retain(|_, series| !series.live_informers().is_empty());
        let series = all.entry(resource.clone()).or_insert_with(|| Arc::new(Series::new()));
        series.live_informers().push(informer);
    }

    /// The resources that have an informer at this moment, in order.
    fn shown(&self) -> Vec<Shown> {
        // Unlocked before the informers are read.
        let all = lock(&self.0).clone();
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
        FAMILIES.iter().try_for_each(|family| family.encode(&mut encoder, &shown))
    }
}

impl Observer for InformerMetrics {
    fn observe(&self, resource: &Resource, observation: &Observation<'_>) {
        if let Observation::Created(informer) = observation {
            self.resources.add(resource, informer.clone());
            return;
        }
        let series = lock(&self.resources.0).get(resource).cloned();
        if let Some(series) = series {
            series.count(observation);
        }
    }
}
