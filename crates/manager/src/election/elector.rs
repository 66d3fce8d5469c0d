//! Sends the requests of an election, and publishes the leadership.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use windlass_informer::client::safe_message;

use super::contest::{Contest, Failure, Step};
use super::record::Record;
use super::request::{RequestFailure, bounded};
use super::timing::{InvalidTiming, Timing};
use crate::fence::Fence;

/// One replica in an election.
///
/// ```
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use tokio_util::sync::CancellationToken;
/// use windlass_manager::Elector;
///
/// let elector = Elector::builder(client, "shop", "website-operator").build()?;
/// let (mut leadership, stop) = (elector.leadership(), CancellationToken::new());
/// tokio::join!(elector.run(stop.clone()), async {
///     if leadership.wait_for(|state| state.is_leading()).await.is_ok() {
///         println!("this replica leads");
///     }
///     stop.cancel();
/// });
/// # Ok(())
/// # }
/// ```
pub struct Elector {
    leases: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    timing: Timing,
    clock: Clock,
    seed: u64,
    fence: Fence,
    leadership: watch::Sender<Leadership>,
    trouble: watch::Sender<Option<String>>,
    /// See [`Elector::may_follow_another`].
    may_follow_another: Arc<AtomicBool>,
}

/// How long a release may take, so that an unreachable server does not delay the end of a process.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Builds an [`Elector`].
#[must_use]
pub struct ElectorBuilder {
    leases: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    timing: Timing,
    clock: Clock,
    seed: Option<u64>,
}

/// The role of a replica in an election.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// It does not lead: it contends for the Lease, or its election has ended.
    Standby {
        /// The identity of the leader, as far as it is known.
        leader: Option<String>,
    },
    /// It leads.
    Leading,
}

/// How an election ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a replica that has lost the leadership must stop its leader-only work"]
pub enum ElectionEnd {
    /// It was stopped, and the Lease is released if this replica held it.
    Stopped,
    /// This replica no longer leads: it could not renew the Lease in time, or another replica holds
    /// it. Its leader-only work must stop: it may act on state from before the new leader.
    Lost,
}

/// The settings of an election are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidElection {
    /// The durations do not fit together.
    #[error(transparent)]
    Timing(#[from] InvalidTiming),
    /// A released Lease has no holder either, so every replica would hold it.
    #[error("the identity of a replica must not be empty: do not set it, and it will be unique")]
    NoIdentity,
}

impl Leadership {
    /// Whether the replica leads.
    pub fn is_leading(&self) -> bool {
        *self == Self::Leading
    }
}

impl fmt::Display for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leading => f.write_str("this replica leads"),
            Self::Standby { leader: Some(leader) } => write!(f, "standby, {leader} leads"),
            Self::Standby { leader: None } => f.write_str("standby, no leader is known"),
        }
    }
}

impl ElectorBuilder {
    /// The identity of this process in the Lease. It must be unique to the process: two processes
    /// with one identity would both lead. Default: the variable `POD_NAME` or `HOSTNAME`, and
    /// random digits, because a host name alone may belong to two processes.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = identity.into();
        self
    }

    /// The durations. Default: those of client-go.
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// The clock for the times in the Lease, which are only informative. Default: the system clock.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Seeds the jitter. Default: from the identity.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Builds the elector. It does nothing before it [runs](Elector::run).
    ///
    /// # Errors
    /// Returns an error if the identity is empty, or the durations do not fit together.
    pub fn build(self) -> Result<Elector, InvalidElection> {
        if self.identity.is_empty() {
            return Err(InvalidElection::NoIdentity);
        }
        let timing = self.timing.check()?;
        let from_identity = || {
            let bytes = self.identity.bytes();
            bytes.fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)))
        };
        Ok(Elector {
            seed: self.seed.unwrap_or_else(from_identity),
            leases: self.leases,
            namespace: self.namespace,
            name: self.name,
            identity: self.identity,
            timing,
            clock: self.clock,
            fence: Fence::new(timing.write_grace()),
            leadership: watch::Sender::new(Leadership::Standby { leader: None }),
            trouble: watch::Sender::default(),
            may_follow_another: Arc::default(),
        })
    }
}

impl Elector {
    /// An election over the Lease `name` in `namespace`.
    ///
    /// The client must not be fenced: a fence opens only when the Lease is held.
    pub fn builder(
        client: kube::Client,
        namespace: &str,
        name: impl Into<String>,
    ) -> ElectorBuilder {
        ElectorBuilder {
            leases: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.into(),
            identity: unique_identity(),
            timing: Timing::default(),
            clock: Arc::new(windlass_environment::now),
            seed: None,
        }
    }

