//! `watches_changes`: calls an async mapper for every change of an object, with retries.
//!
//! A handler of an informer must not wait, so the events come from a subscription, and the watch is
//! a [stream](crate::sources::key_stream) of keys:
//!
//! ```text
//! Subscription ─event→ filter ─▶ Unmapped ─all events of a key→ mapper (16 at a time) ─▶ keys
//!                                    ▲                              │
//!                                    └──── an error, a panic, too slow
//! ```
//!
//! - A key is mapped once at a time. Events that arrive meanwhile merge, and are mapped after that.
//! - What fails waits and is mapped again, without end. It waits in [`Unmapped`] and not in a place
//!   of its own.
//! - At most half of the places are for repetitions, so what fails again and again holds up nothing
//!   new. A first call that hangs holds its place until the time limit. Half of those are for what
//!   took too long, so hundreds that hang do not hold up what fails at once.
//! - An update that fails is also mapped as an addition of its new version. If that works, the
//!   update is repeated for some minutes only, for what the old version led to.
//! - An event is taken from the subscription when a place is free. Until then it waits there.
//!
//! All of this is in the stream. If the controller stops, its next run goes on with it, and no
//! event is lost.
//!
//! A mapper of `watches` is called in a handler. What it panics on is added to [`Pending`], and its
//! stream calls it again.

pub(crate) mod status;

mod attempt;
mod unmapped;

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep_until};
use windlass_indexer::{ObjectKey, ObjectType};
use windlass_informer::{Event, Resource, Subscription};
use windlass_workqueue::MAX_DELAY;

use crate::controller_core::ControllerCore;
use crate::error::Error;
use crate::guard::PANIC_ADVICE;
use crate::sources::filter::EventFilter;
use crate::sources::key_stream::StreamItem;
use crate::sources::log_limit::LogLimit;
use crate::sources::mapping::attempt::{Attempt, Failure, map_all};
use crate::sources::mapping::status::MapperGauges;
use crate::sources::mapping::unmapped::{
    Change, DueKind, OLD_FAILURES_MAX, Retry, RetryPlaces, Unmapped,
};

/// How many keys are mapped at a time.
const PLACES: usize = 16;

/// How many of them may be repetitions. The others are kept for events that were not tried yet.
const RETRY_PLACES: usize = PLACES / 2;

/// How many of those may be of keys whose mapper took too long before.
const SLOW_RETRY_PLACES: usize = RETRY_PLACES / 2;

/// How long a mapper may take if the controller has no time limit for its runs: without one,
/// sixteen that hang would hold up all others for ever.
const TIMEOUT: Duration = Duration::from_mins(5);

/// How long the first repetition waits at most. Each next one waits up to twice as long.
const BACKOFF: Duration = Duration::from_secs(1);

/// The shortest wait, whatever an error asks for: time must pass in which others are taken.
const WAIT_MIN: Duration = Duration::from_millis(5);

/// The longest wait: what an event leads to runs at most so much later than it could.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// A mapper of any type. It is called for each attempt.
pub(crate) type Mapper<T> =
    Box<dyn Fn(Event<T>) -> BoxFuture<'static, Result<Vec<ObjectKey>, Error>> + Send + Sync>;

/// Events, and whether they count. Of those that do not, only deletions.
pub(crate) type Events<T> = Pin<Box<dyn Stream<Item = (Event<T>, bool)> + Send>>;

/// The events of a watch that are not mapped yet: for its stream, and for a handler that adds those
/// that it could not map.
pub(crate) struct Pending<T> {
    unmapped: Mutex<Unmapped<T>>,
    /// Tells the stream that the handler has added something.
    added: Notify,
}

/// The state of such a watch.
struct Mapping<T> {
    controller: Arc<str>,
    resource: Resource,
    events: Events<T>,
    /// Whether the informer has stopped. What it has sent is still mapped.
    has_ended: bool,
    map: Arc<Mapper<T>>,
    timeout: Duration,
    pending: Arc<Pending<T>>,
    random: Rng,
    running: FuturesUnordered<BoxFuture<'static, Attempt<T>>>,
    /// How many of them are repetitions, and how many of these are of keys whose mapper took too
    /// long.
    retrying: usize,
    slow_retrying: usize,
    /// What was mapped and is not enqueued yet.
    found: VecDeque<StreamItem>,
    gauges: MapperGauges,
    given_up_lines: LogLimit,
    retry_lines: LogLimit,
}

