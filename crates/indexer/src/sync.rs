//! The lock of the store, in one place so that it can be exchanged.
//!
//! In this crate's own unit tests it is shuttle's, which lets a schedule explorer interleave readers and the
//! writer. Hence a rule: a unit test that touches a whole store runs under the explorer, in `explore.rs`;
//! the others live in `tests/`.

use std::sync::PoisonError;

#[cfg(not(test))]
use std::sync as imp;

#[cfg(test)]
use shuttle::sync as imp;

pub(crate) use imp::{RwLockReadGuard, RwLockWriteGuard};

/// A lock for many readers that ignores poisoning and does not share a cache line with its neighbours.
///
/// No user code runs under it, except that comparing and dropping what users gave us cannot be avoided; a
/// panic there leaves a structure that is whole.
#[derive(Debug)]
#[repr(align(128))]
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
