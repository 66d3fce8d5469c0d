//! The handlers and subscriptions of a cache: how they join and leave, and their resyncs.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::time::Instant;
use windlass_indexer::Object;

use super::Cache;
use crate::cache::backlog::Notice;
use crate::cache::listener::Listener;
use crate::error::Stopped;
use crate::lock::lock;
use crate::telemetry::status::HandlerStatus;

/// The task of a handler.
pub(crate) type Task = BoxFuture<'static, ()>;

/// A handler or subscription.
pub(super) struct Recipient {
    pub(super) listener: Arc<Listener>,
    /// When its next resync is due.
    pub(super) due: Option<Instant>,
    /// The task of a handler, until it is started.
    task: Option<Task>,
}

impl Cache {
    /// Replays the content of the store to a listener, and registers it.
    pub(crate) fn join(&self, listener: Arc<Listener>, task: Option<Task>) -> Result<(), Stopped> {
        let mut state = self.lock_if_usable().ok_or(Stopped)?;
        let snapshot = self.reader.snapshot().all();
        let replay = snapshot
            .iter()
            .map(|object| Notice::Added { object: Arc::clone(object), initial: true });
        listener.push(replay);
        if state.feeds_not_listed == 0 {
            listener.push_synced();
        }
        let due = listener.resync_after(Instant::now());
        state.recipients.push(Recipient { listener, due, task });
        Ok(())
    }

    /// Removes a listener. A task that was not started is dropped after the lock is released.
    pub(crate) fn forget(&self, listener: &Arc<Listener>) {
        let mut state = lock(&self.state);
        let mut recipients = state.recipients.iter();
        let place = recipients.position(|recipient| Arc::ptr_eq(&recipient.listener, listener));
        let recipient = place.map(|place| state.recipients.remove(place));
        drop(state);
        drop(recipient);
    }

    /// Takes the tasks of handlers that are not started yet.
    pub(crate) fn take_tasks(&self) -> Vec<Task> {
        let mut state = lock(&self.state);
        state.recipients.iter_mut().filter_map(|recipient| recipient.task.take()).collect()
    }

    /// Shows all objects again to handlers whose resync is due. Returns when the next one is due.
    pub(crate) fn resync(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock_if_usable()?;
        for recipient in &mut state.recipients {
            if recipient.due.is_some_and(|due| due <= now) {
                let all = self.reader.snapshot().all();
                let again = |object: &Arc<Object>| Notice::Updated {
                    old: Arc::clone(object),
                    new: Arc::clone(object),
                    merged: false,
                };
                recipient.listener.push(all.iter().map(again));
                recipient.due = recipient.listener.resync_after(now);
            }
        }
        state.recipients.iter().filter_map(|recipient| recipient.due).min()
    }

    /// The listeners that have a task of their own.
    pub(crate) fn handler_listeners(&self) -> Vec<Arc<Listener>> {
        let state = lock(&self.state);
        let listeners = state.recipients.iter().map(|recipient| &recipient.listener);
        listeners.filter(|listener| listener.is_handler).cloned().collect()
    }

    pub(crate) fn handlers(&self) -> Vec<HandlerStatus> {
        lock(&self.state).recipients.iter().map(|recipient| recipient.listener.status()).collect()
    }
}
