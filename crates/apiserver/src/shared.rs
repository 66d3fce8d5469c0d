//! What all handles and connections of one server share.

use std::sync::{Mutex, MutexGuard, PoisonError};

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
        Self { state: Mutex::new(state), auth, signer, faults, webhooks, clock }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
