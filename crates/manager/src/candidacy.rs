//! The manager's part in an election: it contends, and learns when it leads and when it lost.

use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::election::{Elector, Ended, Leadership};
use crate::error::ManagerError;
use crate::group::Group;
use crate::http::checks::{Checks, Finding, Probe};
use crate::manager::OnLostLeadership;

/// One replica that contends, and contends again if it may.
pub(crate) struct Candidacy {
    elector: Elector,
    on_lost: OnLostLeadership,
    leadership: watch::Receiver<Leadership>,
    /// The election under way.
    election: Group,
    /// How it ended. `None` if none is under way.
    ended: Option<oneshot::Receiver<Ended>>,
    is_leading: bool,
}

/// What has changed.
pub(crate) enum Change {
    /// This replica leads.
    Leads,
    /// It led, and does not any more.
    Lost(OnLostLeadership),
    /// The election panicked.
    Broke(ManagerError),
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

    /// Standbys are ready, as long as they can contend.
    pub(crate) fn add_check(&self, checks: &Checks) {
        let (leadership, trouble) = (self.elector.leadership(), self.elector.trouble());
        checks.add(Probe::Ready, "leader-election", move || {
            let (leadership, trouble) = (leadership.borrow(), trouble.borrow());
            std::future::ready(match &*trouble {
                Some(trouble) if !leadership.is_leading() => Finding::Failed(trouble.clone()),
                _ => Finding::Ok(Some(leadership.to_string())),
            })
        });
    }

    /// Contends, and waits until this replica leads, or no longer leads. After
    /// [`Lost`](Change::Lost), everything that the leader runs must have ended before this is
    /// called again.
    ///
    /// # Cancel safety
    /// Safe: the election goes on, and the next call continues to wait.
    pub(crate) async fn wait_for_change(&mut self) -> Change {
        if self.ended.is_none() {
            self.start();
        }
        let ended = self.ended.as_mut().expect("an election must be under way");
        // Without the guard that `wait_for` returns, which must not be held.
        let leads = async { drop(self.leadership.wait_for(Leadership::is_leading).await) };
        tokio::select! {
            biased;
            ended = ended => {
                (self.ended, self.is_leading) = (None, false);
                match ended {
                    Ok(Ended::Lost) => Change::Lost(self.on_lost),
                    // It was told to stop, and so was the manager.
                    Ok(Ended::Stopped) => std::future::pending().await,
                    Err(_) => Change::Broke(self.election.wait_for_failure().await),
                }
            }
            () = leads, if !self.is_leading => {
                self.is_leading = true;
                Change::Leads
            }
        }
    }

    fn start(&mut self) {
        let (elector, stop) = (self.elector.again(), self.election.shutdown().token().clone());
        let (sender, ended) = oneshot::channel();
        self.election.spawn("the leader election", async {
            // Nobody listens if the manager is stopping.
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

    /// Ends the election without a release: standbys wait until the Lease expires.
    pub(crate) fn abandon(&mut self) {
        self.election.abort();
    }

    /// Releases the Lease, if this replica holds it.
    pub(crate) async fn stop(&mut self) -> Vec<ManagerError> {
        self.election.stop(Duration::ZERO).await
    }
}
