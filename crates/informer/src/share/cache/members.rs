//! The handlers and subscriptions of a cache: how they join and leave, and their resyncs.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::time::Instant;
use windlass_indexer::Object;

use super::Cache;
use crate::error::Stopped;
use crate::share::backlog::Notice;
use crate::share::listener::{HandlerStatus, Listener};
use crate::share::lock::lock;

/// The task of a handler.
pub(crate) type Task = BoxFuture<'static, ()>;

/// A handler or subscription.
pub(super) struct Member {
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
        listener.push(replay.chain((state.feeds_not_listed == 0).then_some(Notice::Synced)));
        let due = listener.resync_after(Instant::now());
        state.members.push(Member { listener, due, task });
        Ok(())
    }

    /// Removes a listener. A task that was not started is dropped after the lock is released.
    pub(crate) fn forget(&self, listener: &Arc<Listener>) {
        let mut state = lock(&self.state);
        let mut members = state.members.iter();
        let place = members.position(|member| Arc::ptr_eq(&member.listener, listener));
        let member = place.map(|place| state.members.remove(place));
        drop(state);
        drop(member);
    }

    /// Takes the tasks of handlers that are not started yet.
    pub(crate) fn take_tasks(&self) -> Vec<Task> {
        let mut state = lock(&self.state);
        state.members.iter_mut().filter_map(|member| member.task.take()).collect()
    }

    /// Shows all objects again to handlers whose resync is due. Returns when the next one is due.
    pub(crate) fn resync(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock_if_usable()?;
        for member in &mut state.members {
            if member.due.is_some_and(|due| due <= now) {
                let all = self.reader.snapshot().all();
                let again = |object: &Arc<Object>| Notice::Updated {
                    old: Arc::clone(object),
                    new: Arc::clone(object),
                };
                member.listener.push(all.iter().map(again));
                member.due = member.listener.resync_after(now);
            }
        }
        state.members.iter().filter_map(|member| member.due).min()
    }

    /// The listeners that have a task of their own.
    pub(crate) fn handler_listeners(&self) -> Vec<Arc<Listener>> {
        let state = lock(&self.state);
        let listeners = state.members.iter().map(|member| &member.listener);
        listeners.filter(|listener| listener.is_handler).cloned().collect()
    }

    pub(crate) fn handlers(&self) -> Vec<HandlerStatus> {
        lock(&self.state).members.iter().map(|member| member.listener.status()).collect()
    }
}
