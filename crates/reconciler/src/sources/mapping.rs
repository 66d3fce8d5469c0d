//! A watch whose mapper sees every change, and is awaited.
//!
//! A handler of an informer must not wait, so the events come from a subscription, and the watch is
//! a [stream](crate::sources::key_stream) of keys. One event is mapped at a time. Events that wait
//! merge in the subscription, so their number is bounded.
//!
//! The stream holds the event and the mapper's future. If the controller stops meanwhile, its next
//! run goes on with them, and no event is lost.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use tokio::time::sleep;
use windlass_indexer::{ObjectKey, ObjectType};
use windlass_informer::{Event, Subscription};

use crate::cause::Cause;
use crate::error::{Class, Error};
use crate::sources::filter::EventFilter;
use crate::sources::key_stream::StreamItem;

/// How often an event is mapped that fails. The events after it wait meanwhile, half a minute at
/// most.
const ATTEMPTS_MAX: u32 = 6;

/// How long the first repetition waits. The next ones wait twice as long as the one before.
const BACKOFF: Duration = Duration::from_secs(1);

/// A mapper of any type. It is called for each attempt.
pub(crate) type Mapper<T> =
    Box<dyn Fn(Event<T>) -> BoxFuture<'static, Result<Vec<ObjectKey>, Error>> + Send + Sync>;

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

/// The keys that the events of a subscription lead to.
pub(crate) fn mapped_items<T: ObjectType>(
    events: Subscription<T>,
    filter: EventFilter<T>,
    map: Mapper<T>,
) -> impl Stream<Item = StreamItem> + Send {
    let items = stream::unfold((events, filter, map), |(mut events, filter, map)| async move {
        let event = events.next().await?;
        let cause = Cause::of(&filter.resource, &event);
        let keys =
            if filter.passes(&event) { keys_of(event, &filter, &map).await } else { Vec::new() };
        let items = keys.into_iter().map(move |key| StreamItem::Key(key, cause.clone()));
        Some((stream::iter(items), (events, filter, map)))
    });
    items.flatten()
}

/// The keys that an event leads to; none if the mapper fails.
async fn keys_of<T: ObjectType>(
    event: Event<T>,
    filter: &EventFilter<T>,
    map: &Mapper<T>,
) -> Vec<ObjectKey> {
    let (controller, resource) = (&*filter.controller, &filter.resource);
    let (mut attempt, mut backoff) = (1, BACKOFF);
    loop {
        // Cloning the mapper is user code, too.
        let called = async { map(event.clone()).await };
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
