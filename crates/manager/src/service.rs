//! What a manager runs, once it has a client: controllers, tasks and the election.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{AnyController, install_crd};

use crate::candidacy::{Candidacy, LeadershipChange, OnLostLeadership};
use crate::connect::MakeClient;
use crate::controllers::{Parts, add_checks};
use crate::election::Elector;
use crate::error::{ManagerError, NoCluster};
use crate::group::Group;
use crate::manager::Manager;
use crate::metrics::Metrics;
use crate::own_requests::own_requests;
use crate::rights::{Review, Rights};
use crate::state::{ControllerState, Phase, State};
use crate::task::{Task, TaskContext};

/// How long informers may take to stop. They wait for nothing that takes long.
const INFORMERS_TIMEOUT: Duration = Duration::from_secs(5);

/// When to look again whether this replica leads, after a leader-only part failed while it was
/// unclear.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The controllers, the tasks and the election of a manager.
pub(crate) struct Service {
    factory: SharedInformerFactory,
    controllers: Vec<(Arc<dyn AnyController>, bool)>,
    tasks: Vec<Task>,
    every_replica: Group,
    leader: Group,
    /// `None` without leader election.
    election: Option<Candidacy>,
    client: kube::Client,
    /// The client of leader-only parts. With leader election, its writes are fenced.
    leader_client: kube::Client,
    /// Whether this account may do what the operator needs; `None` once it is asked.
    review: Option<Review>,
}

impl Service {
    /// Installs definitions, and builds everything.
    pub(crate) async fn build(
        manager: Manager,
        mut rights: Rights,
        make_client: &MakeClient,
        client: kube::Client,
        state: &Arc<State>,
        metrics: &Metrics,
    ) -> Result<Self, ManagerError> {
        let (options, stack) = (&manager.options, &manager.stack);
        let mut informers = manager.informers;
        let namespaces = options.namespaces();
        if !namespaces.is_empty() {
            informers = informers.namespaces(namespaces);
        }
        if manager.has_metrics {
            informers = informers.observer(metrics.informers().observer());
        }
        let own_client = own_requests(&client);
        let factory = SharedInformerFactory::builder(client.clone()).defaults(informers).build();
        state.set_factory(&factory);
        let election = match manager.lease.filter(|_| options.leader_elect) {
            None => None,
            Some(lease) => {
                let namespace = options.leader_election_namespace.clone();
                let namespace = namespace.filter(|namespace| !namespace.is_empty());
                let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
                // A separate client: renewals must not wait for the rate limit of others.
                let client = make_client(stack.clone()).map_err(|error| NoCluster::new(&error))?;
                let elector = Elector::builder(own_requests(&client), &namespace, lease);
                let elector = elector.timing(options.timing());
                let clock = manager.server_clock.clone();
                let elector = elector.clock(move || clock.now_or_own()).build()?;
                metrics.watch_election(elector.name(), elector.leadership());
                Some(Candidacy::new(elector, manager.on_lost_leadership))
            }
        };
        let leader_client = match &election {
            None => client.clone(),
            Some(election) => {
                let stack = stack.clone().layer(election.elector().fence().clone());
                make_client(stack).map_err(|error| NoCluster::new(&error))?
            }
        };
        let mut defaults = manager.defaults;
        if let Some(workers) = options.workers {
            defaults = defaults.workers(workers);
        }
        let parts = |needs_leadership| Parts {
            factory: factory.clone(),
            defaults: defaults.clone(),
            metrics: manager.has_metrics.then(|| metrics.controllers().clone()),
            client: if needs_leadership { leader_client.clone() } else { client.clone() },
        };
        state.set_phase(Phase::InstallingDefinitions);
        for definition in &manager.definitions {
            install_crd(&own_client, definition).await?;
        }
        let mut controllers = Vec::new();
        for pending in manager.controllers {
            let needs_leadership = pending.needs_leadership;
            controllers.push((pending.build(&parts(needs_leadership))?, needs_leadership));
        }
        for build in manager.other_controllers {
            controllers.extend(build(&factory)?.into_iter().map(|controller| (controller, false)));
        }
        for (controller, _) in &controllers {
            add_checks(&manager.checks, controller, manager.stuck_after, manager.has_webhooks);
            if let Some(on_write) = &manager.on_write {
                controller.on_write(Arc::clone(on_write));
            }
        }
        rights.add_controllers(controllers.iter().map(|(controller, _)| controller));
        if let Some(on_rights) = manager.on_rights {
            on_rights(rights.list());
        }
        let review = Some(Review::new(own_client, rights));
        let shown = controllers.iter().map(|(controller, needs_leadership)| ControllerState {
            controller: Arc::clone(controller),
            needs_leadership: *needs_leadership && election.is_some(),
        });
        state.set_controllers(shown);
        if let Some(election) = &election {
            state.set_election(election.elector());
            election.add_check(&manager.checks, manager.has_webhooks);
        }
        let (every_replica, leader) = (Group::new(), Group::new());
        let tasks = manager.tasks;
        Ok(Self {
            factory,
            controllers,
            tasks,
            every_replica,
            leader,
            election,
            client,
            leader_client,
            review,
        })
    }

