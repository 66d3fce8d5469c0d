//! The cluster of a test: a server, a namespace on it, and the controllers that run there.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use windlass::informer::{ClientStack, InformerOptions, SharedInformerFactory};
use windlass_testserver::{Account, TestServer};

use crate::clock::Clock;
use crate::part::Runnable;
use crate::recording::Recording;
use crate::report::causes;

/// The namespace of a test with a server of its own.
const NAMESPACE: &str = "default";

/// The name prefix of test namespaces on a shared server.
const PREFIX: &str = "test";

/// A server, a namespace on it, and the controllers that a test runs there. Clones share the
/// cluster.
///
/// Every failure here is a panic that names the line of the test. On a server that tests share (a
/// real one, or that of a kubeconfig), the namespace is new, and controllers watch only it and
/// cluster-scoped objects, so that tests do not see each other; see
/// [`watch_all_namespaces`](Self::watch_all_namespaces).
#[derive(Clone)]
pub struct TestCluster {
    shared: Arc<Shared>,
    token: Option<Arc<str>>,
    timeout: Option<Duration>,
    watches_all: bool,
}

struct Shared {
    server: Server,
    client: Client,
    namespace: String,
    /// What the test runs, while its [`Running`](crate::Running) exists.
    runnables: Mutex<Vec<Weak<Runnable>>>,
}

enum Server {
    Test(TestServer),
    /// The cluster of a kubeconfig.
    Existing(Box<Config>),
}

