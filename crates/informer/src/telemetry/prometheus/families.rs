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

use super::series::{EVENTS, REASONS, Series, Shown};
use crate::telemetry::status::HandlerStatus;
use crate::telemetry::status::{FeedStatus, InformerPhase, InformerStatus};

/// One metric of all resources. The encoder adds the unit and `_total` to the name.
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<&'static Unit>,
    kind: MetricType,
    values: Values,
}

/// Where the values of one resource come from.
enum Values {
    Numbers(Numbers),
    Seconds(fn(&Shown) -> Option<Duration>),
    Histogram(fn(&Series) -> &Histogram),
}

type Numbers = fn(&Shown) -> Labelled<'_>;

/// Values with the label that tells them apart. A single value has none.
type Labelled<'a> = Vec<(Option<(&'static str, &'a str)>, u64)>;

/// All metrics, in the order in which they are shown.
pub(super) static FAMILIES: &[Family] = &[
    counters("reflector_lists", "Lists that were completed.", |s| one(&s.series.counters.lists)),
    histogram("reflector_list_duration", "How long lists took.", |s| &s.list_duration)
        .in_unit(&SECONDS),
    histogram("reflector_items_per_list", "Objects in a list.", |s| &s.list_items),
    counters("reflector_watches", "Watches that were opened.", |s| one(&s.series.counters.watches)),
    counters(
        "reflector_short_watches",
        "Watches that ended within a second and without an event.",
        |s| one(&s.series.counters.short_watches),
    ),
    histogram("reflector_watch_duration", "How long watches lasted.", |s| &s.watch_duration)
        .in_unit(&SECONDS),
    histogram("reflector_items_per_watch", "Events in a watch.", |s| &s.watch_items),
    gauges("reflector_last_resource_version", "The version that the cache has come to.", |shown| {
        let lowest = feeds(shown).filter_map(version).min();
        lowest.map(|version| (None, version)).into_iter().collect()
    }),
    gauges("windlass_informer_synced", "Whether the first list is complete.", |shown| {
        let is_synced = |informer: &InformerStatus| informer.phase == InformerPhase::Synced;
        vec![(None, shown.informers.iter().all(is_synced).into())]
    }),
    histogram("windlass_informer_list_size", "Bytes of a list, as they were sent.", |s| {
        &s.list_bytes
    })
    .in_unit(&BYTES),
    counters("windlass_informer_events", "Changes received from watches.", |s| {
        labelled("type", &EVENTS, &s.series.counters.events)
    }),
    Family {
        name: "windlass_informer_last_event_age",
        help: "Time since the last change, of the feed that waits longest.",
        unit: Some(&SECONDS),
        kind: MetricType::Gauge,
        values: Values::Seconds(|shown| {
            feeds(shown).filter_map(|feed| feed.last_event).min().map(|at| at.elapsed())
        }),
    },
    counters(
        "windlass_informer_relists",
        "Lists that were begun after the first was complete.",
        |s| one(&s.series.counters.relists),
    ),
    counters("windlass_informer_failures", "Lists and watches that failed.", |s| {
        labelled("reason", &REASONS, &s.series.counters.failures)
    }),
    counters(
        "windlass_informer_stale",
        "Objects that were older than what is held, and were dropped.",
        |s| one(&s.series.counters.stale),
    ),
    counters(
        "windlass_informer_swept",
        "Objects that were deleted because a list no longer had them.",
        |s| one(&s.series.counters.swept),
    ),
    counters(
        "windlass_informer_repaired",
        "Objects that a list had and that a watch should have reported.",
        |s| one(&s.series.counters.repaired),
    ),
    counters(
        "windlass_informer_restored",
        "Times that the cluster was found restored from a backup.",
        |s| one(&s.series.counters.restored),
    ),
    counters("windlass_informer_quarantined", "Objects that came without a readable head.", |s| {
        one(&s.series.counters.quarantined)
    }),
    gauges(
        "windlass_informer_quarantined_objects",
        "Objects whose current version is left out, because its head cannot be read; a hundred \
             at most.",
        |s| sum(s, |informer| informer.quarantined.len()),
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
    gauges("windlass_informer_objects", "Objects in the cache.", |s| {
        sum(s, |informer| informer.store.objects)
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
    .in_unit(&BYTES),
    gauges(
        "windlass_informer_hot_objects",
        "Objects that are held decoded because they were read by key.",
        |s| by_type(s, |kind| kind.hot_entries as u64),
    ),
    gauges("windlass_informer_hot", "What objects that are held decoded take, estimated.", |s| {
        by_type(s, |kind| kind.hot_bytes as u64)
    })
    .in_unit(&BYTES),
    counters("windlass_informer_hot_hits", "Reads that found the object decoded.", |shown| {
        by_type(shown, |kind| kind.hits)
    }),
    counters("windlass_informer_hot_misses", "Reads that had to decode the object.", |shown| {
        by_type(shown, |kind| kind.misses)
    }),
    gauges("windlass_informer_pending_events", "Events that wait for a handler.", |s| {
        by_handler(s, |handler| handler.pending as u64)
    }),
    counters("windlass_informer_delivered", "Events that a handler was given.", |s| {
        by_handler(s, |handler| handler.delivered)
    }),
    counters(
        "windlass_informer_merged",
        "Events that merged with others because the handler was slow.",
        |s| by_handler(s, |handler| handler.merged),
    ),
    counters("windlass_informer_panics", "Events that a handler panicked on.", |s| {
        by_handler(s, |handler| handler.panics)
    }),
];

static SECONDS: Unit = Unit::Seconds;
static BYTES: Unit = Unit::Bytes;

const fn counters(name: &'static str, help: &'static str, read: Numbers) -> Family {
    Family { name, help, unit: None, kind: MetricType::Counter, values: Values::Numbers(read) }
}

const fn gauges(name: &'static str, help: &'static str, read: Numbers) -> Family {
    Family { name, help, unit: None, kind: MetricType::Gauge, values: Values::Numbers(read) }
}

const fn histogram(
    name: &'static str,
    help: &'static str,
    read: fn(&Series) -> &Histogram,
) -> Family {
    Family { name, help, unit: None, kind: MetricType::Histogram, values: Values::Histogram(read) }
}

impl Family {
    const fn in_unit(self, unit: &'static Unit) -> Self {
        Self { unit: Some(unit), ..self }
    }

    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        shown: &[Shown],
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(self.name, self.help, self.unit, self.kind)?;
        for resource in shown {
            let name = [("resource", resource.resource.as_str())];
            let numbers = match self.values {
                Values::Numbers(read) => read(resource),
                Values::Seconds(read) => {
                    if let Some(duration) = read(resource) {
                        family.encode_family(&name)?.encode_gauge(&duration.as_secs_f64())?;
                    }
                    continue;
                }
                Values::Histogram(read) => {
                    read(&resource.series).encode(family.encode_family(&name)?)?;
                    continue;
                }
            };
            for (label, number) in numbers {
                let labels: Vec<_> = name.into_iter().chain(label).collect();
                let mut metric = family.encode_family(&labels)?;
                match self.kind {
                    MetricType::Counter => {
                        metric.encode_counter::<NoLabelSet, _, u64>(&number, None)?;
                    }
                    _ => metric.encode_gauge(&number)?,
                }
            }
        }
        Ok(())
    }
}

fn one(counter: &Counter) -> Labelled<'_> {
    vec![(None, counter.get())]
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
