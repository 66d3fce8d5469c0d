//! Runs the elector of a manager, and reports when the leadership begins and when it is lost.

use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::election::{ElectionEnd, Elector, Leadership};
use crate::error::ManagerError;
use crate::group::Group;
use crate::http::checks::{Checks, Finding, Probe};

/// What a replica does when it no longer leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLostLeadership {
    /// The manager ends with [`ManagerError::LostLeadership`], and so does the process. The
    /// default, as in client-go and controller-runtime: the process may hold state from before the
    /// new leader, and a restart discards it.
    #[default]
    End,
    /// The controllers and tasks that need leadership are stopped, and the replica contends for the
    /// Lease again. The caches stay warm. For reconcilers that keep no state of their own.
    Standby,
}

/// This replica in the election. After a loss it may contend again.
pub(crate) struct Candidacy {
    elector: Elector,
    on_lost: OnLostLeadership,
    leadership: watch::Receiver<Leadership>,
    /// The election under way.
    election: Group,
    /// How it ended. `None` if none is under way.
    ended: Option<oneshot::Receiver<ElectionEnd>>,
    is_leading: bool,
}

/// A change of the leadership.
pub(crate) enum LeadershipChange {
    /// This replica leads.
    Leads {
        /// Whether another one may have led since the caches of this one were filled.
        is_failover: bool,
    },
    /// This replica no longer leads.
    Lost(OnLostLeadership),
    /// The election panicked.
    Failed(ManagerError),
}

impl Candidacy {
    pub(crate) fn new(elector: Elector, on_lost: OnLostLeadership) -> Self {
        let leadership = elector.leadership();
        let election = Group::new();
        Self { elector, on_lost, leadership, election, ended: None, is_leading: false }
    }

    pub(crate) fn elector(&self) -> &Elector {
        &self.elector
    }

    /// Whether the last reported change was that this replica leads.
    pub(crate) fn is_leading(&self) -> bool {
        self.is_leading
    }

    /// Adds the readiness check. It fails on a standby whose requests for the Lease fail. With
    /// webhooks it only says so: the API server must be able to call this replica.
    pub(crate) fn add_check(&self, checks: &Checks, has_webhooks: bool) {
        let (leadership, trouble) = (self.elector.leadership(), self.elector.trouble());
        checks.add(Probe::Ready, "leader-election", move || {
            let (leadership, trouble) = (leadership.borrow(), trouble.borrow());
            std::future::ready(match &*trouble {
                Some(trouble) if !leadership.is_leading() && has_webhooks => {
                    Finding::Ok(Some(trouble.clone()))
                }
                Some(trouble) if !leadership.is_leading() => Finding::Failed(trouble.clone()),
                _ => Finding::Ok(Some(leadership.to_string())),
            })
        });
    }

    /// Contends for the Lease, and waits until this replica leads, or no longer leads. After
    /// [`Lost`](LeadershipChange::Lost), all leader-only work must have ended before this is called
    /// again.
    ///
    /// # Cancel safety
    /// Safe: the election goes on, and the next call continues to wait.
    pub(crate) async fn wait_for_change(&mut self) -> LeadershipChange {
        if self.ended.is_none() {
            self.start();
        }
        let ended = self.ended.as_mut().expect("an election must be under way");
        // Drops the guard that `wait_for` returns, because it holds a lock.
        let leads = async { drop(self.leadership.wait_for(Leadership::is_leading).await) };
        tokio::select! {
            biased;
            ended = ended => {
                (self.ended, self.is_leading) = (None, false);
                match ended {
                    Ok(ElectionEnd::Lost) => LeadershipChange::Lost(self.on_lost),
                    // The manager is stopping.
                    Ok(ElectionEnd::Stopped) => std::future::pending().await,
                    Err(_) => LeadershipChange::Failed(self.election.wait_for_failure().await),
                }
            }
            () = leads, if !self.is_leading => {
                self.is_leading = true;
                LeadershipChange::Leads { is_failover: self.elector.may_follow_another() }
            }
        }
    }

    fn start(&mut self) {
        let (elector, stop) = (self.elector.next_run(), self.election.shutdown().token().clone());
        let (sender, ended) = oneshot::channel();
        self.election.spawn("the leader election", async {
            // The receiver may be gone if the manager is stopping.
            let _ = sender.send(elector.run(stop).await);
            Ok(())
        });
        self.ended = Some(ended);
    }

    /// Waits until this replica no longer leads. Never returns if it does not lead.
    pub(crate) async fn wait_for_loss(&mut self) {
        match &mut self.ended {
            Some(ended) if self.is_leading => drop(ended.await),
            _ => std::future::pending().await,
        }
        (self.ended, self.is_leading) = (None, false);
    }

    /// Ends the election without releasing the Lease: standbys wait until it expires.
    pub(crate) fn abandon(&mut self) {
        self.election.abort();
    }

    /// Releases the Lease, if this replica holds it.
    pub(crate) async fn stop(&mut self) -> Vec<ManagerError> {
        self.election.stop(Duration::ZERO).await
    }
}
