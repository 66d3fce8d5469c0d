//! The builder of a manager.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use prometheus_client::registry::Registry;
use tower::BoxError;
use windlass_evidence::DeclaredRight;
use windlass_indexer::ObjectKey;
use windlass_informer::client::safe_message;
use windlass_informer::{ClientStack, InformerOptions, ServerClock, SharedInformerFactory};
use windlass_reconciler::{
    AnyController, ControllerBuilder, ControllerDefaults, ObjectType, OnWrite, Reconcile, Write,
};
use windlass_webhook::Webhooks;

use crate::candidacy::OnLostLeadership;
use crate::connect::MakeClient;
use crate::controllers::{BuildOthers, PendingController};
use crate::dashboard;
use crate::error::ManagerError;
use crate::http::checks::{Checks, Finding, Probe};
use crate::http::routes;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::state::{State, View};
use crate::task::{Task, TaskContext};
use crate::webhooks::{self, NamedWebhooks};

/// How long all workers of a controller may be busy, each with a single run, before the liveness
/// check fails. Longer than any run that waits for another system should take.
const STUCK_AFTER: Duration = Duration::from_mins(10);

/// Is told which rights are needed.
pub(crate) type OnRights = Box<dyn FnOnce(Vec<DeclaredRight>) + Send>;

/// Runs controllers as a service.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
/// # use windlass_manager::{Manager, ManagerError, Options};
/// # use windlass_reconciler::{Action, Controller, Error, Reconcile, RunContext, Watch};
/// # struct Scaler;
/// # impl Reconcile<Deployment> for Scaler {
/// #     async fn reconcile(&self, _: Arc<Deployment>, _: &RunContext) -> Result<Action, Error> {
/// #         Ok(Action::done())
/// #     }
/// # }
/// # async fn example() -> Result<(), ManagerError> {
/// Manager::new(Options::default())
///     .leader_election("scaler")
///     .controller(
///         Controller::named("scaler", Watch::<Deployment>::new())
///             .owns(Watch::<ReplicaSet>::new()),
///         Scaler,
///     )
///     .check("queue", || async { Ok::<(), std::io::Error>(()) })
///     .run()
///     .await
/// # }
/// ```
///
/// [`run`](Self::run) does everything, in this order:
///
/// 1. Logs are set up, and HTTP is served: [probes, metrics and the debug endpoint](crate::http).
/// 2. [Webhooks](Self::webhooks) are served, with their certificates.
/// 3. Custom resource definitions are installed, and caches are filled, also on standbys.
/// 4. Controllers and tasks that every replica runs are started.
/// 5. With [leader election](Self::leader_election): this replica waits until it leads.
/// 6. The other controllers and tasks start. Their writes are [fenced](crate::fence).
///
/// A signal (Ctrl-C or SIGTERM) or a failure stops the manager: no new run begins; runs under way
/// get the [grace period](Options::grace_period); pending events are written; the Lease is
/// released; and HTTP ends last. A second signal ends the process at once.
#[must_use = "a manager does nothing before it runs"]
pub struct Manager {
    pub(crate) options: Options,
    pub(crate) make_client: Option<MakeClient>,
    pub(crate) stack: ClientStack,
    pub(crate) lease: Option<String>,
    pub(crate) on_lost_leadership: OnLostLeadership,
    pub(crate) definitions: Vec<CustomResourceDefinition>,
    pub(crate) informers: InformerOptions,
    pub(crate) defaults: ControllerDefaults,
    pub(crate) controllers: Vec<PendingController>,
    pub(crate) other_controllers: Vec<BuildOthers>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) checks: Checks,
    pub(crate) state: Arc<State>,
    pub(crate) stuck_after: Duration,
    pub(crate) sets_up_logs: bool,
    pub(crate) metrics: Metrics,
    pub(crate) has_metrics: bool,
    pub(crate) on_write: Option<OnWrite>,
    pub(crate) webhooks: Option<NamedWebhooks>,
    pub(crate) has_webhooks: bool,
    pub(crate) on_rights: Option<OnRights>,
    pub(crate) server_clock: ServerClock,
}

