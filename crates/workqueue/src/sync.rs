//! The crate's locks and shared pointers, in one place so that they can be exchanged.
//!
//! In this crate's own unit tests they are shuttle's, which lets a schedule explorer interleave every
//! lock. Hence a rule: a unit test that touches a whole queue runs under the explorer, and tests that
//! need tokio's paused clock live in `tests/`, where the crate is compiled with the real locks.

#[cfg(test)]
use shuttle::sync as imp;
#[cfg(not(test))]
use std::sync as imp;

#[cfg(test)]
use imp::Mutex;
#[cfg(test)]
pub(crate) use imp::MutexGuard;
pub(crate) use imp::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(test))]
use spin::mutex::SpinMutex as Mutex;
#[cfg(not(test))]
pub(crate) use spin::mutex::SpinMutexGuard as MutexGuard;
pub(crate) use std::sync::Arc;

/// A mutex that spins, does not know poisoning, and does not share a cache line with its neighbours.
///
/// The critical sections are tens of nanoseconds long, so that sleeping on a lock does not pay. And a lock on which
/// nobody sleeps is left by a plain store: the system's is left by an exchange, which waits until all that was written
/// under the lock has come from the other core.
///
/// User code under the lock is kept out of changes, so that a lease can end while its thread panics: hashing, grouping
/// and limiters run before, a key is cloned before, observers are called after, and their panics caught. What is left
/// is a key type whose `Eq` panics (it loses the adds that came in the same batch), and keys or causes whose `Drop`
/// calls the queue (it waits for itself).
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.try_lock().unwrap_or_else(|| self.wait())
    }
}

#[cfg(not(test))]
impl<T> Lock<T> {
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        let mut backoff = Backoff::new();
        loop {
            backoff.pause();
            if let Some(guard) = self.try_lock() {
                return guard;
            }
        }
    }
}

#[cfg(test)]
impl<T> Lock<T> {
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    fn wait(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// How long to wait between two attempts at a contended lock.
#[cfg(not(test))]
struct Backoff {
    attempts: u32,
}

#[cfg(not(test))]
impl Backoff {
    /// Attempts after some pauses of the processor: a tenth of a millisecond in all.
    const SPINS: u32 = 10;

    /// Pauses before the first attempt; doubled each time up to the maximum.
    ///
    /// Long on purpose: about a microsecond. The holder then finishes several operations in a row, with
    /// everything in its cache, where a lock that changes hands every time would make each one fetch it all
    /// from the other core.
    const PAUSES: u32 = 32;

    /// The most pauses before an attempt.
    const PAUSES_MAX: u32 = 256;

    /// Attempts after letting another thread run, which may be the holder: it must have been preempted.
    const YIELDS: u32 = 10;

    /// The sleep before every further attempt, should the holder have less right to run than this thread.
    const SLEEP: std::time::Duration = std::time::Duration::from_micros(50);

    fn new() -> Self {
        Self { attempts: 0 }
    }

    fn pause(&mut self) {
        match self.attempts {
            attempts @ ..Self::SPINS => {
                for _ in 0..(Self::PAUSES << attempts).min(Self::PAUSES_MAX) {
                    std::hint::spin_loop();
                }
            }
            attempts if attempts < Self::SPINS + Self::YIELDS => std::thread::yield_now(),
            #[expect(
                clippy::disallowed_methods,
                reason = "the holder is a thread of the system, not a task"
            )]
            _ => std::thread::sleep(Self::SLEEP),
        }
        self.attempts = self.attempts.saturating_add(1);
    }
}
