//! The face of the crate: the three controllers, put together and run.

use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use windlass::informer::SharedInformerFactory;
use windlass::reconciler::{BuildError, Controller, RunError};

use crate::clock::Clock;
use crate::{deployment, kubelet, replica_set};

/// How long a pod takes to become ready, unless it is said otherwise: short, but long enough that a
/// rollout can be seen.
pub const START_DELAY: Duration = Duration::from_millis(100);

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
    start_delay: Duration,
    workers: usize,
    wall_time: Option<Timestamp>,
    pods_only: bool,
}

/// Why the workloads do not run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadsError {
    /// A controller cannot be put together: the factory's informers are asked for in another form
    /// by somebody else.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A controller cannot begin, because a cache is not complete in time.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Workloads {
    /// Workloads of the cluster that `factory` watches, in all namespaces that it does.
    pub fn new(factory: &SharedInformerFactory) -> Self {
        Self {
            factory: factory.clone(),
            start_delay: START_DELAY,
            workers: 2,
            wall_time: None,
            pods_only: false,
        }
    }

    /// How long a pod takes to become ready. Default: [`START_DELAY`], 100 ms.
    pub fn start_delay(self, start_delay: Duration) -> Self {
        Self { start_delay, ..self }
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

    /// Only the part of the scheduler and the nodes: pods become ready, and go. For a control plane
    /// that has kube-controller-manager, but no nodes. Default: deployments and replica sets as
    /// well.
    pub fn pods_only(self) -> Self {
        Self { pods_only: true, ..self }
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
        let clock = Clock::new(self.wall_time.unwrap_or_else(Timestamp::now));
        let pods = kubelet::build(&self.factory, self.workers, clock, self.start_delay)?;
        if self.pods_only {
            return Ok(pods.run(stop).await?);
        }
        let sets = replica_set::build(&self.factory, self.workers, clock)?;
        let deployments = deployment::build(&self.factory, self.workers, clock)?;
        let stop = stop.child_token();
        let (pods, sets, deployments) = tokio::join!(
            run_or_stop_all(&pods, &stop),
            run_or_stop_all(&sets, &stop),
            run_or_stop_all(&deployments, &stop),
        );
        pods.and(sets).and(deployments)?;
        Ok(())
    }
}

async fn run_or_stop_all<K>(
    controller: &Controller<K>,
    stop: &CancellationToken,
) -> Result<(), RunError>
where
    K: serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let ran = controller.run(stop.clone()).await;
    stop.cancel();
    ran
}