    /// The identity of this process in the Lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The current leadership, and its changes.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    /// The fence for the clients of leader-only work. It is open while this replica leads.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The name of the Lease.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The Lease, as `namespace/name`.
    pub fn lease(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Why the Lease cannot be read or written, and what to do about it. `None` while it can.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.subscribe()
    }

    /// Whether another replica may have led while this one filled its caches, or later: this one
    /// has found a Lease, even a released or an expired one, or has lost the leadership.
    pub(crate) fn may_follow_another(&self) -> bool {
        self.may_follow_another.load(Ordering::Relaxed)
    }

    /// An elector of the same replica with the same fence, for its next run. After a lost
    /// leadership, all leader-only work must have ended first.
    pub(crate) fn next_run(&self) -> Self {
        Self {
            leases: self.leases.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            identity: self.identity.clone(),
            timing: self.timing,
            clock: Arc::clone(&self.clock),
            seed: self.seed.wrapping_add(1),
            fence: self.fence.clone(),
            leadership: self.leadership.clone(),
            trouble: self.trouble.clone(),
            may_follow_another: Arc::clone(&self.may_follow_another),
        }
    }

    /// Contends for the Lease, and renews it, until the leadership is lost or `stop` is cancelled.
    /// When it is stopped, it releases the Lease. Stop all leader-only work before that, because
    /// another replica may lead right afterwards.
    ///
    /// # Cancel safety
    /// If it is dropped, the fence closes and the replica no longer counts as the leader, but the
    /// Lease is not released: standbys wait until it expires.
    pub async fn run(self, stop: CancellationToken) -> ElectionEnd {
        let mut run = Run {
            contest: Contest::new(self.identity.clone(), self.timing, self.seed, Instant::now()),
            elector: self,
            is_writing: false,
            last_trouble: None,
            failing_since: None,
        };
        if stop.run_until_cancelled(run.contend()).await.is_some() {
            return ElectionEnd::Lost;
        }
        let was_leading = run.contest.leads_until().is_some();
        run.close();
        // A write that was under way may have made this replica the holder.
        if was_leading || run.is_writing {
            run.release().await;
        }
        ElectionEnd::Stopped
    }
}

/// An election under way. When it is dropped, the fence is closed and this replica is published as
/// a standby.
struct Run {
    elector: Elector,
    contest: Contest,
    /// Whether a write was sent that the server has neither confirmed nor rejected: it may have
    /// made this replica the holder.
    is_writing: bool,
    /// Since when the Lease cannot be read, or not written when it should be.
    failing_since: Option<Instant>,
    /// The last failure that was logged, so that it is not logged every two seconds.
    last_trouble: Option<String>,
}

impl Run {
    /// Runs until the leadership is lost.
    async fn contend(&mut self) {
        loop {
            let next = self.contest.next(Instant::now(), (self.elector.clock)());
            self.publish();
            match next {
                Step::Wait(until) => sleep_until(until).await,
                Step::Lost => {
                    self.elector.may_follow_another.store(true, Ordering::Relaxed);
                    return;
                }
                Step::Read => self.read().await,
                Step::Create(record) => self.create(&record).await,
                Step::Replace(lease, record) => self.replace(*lease, &record).await,
            }
        }
    }

    async fn read(&mut self) {
        let sent = Instant::now();
        let deadline = self.contest.request_deadline(sent);
        let leases = self.elector.leases.clone();
        match bounded(deadline, leases.get_opt(&self.elector.name)).await {
            Ok(lease) => {
                if lease.is_some() {
                    self.elector.may_follow_another.store(true, Ordering::Relaxed);
                }
                self.contest.read(lease, sent, Instant::now());
                // A replica that may write the Lease is in trouble until it can.
                if !self.contest.is_to_write() {
                    self.set_trouble(None);
                }
            }
            Err(error) => self.failed("read", &error, Failure::Other, sent),
        }
    }

