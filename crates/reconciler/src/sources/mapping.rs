//! A watch whose mapper sees every change, and is awaited; and the events on which another mapper
//! has panicked.
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
//!   of its own, and at most half of the places are for repetitions. So no key waits for another
//!   one that fails or hangs.
//! - An event is taken from the subscription when a place is free. Until then it waits there.
//!
//! All of this is in the stream. If the controller stops, its next run goes on with it, and no event
//! is lost.

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
use crate::sources::mapping::attempt::{Attempt, Failure, map_all};
use crate::sources::mapping::status::MapperGauges;
use crate::sources::mapping::unmapped::Unmapped;

/// How many keys are mapped at a time.
const PLACES: usize = 16;

/// How many of them may be repetitions. The others are kept for events that were not tried yet.
const RETRY_PLACES: usize = PLACES / 2;

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

/// The state of such a watch.
struct Mapping<T> {
    controller: Arc<str>,
    resource: Resource,
    events: Events<T>,
    /// Whether the informer has stopped. What it has sent is still mapped.
    has_ended: bool,
    map: Arc<Mapper<T>>,
    timeout: Duration,
    unmapped: Unmapped<T>,
    random: Rng,
    running: FuturesUnordered<BoxFuture<'static, Attempt<T>>>,
    /// How many of them are repetitions.
    retrying: usize,
    /// What was mapped and is not enqueued yet.
    found: VecDeque<StreamItem>,
    gauges: MapperGauges,
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
            unmapped: Unmapped::new(),
            random: Rng::with_seed(seed.finish()),
            running: FuturesUnordered::new(),
            retrying: 0,
            found: VecDeque::new(),
            gauges: MapperGauges::new(Arc::clone(&self.mappers)),
        };
        stream::unfold(mapping, async |mut mapping| Some((mapping.next().await?, mapping)))
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
            self.gauges.set(self.running.len(), self.unmapped.waiting());
            let retry_at = self.unmapped.next_retry().filter(|_| self.retrying < RETRY_PLACES);
            let has_place = self.running.len() < PLACES;
            if self.has_ended && self.running.is_empty() && retry_at.is_none() {
                return None;
            }
            tokio::select! {
                biased;
                Some(attempt) = self.running.next() => self.settle(attempt),
                event = self.events.next(), if has_place && !self.has_ended => match event {
                    Some((event, counts)) => self.take(event, counts),
                    None => self.has_ended = true,
                },
                () = sleep_until(retry_at.unwrap_or_else(Instant::now)),
                    if has_place && retry_at.is_some() => {}
            }
        }
    }

    fn take(&mut self, event: Event<T>, counts: bool) {
        // What waits of an object that is gone would never be replaced, and not be bounded.
        if !counts && !self.unmapped.is_known(event.key()) {
            return;
        }
        if let Some(dropped) = self.unmapped.add(event) {
            self.report_dropped(&dropped);
        }
    }

    /// Maps what is due, as long as there are places.
    fn fill_places(&mut self) {
        while self.running.len() < PLACES {
            let may_retry = self.retrying < RETRY_PLACES;
            let Some(due) = self.unmapped.take_due(Instant::now(), may_retry) else { return };
            self.retrying += usize::from(due.is_retry);
            let resource = self.resource.clone();
            let map = Arc::clone(&self.map);
            self.running.push(Box::pin(map_all(due, resource, map, self.timeout)));
        }
    }

    fn settle(&mut self, attempt: Attempt<T>) {
        self.retrying -= usize::from(attempt.is_retry);
        let found = attempt.found.into_iter();
        self.found.extend(found.map(|(key, cause)| StreamItem::Key(key, cause)));
        let failures = attempt.failures.saturating_add(1);
        let (mut left, mut delay) = (Vec::new(), None);
        for (change, failure) in attempt.failed {
            let wait = self.wait_after(&failure, failures);
            self.report(&change.event, &failure, failures, wait);
            delay = delay.max(wait);
            let is_undecodable = matches!(failure, Failure::Undecodable(_));
            // After a deletion no version comes that may decode.
            if wait.is_some() || is_undecodable && !change.is_deletion() {
                left.push(change);
            }
        }
        let retry_at = delay.map(|delay| Instant::now() + delay);
        for dropped in self.unmapped.settle(&attempt.key, left, retry_at) {
            self.report_dropped(&dropped);
        }
    }

    /// How long an event waits after so many failures in a row; `None` if no retry helps.
    fn wait_after(&mut self, failure: &Failure, failures: u32) -> Option<Duration> {
        let asked = match failure {
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

    /// Counts a failure, and logs it: each one that is final, and the first, second, fourth, … of
    /// the others.
    fn report(&self, event: &Event<T>, failure: &Failure, attempt: u32, wait: Option<Duration>) {
        let (controller, resource, object) = (&*self.controller, &self.resource, event.key());
        let counts = &self.gauges.counts;
        let what = match failure {
            Failure::Error(error, _) | Failure::UndecodableBefore(error) => {
                count(&counts.failed);
                format!("failed, and is called again: {error}")
            }
            Failure::Panicked => {
                count(&counts.panicked);
                format!("panicked, and is called again; {PANIC_ADVICE}")
            }
            Failure::TimedOut => {
                count(&counts.timed_out);
                let limit = self.timeout;
                format!("took longer than {limit:?}, was cancelled, and is called again")
            }
            Failure::Undecodable(error) => {
                count(&counts.failed);
                format!("failed; the event leads to no run before the object changes: {error}")
            }
            Failure::Terminal(error) => {
                count(&counts.failed);
                format!("failed; what the event leads to is not reconciled: {error}")
            }
        };
        if wait.is_none() {
            count(&counts.given_up);
            tracing::error!(controller, %resource, %object, attempt, "the mapper of a watch {what}");
        } else if attempt.is_power_of_two() {
            tracing::warn!(
                controller, %resource, %object, attempt, retry_in = wait.map(tracing::field::debug),
                "the mapper of a watch {what}"
            );
        }
    }

    fn report_dropped(&self, event: &Event<T>) {
        count(&self.gauges.counts.given_up);
        tracing::error!(
            controller = &*self.controller, resource = %self.resource, object = %event.key(),
            "too many deletions wait for the mapper of a watch, which fails; what this one leads to \
             is not reconciled"
        );
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
