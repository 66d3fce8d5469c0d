//! A watch whose mapper sees every change, and is awaited.
//!
//! A handler of an informer must not wait, so the events come from a subscription, and the watch is
//! a [stream](crate::key_stream) of keys. One event is mapped at a time. Events that wait merge in
//! the subscription, so their number is bounded.
//!
//! The stream holds the event and the mapper's future. If the controller stops meanwhile, its next
//! run goes on with them, and no event is lost.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use tokio::time::sleep;
use windlass_indexer::ObjectKey;
use windlass_informer::{Event, Subscription};

use crate::bounds::ObjectType;
use crate::cause::Cause;
use crate::error::{Class, Error};
use crate::key_stream::Wake;
use crate::wiring::EventFilter;

/// How often an event is mapped that fails. The events after it wait meanwhile, half a minute at
/// most.
const ATTEMPTS_MAX: u32 = 6;

/// How long the first repetition waits. The next ones wait twice as long as the one before.
const BACKOFF: Duration = Duration::from_secs(1);

/// The keys that the events of a subscription lead to.
pub(crate) fn mapped<T, F, R, I>(
    events: Subscription<T>,
    filter: EventFilter<T>,
    map: F,
) -> impl Stream<Item = Wake> + Send
where
    T: ObjectType,
    F: FnOnce(Event<T>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<I, Error>> + Send,
    I: IntoIterator<Item = ObjectKey> + Send,
{
    let wakes = stream::unfold((events, filter, map), |(mut events, filter, map)| async move {
        let event = events.next().await?;
        let (mut keys, cause) = (Vec::new(), Cause::of(&filter.resource, &event));
        if filter.passes(&event) {
            keys = keys_of(event, &filter, &map).await;
        }
        let wakes = keys.into_iter().map(move |key| Wake::Key(key, cause.clone()));
        Some((stream::iter(wakes), (events, filter, map)))
    });
    wakes.flatten()
}

/// The keys that an event leads to; none if the mapper fails.
async fn keys_of<T, F, R, I>(event: Event<T>, filter: &EventFilter<T>, map: &F) -> Vec<ObjectKey>
where
    T: ObjectType,
    F: FnOnce(Event<T>) -> R + Clone,
    R: Future<Output = Result<I, Error>>,
    I: IntoIterator<Item = ObjectKey>,
{
    let (controller, resource) = (&*filter.controller, &filter.resource);
    let (mut attempt, mut backoff) = (1, BACKOFF);
    loop {
        let called = async {
            let keys = (map.clone())(event.clone()).await?;
            // Within the call: an iterator of the user's may panic, too.
            Ok::<Vec<ObjectKey>, Error>(keys.into_iter().collect())
        };
        let error = match AssertUnwindSafe(called).catch_unwind().await {
            Ok(Ok(keys)) => return keys,
            Ok(Err(error)) => error,
            Err(_) => {
                filter.report_mapper_panic(&event);
                return Vec::new();
            }
        };
        if attempt == ATTEMPTS_MAX || error.class() == Class::Terminal {
            tracing::error!(
                controller, %resource, object = %event.key(), attempt,
                "the mapper of a watch failed; what the event leads to is not reconciled: {error}"
            );
            return Vec::new();
        }
        tracing::warn!(
            controller, %resource, object = %event.key(), attempt, retry_in = ?backoff,
            "the mapper of a watch failed, and is retried: {error}"
        );
        sleep(backoff).await;
        attempt += 1;
        backoff *= 2;
    }
}
