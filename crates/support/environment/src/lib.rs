//! What a process takes from the world beside its requests and tokio's clock: the time of day, and
//! randomness.
//!
//! A program has the machine's. A simulation runs several processes on one thread, each with an
//! [`Environment`] of its own, which it [enters](Environment::enter) before it lets the process
//! run. So the same seed gives the same times, identities and jitter.
//!
//! ```
//! use windlass_environment::{Environment, now, random};
//!
//! let environment = || Environment::new(|| "2030-01-01T00:00:00Z".parse().unwrap(), 7);
//! let draw = || {
//!     let environment = environment();
//!     let _entered = environment.enter();
//!     (now(), random())
//! };
//! assert_eq!(draw(), draw());
//! assert_ne!(random(), random());
//! ```

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::fmt;
use std::hash::BuildHasher as _;
use std::marker::PhantomData;
use std::rc::Rc;

use jiff::Timestamp;

thread_local! {
    static ENTERED: RefCell<Option<Environment>> = const { RefCell::new(None) };
}

/// A clock and a random source. Clones share both.
#[derive(Clone)]
pub struct Environment(Rc<Inner>);

struct Inner {
    clock: Box<dyn Fn() -> Timestamp>,
    state: RefCell<u64>,
}

/// Ends the environment of this thread when it is dropped, and brings back the one before.
#[must_use = "the environment ends when this is dropped"]
pub struct Entered {
    before: Option<Environment>,
    /// It belongs to its thread.
    _thread: PhantomData<Rc<()>>,
}

/// The time of day of this process.
pub fn now() -> Timestamp {
    let entered = ENTERED.with_borrow(Clone::clone);
    entered.map_or_else(Timestamp::now, |environment| (environment.0.clock)())
}

/// A number that differs between processes, and between calls.
pub fn random() -> u64 {
    match ENTERED.with_borrow(Clone::clone) {
        Some(environment) => environment.next(),
        None =>
        {
            #[expect(clippy::disallowed_types, reason = "real processes must differ")]
            std::hash::RandomState::new().hash_one(0)
        }
    }
}

impl Environment {
    /// An environment with this clock and this seed.
    pub fn new(clock: impl Fn() -> Timestamp + 'static, seed: u64) -> Self {
        Self(Rc::new(Inner { clock: Box::new(clock), state: RefCell::new(seed) }))
    }

    /// Makes it the environment of this thread.
    pub fn enter(&self) -> Entered {
        let before = ENTERED.replace(Some(self.clone()));
        Entered { before, _thread: PhantomData }
    }

    /// The next number of the sequence `SplitMix64`.
    fn next(&self) -> u64 {
        let mut state = self.0.state.borrow_mut();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        ENTERED.set(self.before.take());
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entered").finish_non_exhaustive()
    }
}