impl Manager {
    /// Creates a manager without controllers and tasks.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            make_client: None,
            stack: ClientStack::new(),
            lease: None,
            on_lost_leadership: OnLostLeadership::default(),
            definitions: Vec::new(),
            informers: InformerOptions::new(),
            defaults: ControllerDefaults::new(),
            controllers: Vec::new(),
            other_controllers: Vec::new(),
            tasks: Vec::new(),
            checks: Checks::default(),
            state: Arc::new(State::new()),
            stuck_after: STUCK_AFTER,
            sets_up_logs: true,
            metrics: Metrics::new(),
            has_metrics: true,
            on_write: None,
            webhooks: None,
            has_webhooks: false,
            on_rights: None,
            server_clock: ServerClock::new(windlass_environment::now),
        }
    }

    /// Changes the options.
    pub fn change_options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Runs a controller. With [leader election](Self::leader_election), only the leader runs it.
    pub fn controller<K: ObjectType>(
        mut self,
        builder: ControllerBuilder<K>,
        reconciler: impl Reconcile<K>,
    ) -> Self {
        self.controllers.push(PendingController::new(builder, reconciler, true));
        self
    }

    /// Runs a controller on every replica, leader or not. Its writes are not fenced.
    pub fn controller_on_every_replica<K: ObjectType>(
        mut self,
        builder: ControllerBuilder<K>,
        reconciler: impl Reconcile<K>,
    ) -> Self {
        self.controllers.push(PendingController::new(builder, reconciler, false));
        self
    }

    /// Runs controllers that a library builds, on every replica, leader or not. `build` is given
    /// the factory of the manager, so that they share its informers. They have the settings that
    /// the library gives them: neither metrics nor [defaults](Self::controller_defaults) of the
    /// manager.
    pub fn built_controllers<E: fmt::Display>(
        mut self,
        build: impl FnOnce(&SharedInformerFactory) -> Result<Vec<Arc<dyn AnyController>>, E>
        + Send
        + 'static,
    ) -> Self {
        self.other_controllers.push(Box::new(move |factory| {
            build(factory).map_err(|error| ManagerError::Setup(error.to_string()))
        }));
        self
    }

    /// Runs a task on every replica. It may return; if it fails or panics, the manager stops.
    ///
    /// ```no_run
    /// # use windlass_manager::{Manager, Options, TaskContext};
    /// # let manager =
    /// Manager::new(Options::default()).task("hello", |cx: TaskContext| async move {
    ///     cx.shutdown.token().cancelled().await;
    ///     Ok::<(), std::io::Error>(())
    /// });
    /// ```
    pub fn task<F, E>(
        mut self,
        name: impl Into<String>,
        start: impl FnMut(TaskContext) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.tasks.push(Task::new(name, false, start));
        self
    }

    /// Runs a task on the leader. If this replica may lead [again](OnLostLeadership::Standby), the
    /// task is started each time.
    pub fn leader_task<F, E>(
        mut self,
        name: impl Into<String>,
        start: impl FnMut(TaskContext) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.tasks.push(Task::new(name, true, start));
        self
    }

    /// Elects a leader by a Lease of this name, unless `--leader-elect=false` is given.
    pub fn leader_election(mut self, lease: impl Into<String>) -> Self {
        self.lease = Some(lease.into());
        self
    }

    /// What a replica does when it no longer leads. Default: the process ends.
    pub fn on_lost_leadership(mut self, action: OnLostLeadership) -> Self {
        self.on_lost_leadership = action;
        self
    }

    /// Installs a definition before the caches are filled, or updates the existing one. Every
    /// replica does this when it starts, whatever its version is: during a rollout, an old replica
    /// that restarts writes the old definition back.
    pub fn install(mut self, definition: CustomResourceDefinition) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Serves webhooks on every replica, and tells the API server about them: it installs the
    /// webhook configurations, and sets the conversion of each [definition](Self::install) whose
    /// versions are converted here.
    ///
    /// The readiness check `webhooks` connects to this replica as the API server does, and trusts
    /// the authorities that the replicas publish. With `--webhook-cert-path` it only checks that
    /// the certificate is valid now: whom the API server trusts is not known here.
    ///
    /// `name` is the name of the configurations and of the Service, unless `--webhook-service` is
    /// given. The certificates are in the Secret `NAME-webhook-certificates`; all replicas make
    /// and renew them together, unless `--webhook-cert-path` is given.
    ///
    /// Neither caches nor the election decide whether a replica with webhooks is ready: the API
    /// server may have to call it, to convert what the caches list.
    ///
    /// Replicas of both versions are called during a rollout, whichever wrote the configurations
    /// last: as with definitions, one of the old version that restarts writes its own back. A
    /// replica that does not have a webhook answers 404, and then the failure policy decides. So
    /// introduce a webhook with [`FailurePolicy::Ignore`](windlass_webhook::FailurePolicy::Ignore),
    /// and make it `Fail` in the next release. Before a webhook is removed, make it `Ignore`. That
    /// does not help where the API server has to convert an object before it calls the webhook: a
    /// conversion that fails is an error, whatever the policy.
    pub fn webhooks(mut self, name: impl Into<String>, webhooks: Webhooks) -> Self {
        self.webhooks = Some(NamedWebhooks { name: name.into(), webhooks });
        self.has_webhooks = true;
        self
    }

    /// Adds a readiness check: `/readyz` fails while it returns an error. The error is logged, but
    /// not shown in the response.
    pub fn check<F, E>(
        self,
        name: impl Into<String>,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.add_check(Probe::Ready, name, check)
    }

    /// Adds a liveness check: while it returns an error, `/livez` and `/healthz` fail, and the
    /// kubelet restarts the process.
    pub fn live_check<F, E>(
        self,
        name: impl Into<String>,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.add_check(Probe::Live, name, check)
    }

    fn add_check<F, E>(
        self,
        probe: Probe,
        name: impl Into<String>,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.checks.add(probe, name, move || {
            let checked = check();
            async {
                match checked.await {
                    Ok(()) => Finding::Ok(None),
                    Err(error) => Finding::FailedPrivately(safe_message(&*error.into())),
                }
            }
        });
        self
    }

    /// Settings for controllers that have none of their own. `--workers` overrides them.
    pub fn controller_defaults(mut self, defaults: ControllerDefaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// Settings for informers that have none of their own. `--namespace` is added to them.
    pub fn informer_defaults(mut self, options: InformerOptions) -> Self {
        self.informers = options;
        self
    }

    /// Settings of the clients: timeout, rate limit, layers. Unless metrics are off, they replace
    /// its observer.
    pub fn client_stack(mut self, stack: ClientStack) -> Self {
        self.stack = stack;
        self
    }

    /// Adds metrics of your own, which `/metrics` shows beside those of Windlass.
    pub fn register_metrics(mut self, register: impl FnOnce(&mut Registry)) -> Self {
        register(self.metrics.registry_mut());
        self
    }

    /// Turns the metrics of controllers, informers and requests off. `/metrics` still has those of
    /// the process and the election, and what [`register_metrics`](Self::register_metrics) adds.
    pub fn without_metrics(mut self) -> Self {
        self.has_metrics = false;
        self
    }

    /// How long all workers of a controller may be busy, each with a single run, before the
    /// liveness check fails. Default: 10 minutes.
    pub fn stuck_after(mut self, limit: Duration) -> Self {
        self.stuck_after = limit;
        self
    }

    /// Makes the clients with a closure, instead of from the kubeconfig. It is called once for each
    /// client, with a stack that has the layers of that client. For the embedded API server:
    /// `.connect(move |stack| Ok(stack.around(server.service(), "default")))`.
    pub fn connect(
        mut self,
        make_client: impl Fn(ClientStack) -> Result<Client, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.make_client = Some(Box::new(make_client));
        self
    }

    /// Calls `observer` with every write of a run of any controller, and the key that ran, as
    /// [`Controller::on_write`](windlass_reconciler::Controller::on_write) does.
    pub fn on_write(
        mut self,
        observer: impl Fn(&ObjectKey, &Write) + Send + Sync + 'static,
    ) -> Self {
        self.on_write = Some(Arc::new(observer));
        self
    }

    /// Calls `observer` once with the rights that the manager and its controllers need, as far as
    /// they are known before anything runs. The requests of the manager itself are among them; they
    /// have the extension [`OwnRequest`](crate::OwnRequest).
    pub fn on_rights(mut self, observer: impl FnOnce(Vec<DeclaredRight>) + Send + 'static) -> Self {
        self.on_rights = Some(Box::new(observer));
        self
    }

    /// This machine's clock, for tests of one that is wrong. Default: the system's.
    ///
    /// The manager compares it with the `Date` in the API server's answers. Certificates of
    /// webhooks and the times in the Lease follow the API server's clock. If this one is off by
    /// more than a minute, the log, the check `manager` of `/readyz?verbose` and the metric
    /// `windlass_clock_skew_seconds` say so.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.server_clock = ServerClock::new(clock);
        self
    }

    /// A view of the controllers, for tests and programs that inspect them while they run.
    pub fn view(&self) -> View {
        View::new(Arc::clone(&self.state))
    }

    /// Does not set up logs. Not needed if the program has already set up `tracing`.
    pub fn without_logs(mut self) -> Self {
        self.sets_up_logs = false;
        self
    }

    /// `/healthz`, `/livez` and `/readyz`, for a program that has a server of its own.
    pub fn probes(&self) -> axum::Router {
        routes::probes(&self.checks)
    }

    /// `/debug/windlass`, for a program that has a server of its own: a [`Report`] as JSON. It
    /// shows names and the messages of errors, so protect it like the log.
    ///
    /// [`Report`]: crate::http::Report
    pub fn debug(&self) -> axum::Router {
        crate::http::debug(&self.state)
    }

    /// The [dashboard](crate::dashboard), for a program that has a server of its own: the page at
    /// `/`, and its API below `/api`. `access` says who may use it.
    pub fn dashboard(&self, access: &dashboard::Access) -> axum::Router {
        dashboard::router(&self.state, access)
    }

    /// The names of all checks, including those that are added later.
    fn check_names_of(&self, probe: Probe) -> Vec<String> {
        let mut names = self.checks.names(probe);
        if probe == Probe::Ready {
            let own = ["leader-election", "metrics-certificate", webhooks::CHECK];
            names.extend(own.map(str::to_owned));
        }
        names.extend(self.controllers.iter().map(|pending| format!("controller/{}", pending.name)));
        names
    }

    /// Checks that names are unique: metrics and checks identify parts by name.
    pub(crate) fn check_names(&self) -> Result<(), ManagerError> {
        let controllers = self.controllers.iter().map(|controller| controller.name.clone());
        let tasks = self.tasks.iter().map(|task| task.name.clone());
        for (what, names) in [
            ("controller", controllers.collect()),
            ("task", tasks.collect()),
            ("check", self.check_names_of(Probe::Ready)),
            ("liveness check", self.check_names_of(Probe::Live)),
        ] {
            let mut names: Vec<String> = names;
            names.sort_unstable();
            if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(ManagerError::DuplicateName { what, name: pair[0].clone() });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |controllers: &[PendingController]| -> Vec<String> {
            controllers.iter().map(|controller| controller.name.clone()).collect()
        };
        f.debug_struct("Manager")
            .field("lease", &self.lease)
            .field("controllers", &names(&self.controllers))
            .finish_non_exhaustive()
    }
}
