//! The table of the metrics: name, help, type, and where the numbers of a resource come from.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;

use super::{EVENTS, REASONS, Shown};
use crate::share::listener::HandlerStatus;
use crate::telemetry::status::{FeedStatus, InformerStatus, Life};

/// One metric of all resources. The encoder adds the unit and `_total` to the name.
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: MetricType,
    values: fn(&Shown) -> Values<'_>,
}

/// What is shown of one resource, each with one more label where there are several.
type Values<'a> = Vec<(Option<(&'static str, &'a str)>, Value<'a>)>;

enum Value<'a> {
    Counter(u64),
    Gauge(u64),
    Seconds(Duration),
    Histogram(&'a Histogram),
}

use MetricType::{Counter as COUNTER, Gauge as GAUGE, Histogram as HISTOGRAM};

pub(super) static FAMILIES: &[Family] = &[
    Family {
        name: "reflector_lists",
        help: "Lists that were completed.",
        unit: None,
        kind: COUNTER,
        values: |shown| count(&shown.series.lists),
    },
    Family {
        name: "reflector_list_duration",
        help: "How long lists took.",
        unit: Some(Unit::Seconds),
        kind: HISTOGRAM,
        values: |shown| one(Value::Histogram(&shown.series.list_duration)),
    },
    Family {
        name: "reflector_items_per_list",
        help: "Objects in a list.",
        unit: None,
        kind: HISTOGRAM,
        values: |shown| one(Value::Histogram(&shown.series.list_items)),
    },
    Family {
        name: "reflector_watches",
        help: "Watches that were opened.",
        unit: None,
        kind: COUNTER,
        values: |shown| count(&shown.series.watches),
    },
    Family {
        name: "reflector_short_watches",
        help: "Watches that ended within a second and without an event.",
        unit: None,
        kind: COUNTER,
        values: |shown| count(&shown.series.short_watches),
    },
    Family {
        name: "reflector_watch_duration",
        help: "How long watches lasted.",
        unit: Some(Unit::Seconds),
        kind: HISTOGRAM,
        values: |shown| one(Value::Histogram(&shown.series.watch_duration)),
    },
    Family {
        name: "reflector_items_per_watch",
        help: "Events in a watch.",
        unit: None,
        kind: HISTOGRAM,
        values: |shown| one(Value::Histogram(&shown.series.watch_items)),
    },
    Family {
        name: "reflector_last_resource_version",
        help: "The version that the cache has come to.",
        unit: None,
        kind: GAUGE,
        values: |shown| optional(feeds(shown).filter_map(version).min().map(Value::Gauge)),
    },
    Family {
        name: "windlass_informer_synced",
        help: "Whether the first list is complete.",
        unit: None,
        kind: GAUGE,
        values: |shown| {
            let is_synced = |informer: &InformerStatus| informer.life == Life::Synced;
            one(Value::Gauge(shown.informers.iter().all(is_synced).into()))
        },
    },
    Family {
        name: "windlass_informer_list_size",
        help: "Bytes of a list, as they were sent.",
        unit: Some(Unit::Bytes),
        kind: HISTOGRAM,
        values: |shown| one(Value::Histogram(&shown.series.list_bytes)),
    },
    Family {
        name: "windlass_informer_events",
        help: "Changes that watches have told of.",
        unit: None,
        kind: COUNTER,
        values: |shown| labelled("type", &EVENTS, &shown.series.events),
    },
    Family {
        name: "windlass_informer_last_event_age",
        help: "How long ago the last change was told of, where that was longest ago.",
        unit: Some(Unit::Seconds),
        kind: GAUGE,
        values: |shown| {
            let ages = feeds(shown).filter_map(|feed| feed.last_event);
            optional(ages.max().map(Value::Seconds))
        },
    },
    Family {
        name: "windlass_informer_relists",
        help: "Lists that were begun after the first was complete.",
        unit: None,
        kind: COUNTER,
        values: |shown| count(&shown.series.relists),
    },
    Family {
        name: "windlass_informer_failures",
        help: "Lists and watches that failed.",
        unit: None,
        kind: COUNTER,
        values: |shown| labelled("reason", &REASONS, &shown.series.failures),
    },
    Family {
        name: "windlass_informer_stale",
        help: "Objects that were older than what is held, and were dropped.",
        unit: None,
        kind: COUNTER,
        values: |shown| count(&shown.series.stale),
    },
    Family {
        name: "windlass_informer_swept",
        help: "Objects that were deleted because a list no longer had them.",
        unit: None,
        kind: COUNTER,
        values: |shown| count(&shown.series.swept),
    },
    Family {
        name: "windlass_informer_repaired",
        help: "Objects that a list had and that a watch should have told of.",
        unit: None,
        kind: COUNTER,
        values: |shown| count(&shown.series.repaired),
    },
    Family {
        name: "windlass_informer_restored",
        help: "Times that the cluster was found restored from a backup.",
        unit: None,
        kind: COUNTER,
        values: |shown| count(&shown.series.restored),
    },
    Family {
        name: "windlass_informer_quarantined",
        help: "Objects that came without a readable head.",
        unit: None,
        kind: COUNTER,
        values: |shown| count(&shown.series.quarantined),
    },
    Family {
        name: "windlass_informer_quarantined_objects",
        help: "Objects whose current version is left out, because its head cannot be read; a hundred at most.",
        unit: None,
        kind: GAUGE,
        values: |shown| sum(shown, |informer| informer.quarantined.len()),
    },
    Family {
        name: "windlass_informer_undecodable_objects",
        help: "Objects that do not decode as the type that they are read or indexed as.",
        unit: None,
        kind: GAUGE,
        values: |shown| {
            let informers = || shown.informers.iter().map(|informer| &informer.store);
            let types = informers().flat_map(|store| &store.types);
            let types = types.map(|kind| (kind.name, kind.undecodable));
            let indexes = informers().flat_map(|store| &store.indexes);
            let indexes = indexes.map(|index| (index.name, index.undecodable.len()));
            grouped("type", types.chain(indexes), gauge)
        },
    },
    Family {
        name: "windlass_informer_objects",
        help: "Objects in the cache.",
        unit: None,
        kind: GAUGE,
        values: |shown| sum(shown, |informer| informer.store.objects),
    },
    Family {
        name: "windlass_informer_store",
        help: "What the cache takes: objects, the structures that find them, and texts that they share.",
        unit: Some(Unit::Bytes),
        kind: GAUGE,
        values: |shown| {
            let parts = shown.informers.iter().map(|informer| &informer.store).flat_map(|store| {
                [
                    ("objects", store.object_bytes),
                    ("structure", store.structure_bytes),
                    ("interned", store.interned_bytes),
                ]
            });
            grouped("part", parts, gauge)
        },
    },
    Family {
        name: "windlass_informer_hot_objects",
        help: "Objects that are held decoded because they were read by key.",
        unit: None,
        kind: GAUGE,
        values: |shown| {
            let types = shown.informers.iter().flat_map(|informer| &informer.store.types);
            grouped("type", types.map(|kind| (kind.name, kind.hot_entries)), gauge)
        },
    },
    Family {
        name: "windlass_informer_hot",
        help: "What objects that are held decoded take, estimated.",
        unit: Some(Unit::Bytes),
        kind: GAUGE,
        values: |shown| {
            let types = shown.informers.iter().flat_map(|informer| &informer.store.types);
            grouped("type", types.map(|kind| (kind.name, kind.hot_bytes)), gauge)
        },
    },
    Family {
        name: "windlass_informer_hot_hits",
        help: "Reads that found the object decoded.",
        unit: None,
        kind: COUNTER,
        values: |shown| {
            let types = shown.informers.iter().flat_map(|informer| &informer.store.types);
            grouped("type", types.map(|kind| (kind.name, kind.hits)), Value::Counter)
        },
    },
    Family {
        name: "windlass_informer_hot_misses",
        help: "Reads that had to decode the object.",
        unit: None,
        kind: COUNTER,
        values: |shown| {
            let types = shown.informers.iter().flat_map(|informer| &informer.store.types);
            grouped("type", types.map(|kind| (kind.name, kind.misses)), Value::Counter)
        },
    },
    Family {
        name: "windlass_informer_pending_events",
        help: "Events that wait for a handler.",
        unit: None,
        kind: GAUGE,
        values: |shown| handlers(shown, |handler| handler.pending, gauge),
    },
    Family {
        name: "windlass_informer_delivered",
        help: "Events that a handler was given.",
        unit: None,
        kind: COUNTER,
        values: |shown| handlers(shown, |handler| handler.delivered, Value::Counter),
    },
    Family {
        name: "windlass_informer_merged",
        help: "Events that merged with others because the handler was slow.",
        unit: None,
        kind: COUNTER,
        values: |shown| handlers(shown, |handler| handler.merged, Value::Counter),
    },
    Family {
        name: "windlass_informer_panics",
        help: "Events that a handler panicked on.",
        unit: None,
        kind: COUNTER,
        values: |shown| handlers(shown, |handler| handler.panics, Value::Counter),
    },
];

