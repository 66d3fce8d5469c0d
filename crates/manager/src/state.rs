//! The state of a manager, as probes, reports and a [`View`] show it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;
use windlass_informer::{Resource, ServerClock, SharedInformerFactory};
use windlass_reconciler::AnyController;
use windlass_serve::LogLimit;

use crate::election::{Elector, Leadership};
use crate::fence::Fence;
use crate::http::checks::{Checks, Finding, Probe};

/// The phase of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Starting,
    Connecting,
    InstallingDefinitions,
    FillingCaches,
    Running,
    Stopping,
}

impl Phase {
    /// The phase in words, as in "the manager is …".
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Connecting => "connecting",
            Self::InstallingDefinitions => "installing definitions",
            Self::FillingCaches => "filling caches",
            Self::Running => "running",
            Self::Stopping => "stopping",
        }
    }
}

/// The state of a manager.
pub(crate) struct State {
    phase: Arc<Mutex<Phase>>,
    started: OnceLock<Instant>,
    server_clock: OnceLock<ServerClock>,
    factory: OnceLock<SharedInformerFactory>,
    controllers: OnceLock<Vec<ControllerState>>,
    election: OnceLock<ElectionState>,
    /// For lines that readers of the state can cause.
    log: LogLimit,
}

/// A controller of a manager.
pub(crate) struct ControllerState {
    pub(crate) controller: Arc<dyn AnyController>,
    pub(crate) needs_leadership: bool,
}

impl ControllerState {
    /// What the controller reconciles: its first source.
    pub(crate) fn reconciled(&self) -> Option<Resource> {
        self.controller.caches().first().map(|cache| cache.resource().clone())
    }
}

/// The election of a manager.
pub(crate) struct ElectionState {
    pub(crate) lease: String,
    pub(crate) identity: String,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) fence: Fence,
}

/// A view of a running manager. See [`Manager::view`](crate::Manager::view).
#[derive(Clone)]
pub struct View {
    state: Arc<State>,
}

impl View {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self { state }
    }

    /// The controllers; empty before they are built.
    pub fn controllers(&self) -> Vec<Arc<dyn AnyController>> {
        let controllers = self.state.controllers().iter();
        controllers.map(|shown| Arc::clone(&shown.controller)).collect()
    }

    /// Why not all controllers are active: the manager is starting or stopping, or this replica
    /// does not lead. `None` if all of them are active.
    pub fn obstacle(&self) -> Option<String> {
        let phase = self.state.phase();
        if phase != Phase::Running {
            return Some(format!("the manager is {}", phase.as_str()));
        }
        let election = self.state.election()?;
        let is_standby = !election.leadership.borrow().is_leading();
        let waits = self.state.controllers().iter().any(|shown| shown.needs_leadership);
        (is_standby && waits)
            .then(|| format!("{} does not hold the Lease {}", election.identity, election.lease))
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("phase", &self.state.phase()).finish_non_exhaustive()
    }
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            phase: Arc::new(Mutex::new(Phase::Starting)),
            started: OnceLock::new(),
            server_clock: OnceLock::new(),
            factory: OnceLock::new(),
            controllers: OnceLock::new(),
            election: OnceLock::new(),
            log: LogLimit::new(),
        }
    }

    pub(crate) fn log(&self) -> &LogLimit {
        &self.log
    }

    /// Called when the manager starts. Adds the readiness check `manager`, which passes while the
    /// manager runs, and the liveness check `ping`.
    ///
    /// With webhooks, it passes while the caches are filled, too: the API server may have to call
    /// this replica to convert what the caches list, and a Service only routes to ready replicas.
    ///
    /// The check says if this machine's clock is wrong, and passes all the same: nothing that
    /// others rely on is decided by that clock, and the other replicas may be on the same machine.
    pub(crate) fn start(&self, checks: &Checks, has_webhooks: bool, clock: ServerClock) {
        let _ = self.started.set(Instant::now());
        let _ = self.server_clock.set(clock.clone());
        let shown = Arc::clone(&self.phase);
        checks.add(Probe::Ready, "manager", move || {
            let phase = *lock(&shown);
            std::future::ready(match phase {
                Phase::Running => Finding::Ok(clock.warning()),
                Phase::Connecting => Finding::Failed("waiting for the API server".to_owned()),
                Phase::FillingCaches if has_webhooks => Finding::Ok(Some(phase.as_str().into())),
                _ => Finding::Failed(phase.as_str().to_owned()),
            })
        });
        checks.add(Probe::Live, "ping", || std::future::ready(Finding::Ok(None)));
    }

    /// The API server's clock, as far as it is known; `None` before the manager has started.
    pub(crate) fn server_clock(&self) -> Option<&ServerClock> {
        self.server_clock.get()
    }

    /// When the manager started; `None` if it has not.
    pub(crate) fn started(&self) -> Option<Instant> {
        self.started.get().copied()
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        tracing::debug!("the manager is {}", phase.as_str());
        *lock(&self.phase) = phase;
    }

    pub(crate) fn phase(&self) -> Phase {
        *lock(&self.phase)
    }

    /// Called once, before the controllers are built.
    pub(crate) fn set_factory(&self, factory: &SharedInformerFactory) {
        let _ = self.factory.set(factory.clone());
    }

    /// `None` before the manager has a client.
    pub(crate) fn factory(&self) -> Option<&SharedInformerFactory> {
        self.factory.get()
    }

    /// Called once, when the controllers are built.
    pub(crate) fn set_controllers(&self, controllers: impl IntoIterator<Item = ControllerState>) {
        let _ = self.controllers.set(controllers.into_iter().collect());
    }

    /// Empty before they are built.
    pub(crate) fn controllers(&self) -> &[ControllerState] {
        self.controllers.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// Called once, if there is an election.
    pub(crate) fn set_election(&self, elector: &Elector) {
        let (lease, identity) = (elector.lease(), elector.identity().to_owned());
        let (leadership, fence) = (elector.leadership(), elector.fence().clone());
        let _ = self.election.set(ElectionState { lease, identity, leadership, fence });
    }

    pub(crate) fn election(&self) -> Option<&ElectionState> {
        self.election.get()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
