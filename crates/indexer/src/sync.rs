//! The lock of the store.
//!
//! In this crate's unit tests it is shuttle's lock, with which a schedule explorer interleaves
//! readers and the writer. Hence a rule: a unit test that uses a whole store runs under the
//! explorer, in `explore.rs`. The other tests are in `tests/`.

use std::sync::PoisonError;

#[cfg(not(test))]
use std::sync as imp;

#[cfg(test)]
use shuttle::sync as imp;

pub(crate) use imp::{RwLockReadGuard, RwLockWriteGuard};

/// A read-write lock that ignores poisoning. No user code runs while it is held.
#[derive(Debug)]
pub(crate) struct Lock<T>(imp::RwLock<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the schedule explorer switch threads here. It cannot see inside the map, which has locks of
/// its own.
///
/// It takes a lock of its own. Shuttle's `yield_now` would also wake the calling task, and give its
/// thread the lowest priority, which leaves out schedules.
pub(crate) fn switch_point() {
    #[cfg(test)]
    drop(Lock::new(()).read());
}