impl Family {
    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        shown: &[Shown],
    ) -> fmt::Result {
        let Self { name, help, unit, kind, values } = self;
        let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), *kind)?;
        for resource in shown {
            for (label, value) in values(resource) {
                let name = ("resource", resource.resource.as_str());
                let labels: Vec<_> = std::iter::once(name).chain(label).collect();
                value.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl Value<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter(value) => encoder.encode_counter::<NoLabelSet, _, u64>(value, None),
            Self::Gauge(value) => encoder.encode_gauge(value),
            Self::Seconds(value) => encoder.encode_gauge(&value.as_secs_f64()),
            Self::Histogram(histogram) => histogram.encode(encoder),
        }
    }
}

fn one(value: Value<'_>) -> Values<'_> {
    vec![(None, value)]
}

fn optional(value: Option<Value<'_>>) -> Values<'_> {
    value.into_iter().map(|value| (None, value)).collect()
}

fn count(counter: &Counter) -> Values<'_> {
    one(Value::Counter(counter.get()))
}

fn gauge(value: usize) -> Value<'static> {
    Value::Gauge(value as u64)
}

fn labelled<'a>(
    label: &'static str,
    names: &[&'static str],
    counters: &'a [Counter],
) -> Values<'a> {
    let pairs = names.iter().zip(counters);
    pairs.map(|(name, counter)| (Some((label, *name)), Value::Counter(counter.get()))).collect()
}

