//! The handle of a running controller or manager.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use tokio_util::task::TaskTracker;
use windlass::prelude::ObjectKey;
use windlass::reconciler::{AnyController, Run};

use crate::part::{Runnable, RunnableResult};
use crate::quiet::{Quiet, wait_until};
use crate::report::fail;
use crate::test_cluster::TestCluster;
use crate::writes::WriteRecord;

/// A running controller or manager on a [`TestCluster`].
///
/// When stopped or dropped, it shuts down in order: no new run begins, runs in progress may finish,
/// events are written, informers stop. If it fails, the test fails with the cause: at the next call
/// that waits, at [`stop`](Self::stop), or when this is dropped.
#[must_use = "a controller stops when its handle is dropped"]
pub struct Running {
    cluster: TestCluster,
    part: Arc<Runnable>,
    tasks: TaskTracker,
}

impl Running {
    /// Starts `running`, which ends when the part is stopped.
    pub(crate) fn start(
        cluster: &TestCluster,
        part: Runnable,
        running: impl Future<Output = RunnableResult> + Send + 'static,
    ) -> Self {
        let (part, tasks) = (Arc::new(part), TaskTracker::new());
        cluster.add(&part);
        let runner = Arc::clone(&part);
        tasks.spawn(async move { runner.run(running).await });
        Self { cluster: cluster.clone(), part, tasks }
    }

    /// Waits until the controller or manager is quiet as [`Quiet::new`] defines it: no key is
    /// ready, running, due at once or waiting for a retry, all events are written, and the caches
    /// are up to date with the server. To wait for several together:
    /// [`TestCluster::wait_until_quiet`].
    ///
    /// # Panics
    /// If it is not quiet in time; the message has its keys and why they ran. If it fails.
    ///
    /// # Cancel safety
    /// Dropping it half-way only ends the waiting.
    #[track_caller]
    pub fn wait_until_quiet(&self) -> impl Future<Output = ()> {
        self.wait_until(Quiet::new())
    }

    /// Like [`wait_until_quiet`](Self::wait_until_quiet), with another definition of quiet.
    ///
    /// # Panics
    /// As [`wait_until_quiet`](Self::wait_until_quiet).
    ///
    /// # Cancel safety
    /// As [`wait_until_quiet`](Self::wait_until_quiet).
    #[track_caller]
    pub fn wait_until(&self, quiet: Quiet) -> impl Future<Output = ()> {
        self.wait_until_at(quiet, Location::caller())
    }

    /// Like [`wait_until`](Self::wait_until), for the caller at this line of the test.
    pub(crate) async fn wait_until_at(&self, quiet: Quiet, at: &Location<'_>) {
        wait_until(&self.cluster, std::slice::from_ref(&self.part), &quiet, at).await;
    }

    /// Returns the writes since the last call, in the order in which the server answered.
    pub fn take_writes(&self) -> Vec<WriteRecord> {
        self.part.take_writes()
    }

    /// Returns the last runs of a key, the oldest first: `default/web`, or `web` for one in the
    /// namespace of the test. The runs of several controllers follow one after the other.
    pub fn runs(&self, key: &str) -> Vec<Run> {
        let key = match key.split_once('/') {
            Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::namespaced(self.cluster.namespace(), key),
        };
        let controllers = self.part.controllers();
        controllers.iter().flat_map(|controller| controller.runs(&key)).collect()
    }

    /// Returns its controllers; for a manager, once it has built them.
    pub fn controllers(&self) -> Vec<Arc<dyn AnyController>> {
        self.part.controllers()
    }

    /// Stops it, and waits for its end.
    ///
    /// # Panics
    /// If it failed, or fails to stop in order.
    ///
    /// # Cancel safety
    /// Dropping it half-way only ends the waiting.
    #[track_caller]
    pub fn stop(self) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            self.part.stop();
            let ended = self.part.wait_for_end().await;
            self.tasks.close();
            self.tasks.wait().await;
            if ended.is_err() {
                fail(at, &self.part.failure().unwrap_or_default());
            }
        }
    }
}

impl TestCluster {
    /// Waits until everything that the test runs on this cluster is quiet at the same time, such as
    /// a controller and the [workloads](Self::run_workloads) that it waits for.
    ///
    /// # Panics
    /// As [`Running::wait_until_quiet`].
    ///
    /// # Cancel safety
    /// As [`Running::wait_until_quiet`].
    #[track_caller]
    pub fn wait_until_quiet(&self) -> impl Future<Output = ()> {
        self.wait_until(Quiet::new())
    }

    /// Like [`wait_until_quiet`](Self::wait_until_quiet), with another definition of quiet.
    ///
    /// # Panics
    /// As [`Running::wait_until_quiet`].
    ///
    /// # Cancel safety
    /// As [`Running::wait_until_quiet`].
    #[track_caller]
    pub fn wait_until(&self, quiet: Quiet) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move { wait_until(self, &self.runnables(), &quiet, at).await }
    }
}

impl Drop for Running {
    /// # Panics
    /// If it failed, unless the test is failing already.
    fn drop(&mut self) {
        self.part.stop();
        if let Some(failure) = self.part.failure()
            && !std::thread::panicking()
        {
            panic!("{failure}");
        }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("name", &self.part.name).finish_non_exhaustive()
    }
}