/// Erases the type of a mapper.
pub(crate) fn erase_mapper<T, F, R, I>(map: F) -> Mapper<T>
where
    T: ObjectType,
    F: FnOnce(Event<T>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<I, Error>> + Send + 'static,
    I: IntoIterator<Item = ObjectKey> + Send + 'static,
{
    Box::new(move |event| {
        let map = map.clone();
        // All of it in the future, where panics are caught: the iterator is the user's, too.
        Box::pin(async move { Ok(map(event).await?.into_iter().collect()) })
    })
}

/// The events of a subscription that count, and its deletions.
pub(crate) fn passing_events<T: ObjectType>(
    events: Subscription<T>,
    filter: EventFilter<T>,
) -> Events<T> {
    Box::pin(stream::unfold((events, filter), async |(mut events, filter)| {
        loop {
            let event = events.next().await?;
            let counts = filter.passes(&event);
            if counts || matches!(event, Event::Deleted { .. }) {
                return Some(((event, counts), (events, filter)));
            }
            // A backlog that never ends must not block the thread.
            consume_budget().await;
        }
    }))
}

impl ControllerCore {
    /// The keys that events lead to. A mapper that takes longer than the time limit for runs is
    /// cancelled, and called again.
    pub(crate) fn mapped_items<T: ObjectType>(
        &self,
        resource: &Resource,
        events: Events<T>,
        pending: Arc<Pending<T>>,
        map: Mapper<T>,
    ) -> impl Stream<Item = StreamItem> + Send + 'static {
        let mut seed = DefaultHasher::new();
        (&self.controller, resource.to_string()).hash(&mut seed);
        let mapping = Mapping {
            controller: Arc::clone(&self.controller),
            resource: resource.clone(),
            events,
            has_ended: false,
            map: Arc::new(map),
            timeout: self.timeout.unwrap_or(TIMEOUT),
            pending,
            random: Rng::with_seed(seed.finish()),
            running: FuturesUnordered::new(),
            retrying: 0,
            slow_retrying: 0,
            found: VecDeque::new(),
            gauges: MapperGauges::new(Arc::clone(&self.mappers)),
            given_up_lines: LogLimit::default(),
            retry_lines: LogLimit::default(),
        };
        stream::unfold(mapping, async |mut mapping| Some((mapping.next().await?, mapping)))
    }
}

impl<T> Pending<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { unmapped: Mutex::new(Unmapped::new()), added: Notify::new() })
    }

    /// Adds an event. One that does not count is added only if another one of its object waits,
    /// which it replaces: what waits of an object that is gone would not be bounded. Returns the
    /// event if there is no room for it.
    #[must_use = "it must be logged"]
    pub(crate) fn add(&self, event: Event<T>, counts: bool) -> Option<Event<T>> {
        let mut unmapped = self.unmapped.lock();
        if !counts && !unmapped.is_known(event.key()) {
            return None;
        }
        let dropped = unmapped.add(event, Instant::now());
        drop(unmapped);
        self.added.notify_one();
        dropped
    }
}

impl<T: ObjectType> Mapping<T> {
    /// The next key to enqueue; `None` if the informer has stopped, and everything is mapped.
    async fn next(&mut self) -> Option<StreamItem> {
        loop {
            if let Some(item) = self.found.pop_front() {
                return Some(item);
            }
            self.fill_places();
            let (waiting, retry_at) = {
                let unmapped = self.pending.unmapped.lock();
                (unmapped.waiting(), unmapped.next_retry(self.retry_places()))
            };
            self.gauges.set(self.running.len(), waiting);
            let has_place = self.running.len() < PLACES;
            if self.has_ended && self.running.is_empty() && retry_at.is_none() {
                return None;
            }
            tokio::select! {
                biased;
                Some(attempt) = self.running.next() => self.settle(attempt),
                event = self.events.next(), if has_place && !self.has_ended => match event {
                    Some((event, counts)) => {
                        let dropped = self.pending.add(event, counts);
                        self.report_dropped(dropped.as_slice());
                    }
                    None => self.has_ended = true,
                },
                () = self.pending.added.notified(), if has_place => {}
                () = sleep_until(retry_at.unwrap_or_else(Instant::now)),
                    if has_place && retry_at.is_some() => {}
            }
        }
    }

    fn retry_places(&self) -> RetryPlaces {
        RetryPlaces {
            has_any: self.retrying < RETRY_PLACES,
            has_slow: self.slow_retrying < SLOW_RETRY_PLACES,
        }
    }

    /// Maps what is due, as long as there are places.
    fn fill_places(&mut self) {
        while self.running.len() < PLACES {
            let places = self.retry_places();
            let due = self.pending.unmapped.lock().take_due(Instant::now(), places);
            let Some(due) = due else { return };
            self.retrying += usize::from(due.kind != DueKind::First);
            self.slow_retrying += usize::from(due.kind == DueKind::SlowRetry);
            let resource = self.resource.clone();
            let map = Arc::clone(&self.map);
            self.running.push(Box::pin(map_all(due, resource, map, self.timeout)));
        }
    }

