//! The crate's lock, in one place so that tests can replace it.
//!
//! In this crate's unit tests the lock is shuttle's, so that a schedule explorer can interleave
//! threads at each lock operation. Hence a rule: a unit test that uses a whole queue runs under the
//! explorer. Tests that need tokio's paused clock live in `tests/`, where the crate is compiled
//! with std's lock.

#[cfg(not(test))]
mod imp {
    pub(crate) use std::sync::{Mutex, MutexGuard};

    pub(crate) fn yield_point() {}
}

#[cfg(test)]
mod imp {
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
    pub(crate) use shuttle::thread::yield_now as yield_point;
}

use std::sync::PoisonError;

pub(crate) use imp::MutexGuard;
/// Lets the schedule explorer switch threads around calls into tokio, which it cannot see.
pub(crate) use imp::yield_point;

/// A mutex that ignores poisoning: a panic of the user's code must not disable the queue.
#[derive(Debug)]
pub(crate) struct Lock<T>(imp::Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
