//! What all handles and connections of one server share.

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
/// The lock of the state is taken for the length of one request's work and never across an await. A
/// request that panics under it is a bug; the next one goes on with what was committed, which is
/// whole: every commit is one assignment.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Whether there may be an object that takes a large stack to handle.
    has_deep: AtomicBool,
    pub(crate) auth: Auth,
    /// Signs the tokens of service accounts, and checks their signatures without the lock.
    pub(crate) signer: Signer,
    pub(crate) faults: Faults,
    /// Where webhooks are.
    pub(crate) webhooks: Webhooks,
    /// What the ages in tables are counted by.
    pub(crate) clock: WallClock,
}

impl Shared {
    pub(crate) fn new(state: State, auth: Auth, signer: Signer, faults: Faults) -> Self {
        let clock = state.clock.clone();
        let webhooks = Webhooks::default();
        let has_deep = AtomicBool::new(false);
        Self { state: Mutex::new(state), has_deep, auth, signer, faults, webhooks, clock }
    }

    /// Whether requests and bodies have to be handled on a large stack.
    ///
    /// This begins with the first deeply nested body, and does not end: from then on, a request may
    /// meet such an object that is not about it, as garbage collection does.
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
