//! The face of the crate: the controllers, put together and run.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use windlass::informer::SharedInformerFactory;
use windlass::manager::AnyController;
use windlass::reconciler::RunError;

use crate::addresses::NODES_MAX;
use crate::clock::Clock;
use crate::error::WorkloadsError;
use crate::kubelet::Pace;
use crate::{
    deployment, disruption, endpoint_slice, job, kubelet, nodes, replica_set, scheduler,
    stateful_set,
};

/// How long a pod takes to become ready, unless it is said otherwise: short, but long enough that a
/// rollout can be seen.
pub const START_DELAY: Duration = Duration::from_millis(100);

/// How long a pod runs that is to end, such as one of a job, unless it is said otherwise.
pub const RUN_TIME: Duration = Duration::from_millis(100);

/// The controllers that bring workloads to life; see the [crate's documentation](crate) for what
/// they do.
///
/// ```
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tokio_util::sync::CancellationToken;
/// use windlass::prelude::SharedInformerFactory;
/// use windlass_workloads::Workloads;
///
/// let factory = SharedInformerFactory::new(client);
/// let stop = CancellationToken::new();
/// let workloads = Workloads::new(&factory).start_delay(Duration::from_secs(2)).workers(4);
/// let meanwhile = async {
///     // … create a Deployment, wait until it is available
///     stop.cancel();
/// };
/// let (ran, ()) = tokio::join!(workloads.run(stop.clone()), meanwhile);
/// ran?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Workloads {
    factory: SharedInformerFactory,
    pace: Pace,
    nodes: u32,
    workers: usize,
    wall_time: Option<Timestamp>,
    pods_only: bool,
}

impl Workloads {
    /// Workloads of the cluster that `factory` watches, in all namespaces that it does.
    pub fn new(factory: &SharedInformerFactory) -> Self {
        Self {
            factory: factory.clone(),
            pace: Pace { start_delay: START_DELAY, run_time: RUN_TIME },
            nodes: 0,
            workers: 2,
            wall_time: None,
            pods_only: false,
        }
    }

    /// How long a pod takes to become ready. Default: [`START_DELAY`], 100 ms.
    pub fn start_delay(self, start_delay: Duration) -> Self {
        Self { pace: Pace { start_delay, ..self.pace }, ..self }
    }

    /// How long a pod runs that is to end: one whose `restartPolicy` is not `Always`. Default:
    /// [`RUN_TIME`], 100 ms.
    ///
    /// A pod may say otherwise by annotations: `workloads.windlass.rs/run-seconds`, a number or
    /// `forever`, and `workloads.windlass.rs/exit-code`, which makes it fail if it is not `0`.
    pub fn run_time(self, run_time: Duration) -> Self {
        Self { pace: Pace { run_time, ..self.pace }, ..self }
    }

    /// How many nodes there are: objects that say that they are ready, called `node-1` and so on,
    /// over which pods are spread. Default: 0, and every pod is put on a node that has no object.
    ///
    /// With nodes, the factory's client must be allowed to create, list and watch them. There can
    /// be 2,048.
    pub fn nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// How many keys each of the controllers works on at once. Default: 2.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// The time that it is when [`run`](Self::run) begins, for what is stored in statuses; from
    /// there it goes as tokio's clock goes. Default: the machine's clock says.
    pub fn wall_time(self, now: Timestamp) -> Self {
        Self { wall_time: Some(now), ..self }
    }

    /// Only the part of the scheduler and the nodes: pods become ready, end, and go. For a control
    /// plane that has kube-controller-manager, but no nodes. Default: everything.
    pub fn pods_only(self) -> Self {
        Self { pods_only: true, ..self }
    }

    /// Creates the [nodes](Self::nodes) that are not there yet. [`run`](Self::run) does it, too;
    /// this is for those who want to see them before.
    ///
    /// # Errors
    /// If one cannot be created, or there are too many.
    pub async fn register_nodes(&self) -> Result<(), WorkloadsError> {
        if self.nodes > NODES_MAX {
            return Err(WorkloadsError::TooManyNodes(self.nodes));
        }
        let now = self.wall_time.unwrap_or_else(Timestamp::now);
        nodes::register(self.factory.client(), self.nodes, now).await
    }

    /// The controllers, built and not started, for those who run them themselves. The
    /// [nodes](Self::nodes) must be [registered](Self::register_nodes) before they run.
    ///
    /// # Errors
    /// If a controller cannot be put together.
    pub fn controllers(&self) -> Result<Vec<Arc<dyn AnyController>>, WorkloadsError> {
        let clock = Clock::new(self.wall_time.unwrap_or_else(Timestamp::now));
        let (factory, workers, has_nodes) = (&self.factory, self.workers, self.nodes > 0);
        let mut controllers: Vec<Arc<dyn AnyController>> = vec![
            Arc::new(scheduler::build(factory, clock, has_nodes)?),
            Arc::new(kubelet::build(factory, workers, clock, self.pace, has_nodes)?),
        ];
        if !self.pods_only {
            controllers.push(Arc::new(replica_set::build(factory, workers, clock)?));
            controllers.push(Arc::new(deployment::build(factory, workers, clock)?));
            controllers.push(Arc::new(stateful_set::build(factory, workers, clock)?));
            controllers.push(Arc::new(job::build(factory, workers, clock)?));
            controllers.push(Arc::new(endpoint_slice::build(factory, workers, has_nodes)?));
            controllers.push(Arc::new(disruption::build(factory, workers, clock)?));
        }
        Ok(controllers)
    }

    /// Runs the controllers until `stop` is cancelled; what they are at is finished. If one cannot
    /// go on, none does.
    ///
    /// Dropping this future ends them at once. What is half done then is finished by the next run,
    /// as after a crash.
    ///
    /// # Errors
    /// If the controllers cannot be put together, or a cache is not complete in time.
    pub async fn run(self, stop: CancellationToken) -> Result<(), WorkloadsError> {
        self.register_nodes().await?;
        let controllers = self.controllers()?;
        let stop = &stop.child_token();
        let run_or_stop_all = |controller: Arc<dyn AnyController>| async move {
            let ran = controller.run(stop.clone().into()).await;
            stop.cancel();
            ran
        };
        let ran = join_all(controllers.into_iter().map(run_or_stop_all)).await;
        Ok(ran.into_iter().collect::<Result<(), RunError>>()?)
    }
}