    fn settle(&mut self, attempt: Attempt<T>) {
        self.retrying -= usize::from(attempt.kind != DueKind::First);
        self.slow_retrying -= usize::from(attempt.kind == DueKind::SlowRetry);
        let found = attempt.found.into_iter();
        self.found.extend(found.map(|(key, cause)| StreamItem::Key(key, cause)));
        let failures = attempt.failures.saturating_add(1);
        let (mut left, mut delay, mut is_slow) = (Vec::new(), None, false);
        for (change, failure) in attempt.failed {
            let wait = self.wait_after(&change, &failure, failures);
            self.report(&change, &failure, failures, wait);
            delay = delay.max(wait);
            is_slow |= matches!(failure, Failure::TimedOut);
            let is_undecodable = matches!(failure, Failure::Undecodable(_));
            // For what is of the past, no version comes that may decode.
            if wait.is_some() || is_undecodable && !change.is_past() {
                left.push(change);
            }
        }
        let now = Instant::now();
        let retry = delay.map(|delay| Retry { at: now + delay, is_slow });
        let dropped = self.pending.unmapped.lock().settle(&attempt.key, left, retry, now);
        self.report_dropped(&dropped);
    }

    /// How long an event waits after so many failures in a row; `None` if no retry helps.
    fn wait_after(
        &mut self,
        change: &Change<T>,
        failure: &Failure,
        failures: u32,
    ) -> Option<Duration> {
        if change.old_failures >= OLD_FAILURES_MAX {
            return None;
        }
        let asked = match failure {
            // Other events of the object must not wait that long.
            Failure::Error(..) if change.is_for_old() => None,
            Failure::Error(_, asked) => *asked,
            Failure::Panicked | Failure::TimedOut | Failure::UndecodableBefore(_) => None,
            Failure::Undecodable(_) | Failure::Terminal(_) => return None,
        };
        let longest = BACKOFF.saturating_mul(1 << (failures - 1).min(16)).min(BACKOFF_MAX);
        // Random, so that objects that failed together do not come back together.
        let wait = longest.mul_f64(0.5 + self.random.f64() / 2.0);
        let asked = asked.map(|asked| asked.after(failures - 1).clamp(WAIT_MIN, MAX_DELAY));
        Some(asked.unwrap_or(wait))
    }

    /// Counts a failure, and logs it if there are not too many: each that is final, and the first,
    /// second, fourth, … of the others.
    fn report(&self, change: &Change<T>, failure: &Failure, attempt: u32, wait: Option<Duration>) {
        let (controller, resource) = (&*self.controller, &self.resource);
        let object = change.event.key();
        let counts = &self.gauges.counts;
        let what = match failure {
            Failure::Error(error, _)
            | Failure::UndecodableBefore(error)
            | Failure::Undecodable(error)
            | Failure::Terminal(error) => {
                count(&counts.failed);
                format!("failed: {error}")
            }
            Failure::Panicked => {
                count(&counts.panicked);
                format!("panicked; {PANIC_ADVICE}")
            }
            Failure::TimedOut => {
                count(&counts.timed_out);
                format!("took longer than {:?}, and was cancelled", self.timeout)
            }
        };
        if wait.is_some() {
            let is_shown = attempt.is_power_of_two();
            if let Some(line) = is_shown.then(|| self.retry_lines.line()).flatten() {
                tracing::warn!(
                    controller, %resource, %object, attempt, left_out = line.left_out,
                    retry_in = wait.map(tracing::field::debug),
                    "the mapper of a watch is called again: it {what}"
                );
            }
            return;
        }
        count(&counts.given_up);
        let consequence = match failure {
            Failure::Undecodable(_) => "the event leads to no run before the object changes",
            _ if change.is_for_old() => "what only the old version led to is not reconciled",
            _ => "what the event leads to is not reconciled",
        };
        if let Some(line) = self.given_up_lines.line() {
            tracing::error!(
                controller, %resource, %object, attempt, left_out = line.left_out,
                "{consequence}: the mapper of a watch {what}"
            );
        }
    }

    fn report_dropped(&self, events: &[Event<T>]) {
        for event in events {
            count(&self.gauges.counts.given_up);
            let Some(line) = self.given_up_lines.line() else { continue };
            tracing::error!(
                controller = &*self.controller, resource = %self.resource, object = %event.key(),
                left_out = line.left_out,
                "too many deletions and old versions wait for the mapper of a watch, which fails; \
                 what this one leads to is not reconciled"
            );
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