    /// Runs everything until something fails.
    ///
    /// # Cancel safety
    /// If it is dropped, everything that was started keeps running: call [`stop`](Self::stop).
    pub(crate) async fn run(&mut self, state: &State) -> ManagerError {
        state.set_phase(Phase::FillingCaches);
        if let Some(review) = self.review.take() {
            // Beside the start, which it must not delay: a cache may never be filled without
            // rights.
            let stop = self.every_replica.shutdown().token().clone();
            self.every_replica.spawn("the review of rights", async move {
                stop.run_until_cancelled(review.run()).await;
                Ok(())
            });
        }
        if let Err(error) = wait_for_sync(&self.controllers).await {
            return error;
        }
        state.set_phase(Phase::Running);
        self.start(false, false);
        if self.election.is_none() {
            self.start(true, false);
            return tokio::select! {
                biased;
                failure = self.every_replica.wait_for_failure() => failure,
                failure = self.leader.wait_for_failure() => failure,
                failure = self.factory.wait_for_failure() => failure.into(),
            };
        }
        // What failed while the fence was closed.
        let mut failures = Vec::new();
        loop {
            let election = self.election.as_mut().expect("an election was found above");
            let fence = election.elector().fence().clone();
            tokio::select! {
                biased;
                failure = self.every_replica.wait_for_failure() => return failure,
                failure = self.leader.wait_for_failure() => {
                    if fence.is_open() {
                        return failure;
                    }
                    // Either the election reports the loss next, or this process was paused, and
                    // can still renew its Lease.
                    failures.push(failure);
                }
                () = sleep(LOOK_AGAIN), if !failures.is_empty() => {
                    if fence.is_open() {
                        return ManagerError::all(failures).expect_err("there is an error");
                    }
                }
                failure = self.factory.wait_for_failure() => return failure.into(),
                change = election.wait_for_change() => match change {
                    LeadershipChange::Leads { is_failover } => self.start(true, is_failover),
                    LeadershipChange::Lost(OnLostLeadership::End) => {
                        warn_after_loss(&failures);
                        return ManagerError::LostLeadership;
                    }
                    LeadershipChange::Lost(OnLostLeadership::Standby) => {
                        let mut errors = std::mem::take(&mut failures);
                        errors.extend(self.leader.stop(Duration::ZERO).await);
                        self.leader = Group::new();
                        if errors.iter().any(ManagerError::is_stuck) {
                            // It may act on state from before the new leader.
                            return ManagerError::all(errors).expect_err("there is an error");
                        }
                        warn_after_loss(&errors);
                    }
                    LeadershipChange::Failed(error) => return error,
                },
            }
        }
    }

    /// Starts the controllers and tasks that need leadership, or those that do not. After a
    /// failover the caches may not show what the last leader has written.
    fn start(&mut self, needs_leadership: bool, is_failover: bool) {
        let (group, client) = if needs_leadership {
            (&mut self.leader, &self.leader_client)
        } else {
            (&mut self.every_replica, &self.client)
        };
        let shutdown = group.shutdown().clone();
        for (controller, needs) in &self.controllers {
            if *needs == needs_leadership {
                let (controller, shutdown) = (Arc::clone(controller), shutdown.clone());
                let name = format!("controller {:?}", controller.name());
                group.spawn(name, async move {
                    let ended = if is_failover {
                        controller.take_over(shutdown).await
                    } else {
                        controller.run(shutdown).await
                    };
                    let name = controller.name().to_owned();
                    ended.map_err(|error| ManagerError::Controller { name, error })
                });
            }
        }
        for task in &mut self.tasks {
            if task.needs_leadership == needs_leadership {
                let (client, factory) = (client.clone(), self.factory.clone());
                let name = format!("task {:?}", task.name);
                group.spawn(
                    name,
                    task.run(TaskContext { client, factory, shutdown: shutdown.clone() }),
                );
            }
        }
    }

    /// Stops everything, in order. Returns the failures in between.
    pub(crate) async fn stop(&mut self, grace_period: Duration) -> Vec<ManagerError> {
        let shutdown = self.leader.shutdown().clone();
        let Self { leader, every_replica, election, .. } = self;
        let (leading, standby) = match election.as_mut() {
            Some(election) if election.is_leading() => (Some(election), None),
            other => (None, other),
        };
        // A standby stops to contend first: it must not hold the Lease while its tasks end.
        let stop_standby = async {
            match standby {
                Some(election) => election.stop().await,
                None => Vec::new(),
            }
        };
        let stop = async {
            tokio::join!(leader.stop(grace_period), every_replica.stop(grace_period), stop_standby)
        };
        // A leader that can no longer renew its Lease must stop before the grace period ends.
        let lose = async {
            match leading {
                Some(election) => election.wait_for_loss().await,
                None => std::future::pending().await,
            }
            shutdown.begin(Duration::ZERO);
            std::future::pending().await
        };
        let (mut errors, more, of_standby) = tokio::select! {
            biased;
            errors = stop => errors,
            never = lose => never,
        };
        let is_leader_stuck = errors.iter().any(ManagerError::is_stuck);
        errors.extend(more.into_iter().chain(of_standby));
        if timeout(INFORMERS_TIMEOUT, self.factory.shut_down()).await.is_err() {
            let what = "the handler of an informer".to_owned();
            errors.push(ManagerError::NotCancelled { what });
        }
        match &mut self.election {
            // Another replica must not lead while a part of this one still runs.
            Some(election) if is_leader_stuck => election.abandon(),
            // Only now: another replica may lead as soon as the Lease is released.
            Some(election) => errors.extend(election.stop().await),
            None => {}
        }
        errors
    }
}

/// Logs what failed because the leadership was lost, or at the same time.
fn warn_after_loss(errors: &[ManagerError]) {
    for error in errors {
        tracing::warn!("after the leadership was lost: {error}");
    }
}

/// Waits for the caches of all controllers. Fails if one cannot be filled in time.
async fn wait_for_sync(controllers: &[(Arc<dyn AnyController>, bool)]) -> Result<(), ManagerError> {
    let waits = controllers.iter().map(|(controller, _)| async {
        controller
            .wait_for_sync()
            .await
            .map_err(|error| ManagerError::Controller { name: controller.name().to_owned(), error })
    });
    futures::future::try_join_all(waits).await.map(drop)
}
