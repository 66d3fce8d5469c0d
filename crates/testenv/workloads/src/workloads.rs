//! The public API of the crate: the controllers, put together and run.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::AnyController;
use windlass_reconciler::RunError;

use crate::addresses::NODES_MAX;
use crate::clock::Clock;
use crate::error::WorkloadsError;
use crate::kubelet::PodDelays;
use crate::{
    deployment, disruption, endpoint_slice, job, kubelet, nodes, replica_set, scheduler,
    stateful_set,
};

/// The default time until a pod becomes ready: short, but long enough to watch a rollout.
pub const START_DELAY: Duration = Duration::from_millis(100);

/// The default run time of a pod that is meant to end, such as one of a job.
pub const RUN_TIME: Duration = Duration::from_millis(100);

/// The controllers that simulate workloads; see the [crate's documentation](crate).
///
/// ```
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tokio_util::sync::CancellationToken;
/// use windlass_informer::SharedInformerFactory;
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
    delays: PodDelays,
    nodes: u32,
    workers: usize,
    wall_time: Option<Timestamp>,
    pods_only: bool,
}

impl Workloads {
    /// Creates the workloads of the cluster and namespaces that `factory` watches.
    pub fn new(factory: &SharedInformerFactory) -> Self {
        Self {
            factory: factory.clone(),
            delays: PodDelays { start_delay: START_DELAY, run_time: RUN_TIME },
            nodes: 0,
            workers: 2,
            wall_time: None,
            pods_only: false,
        }
    }

    /// Sets how long a pod takes to become ready. Default: [`START_DELAY`], 100 ms.
    pub fn start_delay(self, start_delay: Duration) -> Self {
        Self { delays: PodDelays { start_delay, ..self.delays }, ..self }
    }

    /// Sets how long a pod runs that is meant to end: one whose `restartPolicy` is not `Always`.
    /// Default: [`RUN_TIME`], 100 ms.
    ///
    /// Annotations on a pod override this: `workloads.windlass.rs/run-seconds`, a number or
    /// `forever`, and `workloads.windlass.rs/exit-code`, which makes it fail if it is not `0`.
    pub fn run_time(self, run_time: Duration) -> Self {
        Self { delays: PodDelays { run_time, ..self.delays }, ..self }
    }

    /// Sets the number of nodes: ready node objects, named `node-1` and so on, over which pods are
    /// spread. At most 2,048. Default: 0, and every pod is assigned to a node name for which there
    /// is no Node object.
    ///
    /// With nodes, the factory's client must be allowed to create, list and watch them.
    pub fn nodes(self, nodes: u32) -> Self {
        Self { nodes, ..self }
    }

    /// Sets the number of concurrent workers of each controller. Default: 2.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// Sets the wall time at the start of [`run`](Self::run), for times that are stored in
    /// statuses; from then on it advances with tokio's clock. Default: the machine's clock.
    pub fn wall_time(self, now: Timestamp) -> Self {
        Self { wall_time: Some(now), ..self }
    }

    /// Runs only the scheduler and the nodes: pods become ready, end, and are removed. For a
    /// control plane with kube-controller-manager, but without nodes. Default: everything.
    pub fn pods_only(self) -> Self {
        Self { pods_only: true, ..self }
    }

    /// Creates missing [nodes](Self::nodes). [`run`](Self::run) does it as well; call this to have
    /// them before.
    ///
    /// # Errors
    /// If a node cannot be created, or there are too many.
    pub async fn register_nodes(&self) -> Result<(), WorkloadsError> {
        if self.nodes > NODES_MAX {
            return Err(WorkloadsError::TooManyNodes(self.nodes));
        }
        let now = self.wall_time.unwrap_or_else(Timestamp::now);
        nodes::register(self.factory.client(), self.nodes, now).await
    }

    /// Returns the controllers, built and not started, for callers that run them themselves. The
    /// [nodes](Self::nodes) must be [registered](Self::register_nodes) before they run.
    ///
    /// # Errors
    /// If a controller cannot be built.
    pub fn controllers(&self) -> Result<Vec<Arc<dyn AnyController>>, WorkloadsError> {
        let clock = Clock::new(self.wall_time.unwrap_or_else(Timestamp::now));
        let (factory, workers, has_nodes) = (&self.factory, self.workers, self.nodes > 0);
        let mut controllers: Vec<Arc<dyn AnyController>> = vec![
            Arc::new(scheduler::build(factory, clock, has_nodes)?),
            Arc::new(kubelet::build(factory, workers, clock, self.delays, has_nodes)?),
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

    /// Runs the controllers until `stop` is cancelled; runs in progress are finished. If one
    /// controller fails, all stop.
    ///
    /// Dropping this future ends the controllers at once. The next run completes what was
    /// interrupted, as after a crash.
    ///
    /// # Errors
    /// If the controllers cannot be built, or a cache does not sync in time.
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
