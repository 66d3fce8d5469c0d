//! The state that all handles and connections of one server share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_nesting::SHALLOW_MAX;

use crate::accounts::Signer;
use crate::auth::Auth;
use crate::clock::WallClock;
use crate::fault::Faults;
use crate::state::State;
use crate::webhook::backend::Webhooks;

/// One server.
///
/// The lock of the state is held while one request is handled, and never across an await. A panic
/// under the lock is a bug; the next request continues with the committed state, which is
/// consistent, because every commit is one assignment.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Whether an object may exist that needs a large stack.
    has_deep: AtomicBool,
    pub(crate) auth: Auth,
    /// Signs the tokens of service accounts, and checks their signatures without the lock.
    pub(crate) signer: Signer,
    pub(crate) faults: Faults,
    /// The registry of webhooks.
    pub(crate) webhooks: Webhooks,
    /// The clock from which tables compute ages.
    pub(crate) clock: WallClock,
}

impl Shared {
    pub(crate) fn new(state: State, auth: Auth, signer: Signer, faults: Faults) -> Self {
        let clock = state.clock.clone();
        let webhooks = Webhooks::default();
        let has_deep = AtomicBool::new(false);
        Self { state: Mutex::new(state), has_deep, auth, signer, faults, webhooks, clock }
    }

    /// Returns whether requests and bodies have to be handled on a large stack.
    ///
    /// This is true from the first deeply nested body on, and never reset: any later request may
    /// touch such an object, for instance through garbage collection.
    pub(crate) fn has_deep(&self) -> bool {
        self.has_deep.load(Ordering::Acquire)
    }

    /// Notes that a body of this depth may be stored.
    pub(crate) fn note_depth(&self, depth: usize) {
        if depth > SHALLOW_MAX {
            self.has_deep.store(true, Ordering::Release);
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
