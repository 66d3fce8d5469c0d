//! The queue's metrics on a `prometheus-client` registry, with the names and labels of
//! controller-runtime.
//!
//! The queue pushes counters and histograms through [`Observer`]. A scrape reads the gauges from
//! the queue through [`LoadHandle`], because they change without a call to the queue: unfinished
//! work grows with time, and the depth changes when a delay ends. So no task has to update them.
//!
//! A scrape holds no lock of this module while it reads a queue: if the last owner of a queue goes
//! away during a scrape, the scrape drops the queue.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::observer::{Load, LoadHandle, Observer};
use crate::priority::Priority;

/// Upper bounds of the histograms' buckets, in seconds. They are controller-runtime's, which
/// include those of Kubernetes' own components, so dashboards made for either keep working. Two of
/// them have Go's rounding error: histograms of Go and Rust programs can be summed only if their
/// bounds are equal.
const BUCKETS: [f64; 12] = [
    1e-8,
    1e-7,
    1e-6,
    9.999_999_999_999_999e-6,
    9.999_999_999_999_999e-5,
    1e-3,
    1e-2,
    1e-1,
    1.0,
    1e1,
    1e2,
    1e3,
];

/// Shows any number of queues on one `prometheus_client` registry. Names, labels, types and buckets
/// are those of controller-runtime, which has them from client-go:
///
/// | metric | type | of each queue |
/// |---|---|---|
/// | `workqueue_depth` | gauge | keys that are ready, also by `priority` |
/// | `workqueue_adds_total` | counter | runs that became ready |
/// | `workqueue_queue_duration_seconds` | histogram | how long keys were ready |
/// | `workqueue_work_duration_seconds` | histogram | how long leases were held |
/// | `workqueue_unfinished_work_seconds` | gauge | ages of all leases that are held, added up |
/// | `workqueue_longest_running_processor_seconds` | gauge | age of the oldest lease |
/// | `workqueue_retries_total` | counter | adds through the rate limiter |
/// | `workqueue_retry_debt_seconds` | gauge | how far ahead a shared limiter is booked |
///
/// The last one is not client-go's. It rises while more keys fail than the limiter lets through.
///
/// All have the labels `name` and `controller` with the same value, as in controller-runtime.
/// `priority` is the level of a key: the requested priority, or a higher one after aging. It is
/// `-100` for [`Priority::Low`], `0` for [`Priority::Normal`] and `100` for [`Priority::High`]: the
/// first two are the numbers of controller-runtime.
///
/// ```
/// use prometheus_client::{encoding::text, registry::Registry};
/// use windlass_workqueue::{QueueMetrics, WorkQueue};
///
/// let mut registry = Registry::default();
/// let metrics = QueueMetrics::register(&mut registry);
///
/// let queue = WorkQueue::builder().observer(metrics.observer("pods")).build()?;
/// # let queue: WorkQueue<&str> = queue;
/// queue.add("default/web-0")?;
///
/// let mut scrape = String::new();
/// text::encode(&mut scrape, &registry)?;
/// let line = r#"workqueue_depth{name="pods",controller="pods",priority="0"} 1"#;
/// assert!(scrape.contains(line));
/// # queue.try_get();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The registry is the caller's, and so are its prefix and labels; there is no global one. Clones
/// are the same metrics.
///
/// A queue is shown from when it is built until it is gone. A name that is used again after that
/// starts at zero, like a process that was restarted. Queues that share a name at the same time are
/// shown as one: their counts are added up, and the longest of their longest runs and of their
/// retry debts are shown.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    queues: Arc<Queues>,
}

/// What is shown, by the value of the label `name`. Ordered, so that the output of a scrape is.
///
/// An entry lives as long as its observer, which the queue holds.
#[derive(Debug, Default)]
struct Queues(Mutex<BTreeMap<String, Weak<Series>>>);

/// The counters of one name, and the queues to read for the gauges.
#[derive(Debug)]
struct Series {
    adds: Counter,
    retries: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    /// The queues that have, or had, this name.
    queues: Mutex<Vec<LoadHandle>>,
}

/// One name in one scrape.
struct Shown {
    name: String,
    series: Arc<Series>,
    load: Load,
}

/// The values of the label `priority`, in the order of [`Priority::ALL`]. The first two are
/// controller-runtime's `LowPriority` and its default.
const PRIORITIES: [&str; Priority::ALL.len()] = ["-100", "0", "100"];

/// One metric of all names. The depth is not here, because it has several values. The encoder adds
/// the unit and `_total` to the name.
struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    metric: fn(&Shown) -> Box<dyn EncodeMetric>,
}