fn sum(shown: &Shown, number: fn(&InformerStatus) -> usize) -> Values<'_> {
    one(gauge(shown.informers.iter().map(number).sum()))
}

/// Numbers of one name are added up: a series must not be shown twice.
fn grouped<'a, N: Default + std::ops::AddAssign>(
    label: &'static str,
    numbers: impl Iterator<Item = (&'a str, N)>,
    value: fn(N) -> Value<'a>,
) -> Values<'a> {
    let mut sums = BTreeMap::<&str, N>::new();
    for (name, number) in numbers {
        *sums.entry(name).or_default() += number;
    }
    sums.into_iter().map(|(name, number)| (Some((label, name)), value(number))).collect()
}

fn handlers<'a, N: Default + std::ops::AddAssign>(
    shown: &'a Shown,
    number: fn(&HandlerStatus) -> N,
    value: fn(N) -> Value<'a>,
) -> Values<'a> {
    let handlers = shown.informers.iter().flat_map(|informer| &informer.handlers);
    grouped("handler", handlers.map(|handler| (handler.name.as_str(), number(handler))), value)
}

fn feeds(shown: &Shown) -> impl Iterator<Item = &FeedStatus> {
    shown.informers.iter().flat_map(|informer| &informer.feeds)
}

/// As a number, if the server's versions are numbers.
fn version(feed: &FeedStatus) -> Option<u64> {
    feed.version.as_ref()?.to_string().parse().ok()
}
