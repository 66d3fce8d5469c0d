//! The table of the metrics: name, help, and where the values of a resource come from.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;
use windlass_indexer::TypeStatus;

use super::{Counters, EVENTS, REASONS, Series, Shown};
use crate::share::listener::HandlerStatus;
use crate::telemetry::status::{FeedStatus, InformerStatus, Life};

/// One metric of all resources. The encoder adds the unit and `_total` to the name.
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    values: Values,
}

/// Where the values of one resource come from.
enum Values {
    Counter(fn(&Counters) -> &Counter),
    Histogram(fn(&Series) -> &Histogram),
    Counters(fn(&Shown) -> Labelled<'_>),
    Gauges(fn(&Shown) -> Labelled<'_>),
    Seconds(fn(&Shown) -> Option<Duration>),
}

/// Values with the label that tells them apart. A single value has none.
type Labelled<'a> = Vec<(Option<(&'static str, &'a str)>, u64)>;

/// All metrics, in the order in which they are shown.
pub(super) fn families() -> Vec<Family> {
    vec![
        counter("reflector_lists", "Lists that were completed.", |counters| &counters.lists),
        histogram("reflector_list_duration", "How long lists took.", |series| {
            &series.list_duration
        })
        .in_unit(Unit::Seconds),
        histogram("reflector_items_per_list", "Objects in a list.", |series| &series.list_items),
        counter("reflector_watches", "Watches that were opened.", |counters| &counters.watches),
        counter(
            "reflector_short_watches",
            "Watches that ended within a second and without an event.",
            |counters| &counters.short_watches,
        ),
        histogram("reflector_watch_duration", "How long watches lasted.", |series| {
            &series.watch_duration
        })
        .in_unit(Unit::Seconds),
        histogram("reflector_items_per_watch", "Events in a watch.", |series| &series.watch_items),
        gauges(
            "reflector_last_resource_version",
            "The version that the cache has come to.",
            |shown| {
                let lowest = feeds(shown).filter_map(version).min();
                lowest.map(|version| (None, version)).into_iter().collect()
            },
        ),
        gauges("windlass_informer_synced", "Whether the first list is complete.", |shown| {
            let is_synced = |informer: &InformerStatus| informer.life == Life::Synced;
            vec![(None, shown.informers.iter().all(is_synced).into())]
        }),
        histogram("windlass_informer_list_size", "Bytes of a list, as they were sent.", |series| {
            &series.list_bytes
        })
        .in_unit(Unit::Bytes),
        counters("windlass_informer_events", "Changes that watches have told of.", |shown| {
            labelled("type", &EVENTS, &shown.series.counters.events)
        }),
        seconds(
            "windlass_informer_last_event_age",
            "How long ago the last change was told of, where that was longest ago.",
            |shown| feeds(shown).filter_map(|feed| feed.last_event).min().map(|at| at.elapsed()),
        ),
        counter(
            "windlass_informer_relists",
            "Lists that were begun after the first was complete.",
            |counters| &counters.relists,
        ),
        counters("windlass_informer_failures", "Lists and watches that failed.", |shown| {
            labelled("reason", &REASONS, &shown.series.counters.failures)
        }),
        counter(
            "windlass_informer_stale",
            "Objects that were older than what is held, and were dropped.",
            |counters| &counters.stale,
        ),
        counter(
            "windlass_informer_swept",
            "Objects that were deleted because a list no longer had them.",
            |counters| &counters.swept,
        ),
        counter(
            "windlass_informer_repaired",
            "Objects that a list had and that a watch should have told of.",
            |counters| &counters.repaired,
        ),
        counter(
            "windlass_informer_restored",
            "Times that the cluster was found restored from a backup.",
            |counters| &counters.restored,
        ),
        counter(
            "windlass_informer_quarantined",
            "Objects that came without a readable head.",
            |counters| &counters.quarantined,
        ),
        gauges(
            "windlass_informer_quarantined_objects",
            "Objects whose current version is left out, because its head cannot be read; a hundred \
             at most.",
            |shown| sum(shown, |informer| informer.quarantined.len()),
        ),
        gauges(
            "windlass_informer_undecodable_objects",
            "Objects that do not decode as the type that they are read or indexed as.",
            |shown| {
                let types = types(shown).map(|kind| (kind.name, kind.undecodable as u64));
                let indexes = shown.informers.iter().flat_map(|informer| &informer.store.indexes);
                let indexes = indexes.map(|index| (index.name, index.undecodable.len() as u64));
                grouped("type", types.chain(indexes))
            },
        ),
        gauges("windlass_informer_objects", "Objects in the cache.", |shown| {
            sum(shown, |informer| informer.store.objects)
        }),
        gauges(
            "windlass_informer_store",
            "What the cache takes: objects, the structures that find them, and texts that they \
             share.",
            |shown| {
                let stores = shown.informers.iter().map(|informer| &informer.store);
                let parts = stores.flat_map(|store| {
                    [
                        ("objects", store.object_bytes as u64),
                        ("structure", store.structure_bytes as u64),
                        ("interned", store.interned_bytes as u64),
                    ]
                });
                grouped("part", parts)
            },
        )
        .in_unit(Unit::Bytes),
        gauges(
            "windlass_informer_hot_objects",
            "Objects that are held decoded because they were read by key.",
            |shown| by_type(shown, |kind| kind.hot_entries as u64),
        ),
        gauges(
            "windlass_informer_hot",
            "What objects that are held decoded take, estimated.",
            |shown| by_type(shown, |kind| kind.hot_bytes as u64),
        )
        .in_unit(Unit::Bytes),
        counters("windlass_informer_hot_hits", "Reads that found the object decoded.", |shown| {
            by_type(shown, |kind| kind.hits)
        }),
        counters("windlass_informer_hot_misses", "Reads that had to decode the object.", |shown| {
            by_type(shown, |kind| kind.misses)
        }),
        gauges("windlass_informer_pending_events", "Events that wait for a handler.", |shown| {
            by_handler(shown, |handler| handler.pending as u64)
        }),
        counters("windlass_informer_delivered", "Events that a handler was given.", |shown| {
            by_handler(shown, |handler| handler.delivered)
        }),
        counters(
            "windlass_informer_merged",
            "Events that merged with others because the handler was slow.",
            |shown| by_handler(shown, |handler| handler.merged),
        ),
        counters("windlass_informer_panics", "Events that a handler panicked on.", |shown| {
            by_handler(shown, |handler| handler.panics)
        }),
    ]
}

fn counter(name: &'static str, help: &'static str, of: fn(&Counters) -> &Counter) -> Family {
    Family { name, help, unit: None, values: Values::Counter(of) }
}

fn histogram(name: &'static str, help: &'static str, of: fn(&Series) -> &Histogram) -> Family {
    Family { name, help, unit: None, values: Values::Histogram(of) }
}

fn counters(name: &'static str, help: &'static str, of: fn(&Shown) -> Labelled<'_>) -> Family {
    Family { name, help, unit: None, values: Values::Counters(of) }
}

fn gauges(name: &'static str, help: &'static str, of: fn(&Shown) -> Labelled<'_>) -> Family {
    Family { name, help, unit: None, values: Values::Gauges(of) }
}

fn seconds(name: &'static str, help: &'static str, of: fn(&Shown) -> Option<Duration>) -> Family {
    Family { name, help, unit: Some(Unit::Seconds), values: Values::Seconds(of) }
}

impl Family {
    fn in_unit(self, unit: Unit) -> Self {
        Self { unit: Some(unit), ..self }
    }

    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        shown: &[Shown],
    ) -> fmt::Result {
        let kind = match self.values {
            Values::Counter(_) | Values::Counters(_) => MetricType::Counter,
            Values::Gauges(_) | Values::Seconds(_) => MetricType::Gauge,
            Values::Histogram(_) => MetricType::Histogram,
        };
        let unit = self.unit.as_ref();
        let mut family = encoder.encode_descriptor(self.name, self.help, unit, kind)?;
        for resource in shown {
            let name = ("resource", resource.resource.as_str());
            let series = &resource.series;
            match self.values {
                Values::Counter(of) => {
                    let count = of(&series.counters).get();
                    family
                        .encode_family(&[name])?
                        .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
                }
                Values::Histogram(of) => of(series).encode(family.encode_family(&[name])?)?,
                Values::Counters(of) => {
                    for (label, count) in of(resource) {
                        let labels: Vec<_> = [name].into_iter().chain(label).collect();
                        let mut encoder = family.encode_family(&labels)?;
                        encoder.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
                    }
                }
                Values::Gauges(of) => {
                    for (label, value) in of(resource) {
                        let labels: Vec<_> = [name].into_iter().chain(label).collect();
                        family.encode_family(&labels)?.encode_gauge(&value)?;
                    }
                }
                Values::Seconds(of) => {
                    if let Some(duration) = of(resource) {
                        family.encode_family(&[name])?.encode_gauge(&duration.as_secs_f64())?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn labelled<'a>(label: &'static str, names: &[&'static str], counters: &[Counter]) -> Labelled<'a> {
    let pairs = names.iter().zip(counters);
    pairs.map(|(name, counter)| (Some((label, *name)), counter.get())).collect()
}

fn sum(shown: &Shown, number: fn(&InformerStatus) -> usize) -> Labelled<'_> {
    vec![(None, shown.informers.iter().map(number).sum::<usize>() as u64)]
}

/// Adds up numbers of the same name, because a series must not be shown twice.
fn grouped<'a>(label: &'static str, numbers: impl Iterator<Item = (&'a str, u64)>) -> Labelled<'a> {
    let mut sums = BTreeMap::<&str, u64>::new();
    for (name, number) in numbers {
        *sums.entry(name).or_default() += number;
    }
    sums.into_iter().map(|(name, number)| (Some((label, name)), number)).collect()
}

fn types(shown: &Shown) -> impl Iterator<Item = &TypeStatus> {
    shown.informers.iter().flat_map(|informer| &informer.store.types)
}

fn by_type(shown: &Shown, number: fn(&TypeStatus) -> u64) -> Labelled<'_> {
    grouped("type", types(shown).map(|kind| (kind.name, number(kind))))
}

fn by_handler(shown: &Shown, number: fn(&HandlerStatus) -> u64) -> Labelled<'_> {
    let handlers = shown.informers.iter().flat_map(|informer| &informer.handlers);
    grouped("handler", handlers.map(|handler| (handler.name.as_str(), number(handler))))
}

fn feeds(shown: &Shown) -> impl Iterator<Item = &FeedStatus> {
    shown.informers.iter().flat_map(|informer| &informer.feeds)
}

/// The version as a number, if it is one.
fn version(feed: &FeedStatus) -> Option<u64> {
    feed.version.as_ref()?.to_string().parse().ok()
}