impl TestCluster {
    /// Creates an embedded API server for this test alone, in this process. The test uses its
    /// namespace `default`.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn embedded() -> Self {
        Self::on(TestServer::embedded(), NAMESPACE)
    }

    /// Uses a [`TestServer`] and an existing namespace: for an embedded server with other settings,
    /// or a real one with controllers of its own.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or if the server is real and the clock is paused.
    pub fn on(cluster: TestServer, namespace: impl Into<String>) -> Self {
        let watches_all = cluster.server().is_some();
        Self::new(Server::Test(cluster), namespace.into(), watches_all)
    }

    /// Uses the real kube-apiserver that the tests of this process share, and a new namespace.
    ///
    /// # Panics
    /// If the server does not start, or if the clock is paused.
    pub async fn real() -> Self {
        require_wall_clock();
        let cluster = match TestServer::real().await {
            Ok(cluster) => cluster,
            Err(error) => panic!("there is no real cluster: {}", causes(&error)),
        };
        let namespace = match cluster.namespace(PREFIX).await {
            Ok(namespace) => namespace,
            Err(error) => panic!("the namespace cannot be created: {}", causes(&error)),
        };
        Self::on(cluster, namespace)
    }

    /// Uses the cluster of a kubeconfig file, and a new namespace on it, which
    /// [`delete_namespace`](Self::delete_namespace) removes. Outside of the namespace, only what
    /// the test asks for is written.
    ///
    /// # Panics
    /// If the file cannot be used, if the namespace cannot be created, or if the clock is paused.
    pub async fn of_kubeconfig(path: impl AsRef<Path>) -> Self {
        require_wall_clock();
        let path = path.as_ref();
        let config = async {
            let kubeconfig = Kubeconfig::read_from(path)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
        };
        let config = match config.await {
            Ok(config) => config,
            Err(error) => panic!("{} cannot be used: {}", path.display(), causes(&error)),
        };
        let client = match ClientStack::new().connect(config.clone()) {
            Ok(client) => client,
            Err(error) => panic!("{} cannot be used: {}", path.display(), causes(&error)),
        };
        let namespace = crate::namespace::new_namespace(&client, PREFIX).await;
        Self::new(Server::Existing(Box::new(config)), namespace, false)
    }

    fn new(server: Server, namespace: String, watches_all: bool) -> Self {
        if !server.is_embedded() {
            require_wall_clock();
        }
        let client = match server.client_without_faults(&namespace) {
            Ok(client) => client,
            Err(error) => panic!("the cluster cannot be reached: {error}"),
        };
        let shared = Shared { server, client, namespace, runnables: Mutex::default() };
        Self { shared: Arc::new(shared), token: None, timeout: None, watches_all }
    }

    /// Returns the same cluster for controllers that run as this account, with its rights. The test
    /// itself keeps all rights.
    #[must_use]
    pub fn acting_as(&self, account: &Account) -> Self {
        Self { token: Some(account.token().into()), ..self.clone() }
    }

    /// Returns the same cluster for controllers with all rights.
    pub(crate) fn as_admin(&self) -> Self {
        Self { token: None, ..self.clone() }
    }

    /// Returns the same cluster with another time limit for waiting. Default: five minutes on the
    /// paused clock, where they cost nothing, and one minute on the wall clock.
    #[must_use]
    pub fn timeout(&self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self.clone() }
    }

    /// Returns the same cluster for controllers that watch all namespaces even on a shared server.
    /// They then see the objects of other tests.
    #[must_use]
    pub fn watch_all_namespaces(&self) -> Self {
        Self { watches_all: true, ..self.clone() }
    }

    /// Returns a client with all rights; its default namespace is the one of the test. The
    /// [faults](windlass_testserver::apiserver::ApiServer::faults) of an embedded server do not
    /// affect it: they are for the controllers.
    pub fn client(&self) -> Client {
        self.shared.client.clone()
    }

    /// Returns the namespace of the test.
    pub fn namespace(&self) -> &str {
        &self.shared.namespace
    }

    /// Returns the server, with its faults and accounts; `None` for that of a kubeconfig.
    pub fn test_server(&self) -> Option<&TestServer> {
        match &self.shared.server {
            Server::Test(cluster) => Some(cluster),
            Server::Existing(_) => None,
        }
    }

    /// Returns whether the server is embedded.
    pub fn is_embedded(&self) -> bool {
        self.shared.server.is_embedded()
    }

    /// Returns a client for a controller, of the account that it runs as.
    pub(crate) fn connect(&self, stack: ClientStack) -> Result<Client, String> {
        self.shared.server.connect(stack, self.token.as_deref(), self.namespace())
    }

    /// Returns a factory for one controller of the test. Its requests are recorded for
    /// `cargo windlass rbac`.
    pub(crate) fn factory(&self) -> SharedInformerFactory {
        let stack = ClientStack::new();
        self.factory_on(match Recording::start() {
            Some(recording) => recording.watch(stack),
            None => stack,
        })
    }

    /// Returns a factory whose requests are not recorded, for controllers that do not belong to the
    /// operator.
    pub(crate) fn unrecorded_factory(&self) -> SharedInformerFactory {
        self.factory_on(ClientStack::new())
    }

    fn factory_on(&self, stack: ClientStack) -> SharedInformerFactory {
        let client = match self.connect(stack) {
            Ok(client) => client,
            Err(error) => panic!("the controller has no client: {error}"),
        };
        let mut options = InformerOptions::new();
        if let Some(namespace) = self.watched_namespace() {
            options = options.namespace(namespace);
        }
        SharedInformerFactory::builder(client).defaults(options).build()
    }

    /// Returns the namespace that controllers watch; `None` for all.
    pub(crate) fn watched_namespace(&self) -> Option<&str> {
        (!self.watches_all).then(|| self.namespace())
    }

    /// Returns the time limit for waiting.
    pub(crate) fn limit(&self) -> Duration {
        self.timeout.unwrap_or_else(|| Clock::current().timeout())
    }

    /// Adds something that runs.
    pub(crate) fn add(&self, part: &Arc<Runnable>) {
        self.lock().push(Arc::downgrade(part));
    }

    /// Returns what runs.
    pub(crate) fn runnables(&self) -> Vec<Arc<Runnable>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Runnable>>> {
        self.shared.runnables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    fn is_embedded(&self) -> bool {
        matches!(self, Self::Test(cluster) if cluster.server().is_some())
    }

    /// Returns a client for the test itself, which faults do not affect.
    fn client_without_faults(&self, namespace: &str) -> Result<Client, String> {
        let stack = ClientStack::new();
        match self {
            Self::Test(cluster) if let Some(server) = cluster.server() => {
                Ok(stack.around(server.service().without_faults(), namespace))
            }
            _ => self.connect(stack, None, namespace),
        }
    }

    /// Returns a client with this token, or with all rights without one.
    fn connect(
        &self,
        stack: ClientStack,
        token: Option<&str>,
        namespace: &str,
    ) -> Result<Client, String> {
        let mut config = match self {
            Self::Test(cluster) => match (cluster.server(), cluster.control_plane()) {
                (Some(server), _) => {
                    return Ok(match token {
                        Some(token) => stack.around(server.service_with_token(token), namespace),
                        None => stack.around(server.service(), namespace),
                    });
                }
                (None, Some(real)) => real.config_as(token.unwrap_or_else(|| real.admin_token())),
                (None, None) => unreachable!("a test server is embedded or real"),
            },
            Self::Existing(config) => {
                let mut config = Config::clone(config);
                if let Some(token) = token {
                    config.auth_info = kube::config::AuthInfo::default();
                    config.auth_info.token = Some(token.to_owned().into());
                }
                config
            }
        };
        namespace.clone_into(&mut config.default_namespace);
        stack.connect(config).map_err(|error| causes(&error))
    }
}

/// # Panics
/// If the clock is paused: every request to a real server would time out at once.
fn require_wall_clock() {
    assert!(
        Clock::current() == Clock::Wall,
        "a server behind a socket needs the wall clock, and the clock of this test is paused: \
         leave out `start_paused`, or use `on_each_cluster!`"
    );
}

impl fmt::Debug for TestCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestCluster")
            .field("embedded", &self.is_embedded())
            .field("namespace", &self.namespace())
            .finish_non_exhaustive()
    }
}
