//! Starting controllers, managers and workloads on a cluster.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use futures::future::join_all;
use tokio_util::sync::CancellationToken;
use windlass::informer::SharedInformerFactory;
use windlass::manager::Manager;
use windlass::prelude::{Controller, Reconcile};
use windlass::reconciler::{AnyController, ControllerBuilder, ObjectType, Shutdown};
use windlass_workloads::Workloads;

use crate::part::{Runnable, RunnableKind, RunnableResult, Writes};
use crate::quiet::Quiet;
use crate::recording::Recording;
use crate::report::{causes, fail};
use crate::running::Running;
use crate::test_cluster::TestCluster;
use crate::writes::WriteRecord;

impl TestCluster {
    /// Starts a controller, with informers of its own.
    ///
    /// # Panics
    /// If the controller cannot be built.
    #[track_caller]
    pub fn run<K: ObjectType>(
        &self,
        builder: ControllerBuilder<K>,
        reconciler: impl Reconcile<K>,
    ) -> Running {
        self.run_built(|factory| builder.build(factory, reconciler))
    }

    /// Starts a controller that `build` returns, for a program that builds it itself. Its writes
    /// are recorded unless it already has an observer of writes.
    ///
    /// # Panics
    /// If the controller cannot be built.
    #[track_caller]
    pub fn run_built<K: ObjectType, E: fmt::Display>(
        &self,
        build: impl FnOnce(&SharedInformerFactory) -> Result<Controller<K>, E>,
    ) -> Running {
        let factory = self.factory();
        let controller = match build(&factory) {
            Ok(controller) => controller,
            Err(error) => fail(Location::caller(), &format!("it cannot be built: {error:#}")),
        };
        let name = format!("the controller {:?}", controller.name());
        self.run_all(name, vec![Arc::new(controller)], factory, async { Ok(()) })
    }

    /// Starts a manager, with everything that it runs, on clients of this cluster. It serves no
    /// HTTP, does not configure logging and does not handle signals; its observer of writes is this
    /// crate's. With leader election, the Lease is in the namespace of the test, unless its options
    /// name another one.
    pub fn run_manager(&self, manager: Manager) -> Running {
        let (cluster, writes) = (self.clone(), Arc::new(Writes::default()));
        let noted = Arc::clone(&writes);
        let recording = Recording::start();
        let recorded = recording.clone();
        let manager = manager
            .change_options(|options| {
                // The paused clock does not wait for sockets.
                *options = options.clone().without_http();
                let namespace = || self.namespace().to_owned();
                options.leader_election_namespace.get_or_insert_with(namespace);
                if options.namespaces.is_empty() {
                    options.namespaces.extend(self.watched_namespace().map(str::to_owned));
                }
            })
            .without_logs()
            .on_write(move |by, write| noted.note(by, write))
            .connect(move |stack| {
                let stack = match &recorded {
                    Some(recording) => recording.watch(stack),
                    None => stack,
                };
                Ok(cluster.connect(stack)?)
            });
        let manager = match recording {
            Some(recording) => recording.watch_manager(manager),
            None => manager,
        };
        let (view, stop) = (manager.view(), CancellationToken::new());
        let part = Runnable::new("the manager", RunnableKind::Manager(view, stop.clone()), writes);
        let running = async { manager.run_until(stop).await.map_err(|error| causes(&error)) };
        Running::start(self, part, running)
    }

    /// Starts controllers that create pods for Deployments, stateful sets and jobs, and make them
    /// ready: a server without nodes and kube-controller-manager lacks these. `change` adjusts the
    /// settings; on a control plane with kube-controller-manager it should choose
    /// [`Workloads::pods_only`].
    ///
    /// # Panics
    /// On the cluster of a kubeconfig, which has its own.
    #[track_caller]
    pub fn run_workloads(&self, change: impl FnOnce(Workloads) -> Workloads) -> Running {
        let at = Location::caller();
        if self.test_server().is_none() {
            fail(at, "the cluster of a kubeconfig has its own workloads: these would fight them");
        }
        // With all rights, whatever account the controllers run as.
        let factory = self.as_admin().unrecorded_factory();
        let workloads = change(Workloads::new(&factory));
        let controllers = match workloads.controllers() {
            Ok(controllers) => controllers,
            Err(error) => fail(at, &format!("the workloads cannot be built: {}", causes(&error))),
        };
        let nodes = async move { workloads.register_nodes().await.map_err(|error| causes(&error)) };
        self.run_all("the workloads".to_owned(), controllers, factory, nodes)
    }

    /// Runs a controller until it is quiet, and stops it. Returns its writes, in order. The events
    /// that it recorded are returned by [`events`](Self::events).
    ///
    /// # Panics
    /// If the controller cannot be built, fails, or is not quiet in time.
    ///
    /// # Cancel safety
    /// Dropping it half-way stops the controller.
    #[track_caller]
    pub fn run_until_quiet<K: ObjectType>(
        &self,
        builder: ControllerBuilder<K>,
        reconciler: impl Reconcile<K>,
    ) -> impl Future<Output = Vec<WriteRecord>> {
        let (at, running) = (Location::caller(), self.run(builder, reconciler));
        async move {
            running.wait_until_at(Quiet::new(), at).await;
            let writes = running.take_writes();
            running.stop().await;
            writes
        }
    }

    fn run_all(
        &self,
        name: String,
        controllers: Vec<Arc<dyn AnyController>>,
        factory: SharedInformerFactory,
        first: impl Future<Output = RunnableResult> + Send + 'static,
    ) -> Running {
        let (writes, shutdown) = (Arc::new(Writes::default()), Shutdown::new());
        for controller in &controllers {
            let noted = Arc::clone(&writes);
            // A controller that the user has built may have an observer, which is kept.
            controller.on_write(Arc::new(move |by, write| noted.note(by, write)));
        }
        let subject = RunnableKind::Controllers(controllers.clone(), shutdown.clone());
        let running = async move {
            let ran = match first.await {
                Ok(()) => run_together(&controllers, &shutdown).await,
                Err(error) => Err(error),
            };
            factory.shut_down().await;
            ran
        };
        Running::start(self, Runnable::new(name, subject, writes), running)
    }
}

/// Runs controllers until they are stopped. If one fails, the others are stopped, too.
async fn run_together(
    controllers: &[Arc<dyn AnyController>],
    shutdown: &Shutdown,
) -> RunnableResult {
    let run = |controller: &Arc<dyn AnyController>| {
        let controller = Arc::clone(controller);
        async move {
            let ran = controller.run(shutdown.clone()).await;
            shutdown.begin(std::time::Duration::ZERO);
            ran.map_err(|error| causes(&error))
        }
    };
    join_all(controllers.iter().map(run)).await.into_iter().collect()
}
