//! One attempt to map the events of a key. The mapper is user code, and so are its clone, its error
//! and its iterator: any of them may panic.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::timeout;
use windlass_indexer::{Cached, DecodeError, ObjectKey};
use windlass_informer::client::error_chain;
use windlass_informer::{Event, Resource};

use crate::cause::Cause;
use crate::error::{Class, Delay, Error};
use crate::guard::caught;
use crate::sources::mapping::Mapper;
use crate::sources::mapping::unmapped::{Change, Due, DueKind};

/// How an attempt ended.
pub(super) struct Attempt<T> {
    pub(super) key: ObjectKey,
    /// How often the key had failed in a row before.
    pub(super) failures: u32,
    pub(super) kind: DueKind,
    /// The keys that the events lead to.
    pub(super) found: Vec<(ObjectKey, Cause)>,
    /// The events that were not mapped, in order.
    pub(super) failed: Vec<(Change<T>, Failure)>,
}

/// Why an event was not mapped.
pub(super) enum Failure {
    /// The mapper failed. The error may have asked for a delay.
    Error(String, Option<Delay>),
    Panicked,
    TimedOut,
    /// This version of the object does not decode, so no retry helps.
    Undecodable(String),
    /// The version before does not decode.
    UndecodableBefore(String),
    /// The mapper said that no retry helps.
    Terminal(String),
}

/// Maps the events of a key, one after the other. One that fails does not keep the next one from
/// being mapped.
pub(super) async fn map_all<T: Send + Sync + 'static>(
    due: Due<T>,
    resource: Resource,
    map: std::sync::Arc<Mapper<T>>,
    limit: Duration,
) -> Attempt<T> {
    let Due { key, changes, failures, kind } = due;
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for mut change in changes {
        let (mut keys, failure) = map_one(&mut change, &map, limit).await;
        keys.sort_unstable();
        keys.dedup();
        let cause = Cause::of(&resource, &change.event);
        found.extend(keys.into_iter().map(|key| (key, cause.clone())));
        failed.extend(failure.map(|failure| (change, failure)));
    }
    Attempt { key, failures, kind, found, failed }
}

/// The keys that a change leads to, and why it has to be mapped again. For an update, there may be
/// two calls, each with the time limit.
async fn map_one<T: Send + Sync + 'static>(
    change: &mut Change<T>,
    map: &Mapper<T>,
    limit: Duration,
) -> (Vec<ObjectKey>, Option<Failure>) {
    let result = call(&change.event, map, limit).await;
    let Event::Updated { new, merged, .. } = &change.event else { return settled(result) };
    let is_final = matches!(result, Err(Failure::Undecodable(_)));
    let is_mapped = result.is_ok() && !merged;
    let is_for_old = change.is_for_old();
    change.old_failures += u32::from(is_for_old);
    if is_for_old || is_final || is_mapped {
        return settled(result);
    }
    let added = Event::Added { object: new.clone(), initial: false };
    let (new_keys, failure) = settled(call(&added, map, limit).await);
    match (result, failure) {
        // A run may have seen a version in between. A mapper that compares would not know.
        (Ok(keys), failure) => ([keys, new_keys].concat(), failure),
        // It never will decode, and must not hide what came after it.
        (Err(Failure::UndecodableBefore(_)), failure) => (new_keys, failure),
        // Nothing tells which of the versions the first error was about. The second one decides.
        (Err(Failure::Terminal(_)), Some(failure)) => (Vec::new(), Some(failure)),
        // The old version may fail for ever, and must not hide the new one, either. That no retry
        // helps the new one says nothing about what the old one led to.
        (Err(failure), None | Some(Failure::Terminal(_))) => {
            change.old_failures = 1;
            (new_keys, Some(failure))
        }
        (Err(_), Some(failure)) => (Vec::new(), Some(failure)),
    }
}

fn settled(result: Result<Vec<ObjectKey>, Failure>) -> (Vec<ObjectKey>, Option<Failure>) {
    match result {
        Ok(keys) => (keys, None),
        Err(failure) => (Vec::new(), Some(failure)),
    }
}

async fn call<T: Send + Sync + 'static>(
    event: &Event<T>,
    map: &Mapper<T>,
    limit: Duration,
) -> Result<Vec<ObjectKey>, Failure> {
    let called = async { map(event.clone()).await.map_err(|error| Failure::of(&error, event)) };
    let mut called = Box::pin(AssertUnwindSafe(called).catch_unwind());
    let ended = timeout(limit, &mut called).await;
    // Dropping it is user code, too.
    let _ = caught(|| drop(called));
    match ended {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Failure::Panicked),
        Err(_) => Err(Failure::TimedOut),
    }
}

impl Failure {
    fn of<T>(error: &Error, event: &Event<T>) -> Self {
        let message = error.to_string();
        if error.class() == Class::Terminal {
            return Self::Terminal(message);
        }
        let undecodable = error_chain(error.source()).find_map(|error| error.downcast_ref());
        // If another object does not decode, nothing tells the mapper when that is fixed.
        let is_of = |object: &Cached<T>| {
            let head = object.head();
            undecodable.is_some_and(|error: &DecodeError| {
                error.key() == head.key()
                    && error.uid() == head.uid()
                    && error.version() == head.resource_version()
            })
        };
        match event {
            event if is_of(event.object()) => Self::Undecodable(message),
            Event::Updated { old, .. } if is_of(old) => Self::UndecodableBefore(message),
            _ => Self::Error(message, error.delay()),
        }
    }
}
