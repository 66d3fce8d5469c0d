//! The crate's lock, in one place so that tests can replace it.
//!
//! It is `parking_lot`'s, which is faster than std's where producers and workers meet, and has no
//! poisoning: a panic of the user's code must not disable the queue. In this crate's unit tests the
//! lock is shuttle's, so that a schedule explorer can interleave threads at each lock operation.
//! Hence a rule: a unit test that uses a whole queue runs under the explorer. Tests that need
//! tokio's paused clock live in `tests/`, where the crate is compiled with the real lock.

#[cfg(not(test))]
pub(crate) use parking_lot::{Mutex as Lock, MutexGuard};

#[cfg(test)]
pub(crate) use explored::{Lock, MutexGuard};

/// Lets the schedule explorer switch threads around calls into tokio, which it cannot see.
///
/// It takes a lock of its own. Shuttle's `yield_now` would also wake the calling task, and so hide
/// that nobody else wakes it.
pub(crate) fn yield_point() {
    #[cfg(test)]
    drop(Lock::new(()).lock());
}

#[cfg(test)]
mod explored {
    use std::sync::PoisonError;

    pub(crate) use shuttle::sync::MutexGuard;

    #[derive(Debug)]
    pub(crate) struct Lock<T>(shuttle::sync::Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