static FAMILIES: [Family; 7] = [
    Family {
        name: "workqueue_adds",
        help: "Runs that became ready; adds of a key that is ready already are merged and not \
               counted.",
        unit: None,
        metric: |shown| Box::new(shown.series.adds.clone()),
    },
    Family {
        name: "workqueue_queue_duration",
        help: "How long keys were ready before a worker took them.",
        unit: Some(Unit::Seconds),
        metric: |shown| Box::new(shown.series.queue_duration.clone()),
    },
    Family {
        name: "workqueue_work_duration",
        help: "How long workers took over a key.",
        unit: Some(Unit::Seconds),
        metric: |shown| Box::new(shown.series.work_duration.clone()),
    },
    Family {
        name: "workqueue_unfinished_work",
        help: "How long the runs under way have taken so far, added up; it grows by one a second \
               for each worker that is stuck.",
        unit: Some(Unit::Seconds),
        metric: |shown| seconds(shown.load.unfinished),
    },
    Family {
        name: "workqueue_longest_running_processor",
        help: "How long the oldest run under way has taken so far.",
        unit: Some(Unit::Seconds),
        metric: |shown| seconds(shown.load.longest_running),
    },
    Family {
        name: "workqueue_retries",
        help: "Adds through the rate limiter.",
        unit: None,
        metric: |shown| Box::new(shown.series.retries.clone()),
    },
    Family {
        name: "workqueue_retry_debt",
        help: "How far ahead a limiter that all keys share is booked: about how long a key that \
               fails now waits because others failed before it.",
        unit: Some(Unit::Seconds),
        metric: |shown| seconds(shown.load.retry_debt),
    },
];

fn seconds(duration: Duration) -> Box<dyn EncodeMetric> {
    Box::new(ConstGauge::new(duration.as_secs_f64()))
}

impl QueueMetrics {
    /// Registers the metrics with a registry, once for all queues.
    #[must_use = "only queues with an observer of it are shown"]
    pub fn register(registry: &mut Registry) -> Self {
        let queues = Arc::new(Queues::default());
        registry.register_collector(Box::new(Arc::clone(&queues)));
        Self { queues }
    }

    /// What to give to [`Builder::observer`](crate::Builder::observer), so that the queue is shown
    /// with the labels `name="…"` and `controller="…"`.
    #[must_use]
    pub fn observer(&self, name: &str) -> Arc<dyn Observer> {
        let mut queues = self.queues.0.lock();
        if let Some(series) = queues.get(name).and_then(Weak::upgrade) {
            return series;
        }
        // Entries of dropped queues must not accumulate, even if there are no scrapes.
        queues.retain(|_, series| series.strong_count() > 0);
        let series = Arc::new(Series::new());
        queues.insert(name.to_owned(), Arc::downgrade(&series));
        series
    }
}

impl Queues {
    /// The names that have a queue at this moment, in order.
    fn shown(&self) -> Vec<Shown> {
        let named: Vec<_> = self
            .0
            .lock()
            .iter()
            .filter_map(|(name, series)| Some((name.clone(), series.upgrade()?)))
            .collect();
        let shown = named.into_iter().filter_map(|(name, series)| {
            let load = series.load()?;
            Some(Shown { name, series, load })
        });
        shown.collect()
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let shown = self.shown();
        let Some(first) = shown.first() else { return Ok(()) };
        let help = "Keys that are ready and wait for a worker, by level: the requested priority, \
                    or a higher one after aging.";
        let mut depth =
            encoder.encode_descriptor("workqueue_depth", help, None, MetricType::Gauge)?;
        for queue in &shown {
            let [name, controller] = queue.labels();
            for (priority, ready) in PRIORITIES.into_iter().zip(queue.load.ready_by_priority) {
                let labels = [name, controller, ("priority", priority)];
                depth.encode_family(&labels)?.encode_gauge(&(ready as u64))?;
            }
        }
        for Family { name, help, unit, metric } in &FAMILIES {
            let kind = metric(first).metric_type();
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for queue in &shown {
                metric(queue).encode(family.encode_family(&queue.labels())?)?;
            }
        }
        Ok(())
    }
}

impl Shown {
    fn labels(&self) -> [(&'static str, &str); 2] {
        [("name", &self.name), ("controller", &self.name)]
    }
}

impl Series {
    fn new() -> Self {
        Self {
            adds: Counter::default(),
            retries: Counter::default(),
            queue_duration: Histogram::new(BUCKETS),
            work_duration: Histogram::new(BUCKETS),
            queues: Mutex::default(),
        }
    }

    /// The load of all queues of this name together; `None` if all of them are gone.
    fn load(&self) -> Option<Load> {
        let queues = self.live_queues().clone();
        queues.iter().filter_map(LoadHandle::load).reduce(add_up)
    }

    fn live_queues(&self) -> MutexGuard<'_, Vec<LoadHandle>> {
        let mut queues = self.queues.lock();
        queues.retain(|handle| !handle.is_gone());
        queues
    }
}

fn add_up(one: Load, other: Load) -> Load {
    Load {
        keys: one.keys + other.keys,
        ready: one.ready + other.ready,
        ready_by_priority: std::array::from_fn(|level| {
            one.ready_by_priority[level] + other.ready_by_priority[level]
        }),
        waiting: one.waiting + other.waiting,
        running: one.running + other.running,
        unfinished: one.unfinished + other.unfinished,
        longest_running: one.longest_running.max(other.longest_running),
        retry_debt: one.retry_debt.max(other.retry_debt),
    }
}

/// Every method is an atomic addition, or a histogram's lock around a few additions.
impl Observer for Series {
    fn added(&self, _depth: usize) {
        self.adds.inc();
    }

    fn started(&self, queued: Duration, _depth: usize) {
        self.queue_duration.observe(queued.as_secs_f64());
    }

    fn finished(&self, ran: Duration) {
        self.work_duration.observe(ran.as_secs_f64());
    }

    fn retried(&self) {
        self.retries.inc();
    }

    fn attached(&self, handle: LoadHandle) {
        self.live_queues().push(handle);
    }
}