    async fn create(&mut self, record: &Record) {
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.elector.name.clone());
        record.write_to(&mut lease);
        let (sent, params) = (Instant::now(), PostParams::default());
        let (deadline, leases) = (self.contest.request_deadline(sent), self.elector.leases.clone());
        self.is_writing = true;
        match bounded(deadline, leases.create(&params, &lease)).await {
            Ok(lease) => self.wrote(lease, sent),
            Err(error) => {
                // Not 404, which means that there is no such namespace.
                let failure = error.failure_if(|code| code == 409);
                self.failed("create", &error, failure, sent);
            }
        }
    }

    async fn replace(&mut self, mut lease: Lease, record: &Record) {
        record.write_to(&mut lease);
        let (sent, params) = (Instant::now(), PostParams::default());
        let (deadline, leases) = (self.contest.request_deadline(sent), self.elector.leases.clone());
        self.is_writing = true;
        match bounded(deadline, leases.replace(&self.elector.name, &params, &lease)).await {
            Ok(lease) => self.wrote(lease, sent),
            Err(error) => {
                let failure = error.failure_if(|code| matches!(code, 404 | 409));
                self.failed("update", &error, failure, sent);
            }
        }
    }

    fn wrote(&mut self, lease: Lease, sent: Instant) {
        self.is_writing = false;
        self.set_trouble(None);
        self.contest.wrote(lease, sent, Instant::now());
    }

    fn failed(&mut self, verb: &str, error: &RequestFailure, failure: Failure, sent: Instant) {
        let is_write = verb != "read";
        self.is_writing &= !(is_write && error.is_rejection());
        self.contest.failed(failure, sent, Instant::now());
        let trouble = format!("{error}{}", error.advice(&self.elector.namespace));
        if failure != Failure::Conflict {
            // A single failure does not make a standby unready. A refusal does.
            let since = *self.failing_since.get_or_insert(sent);
            let has_lasted = since.elapsed() >= self.elector.timing.renew_deadline;
            if has_lasted || error.is_refusal() {
                self.set_trouble(Some(trouble.clone()));
            }
        }
        let (lease, is_leading) = (&self.elector.name, self.contest.leads_until().is_some());
        if failure == Failure::Conflict {
            tracing::debug!(lease, is_leading, "the Lease changed before it could be written");
        } else if self.last_trouble.as_ref() == Some(&trouble) {
            tracing::debug!(lease, is_leading, error = trouble, "cannot {verb} the Lease");
        } else {
            tracing::warn!(
                lease,
                is_leading,
                error = trouble,
                "cannot {verb} the Lease; trying again"
            );
            self.last_trouble = Some(trouble);
        }
    }

    fn set_trouble(&mut self, trouble: Option<String>) {
        if trouble.is_none() {
            (self.failing_since, self.last_trouble) = (None, None);
        }
        self.elector.trouble.send_if_modified(|known| {
            let is_new = *known != trouble;
            *known = trouble;
            is_new
        });
    }

    /// Releases the Lease, so that a standby need not wait until it expires.
    async fn release(&self) {
        let Elector { leases, name, timing, clock, .. } = &self.elector;
        let release = async {
            let Some(mut lease) = leases.get_opt(name).await? else { return Ok(false) };
            let Some(record) = self.contest.release(&lease, clock()) else { return Ok(false) };
            record.write_to(&mut lease);
            leases.replace(name, &PostParams::default(), &lease).await.map(|_| true)
        };
        let released = timeout(timing.request_timeout().min(RELEASE_TIMEOUT), release).await;
        let error = match released {
            Ok(Ok(true)) => return tracing::info!(lease = name, "released the Lease"),
            Ok(Ok(false)) => return,
            Ok(Err(error)) => safe_message(&error),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::warn!(
            lease = name,
            error,
            "cannot release the Lease: a standby takes over when it has expired"
        );
    }

    /// Opens or closes the fence, and publishes the leadership.
    fn publish(&self) {
        let Elector { name: lease, identity, fence, leadership, .. } = &self.elector;
        fence.open_until(self.contest.leads_until());
        let state = match (self.contest.leads_until(), self.contest.holder()) {
            (Some(_), _) => Leadership::Leading,
            (None, holder) => Leadership::Standby {
                leader: holder.filter(|holder| holder != identity).map(str::to_owned),
            },
        };
        leadership.send_if_modified(|known| {
            if *known == state {
                return false;
            }
            match (&*known, &state) {
                (_, Leadership::Leading) => tracing::info!(lease, identity, "this replica leads"),
                (Leadership::Leading, Leadership::Standby { leader }) => {
                    tracing::warn!(lease, identity, leader, "this replica no longer leads");
                }
                (_, Leadership::Standby { leader: Some(leader) }) => {
                    tracing::info!(lease, identity, leader, "another replica leads");
                }
                (_, Leadership::Standby { leader: None }) => {
                    tracing::info!(lease, identity, "nobody leads");
                }
            }
            *known = state;
            true
        });
    }

    /// Closes the fence, and ends the leadership.
    fn close(&self) {
        self.elector.fence.open_until(None);
        self.elector.leadership.send_if_modified(|known| {
            let was_leading = known.is_leading();
            if was_leading {
                *known = Leadership::Standby { leader: None };
            }
            was_leading
        });
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.close();
    }
}

/// The name of the pod or host, and 64 random bits.
fn unique_identity() -> String {
    let host = ["POD_NAME", "HOSTNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let host = host.filter(|host| !host.is_empty()).unwrap_or_else(|| "replica".to_owned());
    format!("{host}_{:016x}", windlass_environment::random())
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector")
            .field("lease", &self.name)
            .field("identity", &self.identity)
            .field("leadership", &*self.leadership.borrow())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ElectorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElectorBuilder")
            .field("lease", &self.name)
            .field("identity", &self.identity)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}
