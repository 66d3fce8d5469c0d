//! The handle of a server: created by a builder, reached as a service or over loopback, with the
//! methods by which tests control it.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::json;

use crate::accounts::Signer;
use crate::auth::{Auth, Authorization, Rule};
use crate::clock::WallClock;
use crate::controllers::owners::Owners;
use crate::fault::Faults;
use crate::ids::Ids;
use crate::kinds::Registry;
use crate::object::Key;
use crate::rbac::Rbac;
use crate::service::ApiService;
use crate::shared::Shared;
use crate::state::{ObjectChange, State};
use crate::store::{Store, StoreSnapshot};
use crate::user::User;
use crate::webhook::backend::Webhooks;
use crate::write::apply::tracking::{Tracking, Writer};

/// An API server in memory. Clones are handles of the same server.
///
/// ```
/// use windlass_apiserver::ApiServer;
///
/// let server = ApiServer::new();
/// // Hand it to a client: kube::Client::new(server.service(), "default")
/// let service = server.service();
/// # drop(service);
/// ```
#[derive(Debug, Clone)]
pub struct ApiServer {
    pub(crate) shared: Arc<Shared>,
}

/// Settings of an [`ApiServer`].
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    seed: u64,
    clock: WallClock,
    history: usize,
    collects: bool,
    collects_by_step: bool,
    creates_accounts: bool,
    auth: Auth,
}

/// A saved state of a server, for [`ApiServer::restore`].
#[derive(Debug, Clone)]
pub struct Snapshot {
    stored: StoreSnapshot,
    registry: Registry,
    served: std::collections::BTreeMap<String, serde_json::Value>,
    owners: Owners,
    uncollected: Option<VecDeque<ObjectChange>>,
    rbac: Option<Arc<Rbac>>,
    has_deep: bool,
}

/// The number of changes per kind that watches and lists can read from the past. The real server
/// keeps about as many.
const HISTORY_DEFAULT: usize = 10_000;

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

impl ApiServer {
    /// Creates a server with the defaults of [`ApiServer::builder`].
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns the default settings of a server.
    pub fn builder() -> Builder {
        Builder {
            seed: 0,
            clock: WallClock::system(),
            history: HISTORY_DEFAULT,
            collects: true,
            collects_by_step: false,
            creates_accounts: false,
            auth: Auth::default(),
        }
    }

    /// Returns the server as a service, for `kube::Client::new` or any HTTP server. It needs no
    /// socket, and waits only on tokio's clock.
    pub fn service(&self) -> ApiService {
        ApiService::new(self.shared.clone())
    }

    /// Returns the service with a bearer token, which is added to every request without one.
    ///
    /// # Panics
    /// If a header cannot contain the token.
    pub fn service_with_token(&self, token: &str) -> ApiService {
        self.service().with_token(token)
    }

    /// Returns the fault rules.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Returns the registry of webhooks that the server does not reach by their URL.
    pub fn webhooks(&self) -> &Webhooks {
        &self.shared.webhooks
    }

    /// Returns the revision of the last change.
    pub fn revision(&self) -> u64 {
        self.shared.state().store.revision()
    }

    /// Returns how many objects the server stores, and their size in bytes of JSON.
    pub fn size(&self) -> (usize, usize) {
        self.shared.state().store.size()
    }

    /// Drops the history: watches and lists from before now get 410.
    pub fn compact(&self) {
        self.shared.state().store.compact();
    }

    /// Runs the next step of a garbage collector that works [by step](Builder::garbage_by_step): it
    /// deletes one object, or removes a finalizer or owner references from one. Returns whether
    /// there was something to do.
    ///
    /// ```
    /// # fn let_controllers_act() {}
    /// use windlass_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder().garbage_by_step(true).build();
    /// // Delete an object in the foreground. It waits for the objects that it owns.
    /// while server.collect_step() {
    ///     // A controller sees what the step did, and acts before the next one.
    ///     let_controllers_act();
    /// }
    /// ```
    pub fn collect_step(&self) -> bool {
        self.shared.state().collect_step()
    }

    /// Changes [`Builder::garbage_by_step`] while the server runs. Turning it off collects all
    /// remaining garbage at once.
    pub fn garbage_by_step(&self, on: bool) {
        let mut state = self.shared.state();
        if on {
            state.uncollected.get_or_insert_default();
        } else {
            while state.collect_step() {}
            state.uncollected = None;
        }
    }

    /// Saves the current state for [`Self::restore`].
    pub fn snapshot(&self) -> Snapshot {
        let state = self.shared.state();
        Snapshot {
            stored: state.store.store_snapshot(),
            registry: state.registry.clone(),
            served: state.served.clone(),
            owners: state.owners.clone(),
            uncollected: state.uncollected.clone(),
            rbac: state.rbac.clone(),
            has_deep: self.shared.has_deep(),
        }
    }

    /// Goes back to an earlier state, resource versions included, as a cluster that is restored
    /// from a backup does. Every watch ends.
    pub fn restore(&self, snapshot: &Snapshot) {
        if snapshot.has_deep {
            self.shared.note_depth(usize::MAX);
        }
        let mut state = self.shared.state();
        state.store.restore(snapshot.stored.clone());
        state.registry.restore(&snapshot.registry);
        state.served = snapshot.served.clone();
        state.owners = snapshot.owners.clone();
        if let Some(uncollected) = &mut state.uncollected {
            *uncollected = snapshot.uncollected.clone().unwrap_or_default();
        }
        state.rbac.clone_from(&snapshot.rbac);
        state.read_configurations();
    }
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// The seed of uids, generated names and the chances of faults. Default: 0. The same seed,
    /// clock and requests give the same bytes.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The clock of stored timestamps. Default: the machine's.
    pub fn clock(mut self, clock: WallClock) -> Self {
        self.clock = clock;
        self
    }

    /// How many changes of each kind can be watched or listed from the past. Default: 10,000.
    pub fn history(mut self, changes: usize) -> Self {
        self.history = changes.max(1);
        self
    }

    /// Whether garbage is collected by owner references and deleted namespaces are emptied.
    /// Default: yes.
    pub fn garbage_collection(mut self, on: bool) -> Self {
        self.collects = on;
        self
    }

    /// Whether the garbage collector waits for [`ApiServer::collect_step`] before each of its
    /// steps, instead of finishing after each request. So a test can act between two steps: for
    /// instance, a controller that recreates what the collector has deleted keeps a foreground
    /// deletion from ending. Namespaces are still emptied at once. Default: no.
    pub fn garbage_by_step(mut self, on: bool) -> Self {
        self.collects_by_step = on;
        self
    }

    /// Whether every namespace gets the service account `default`, as on a real cluster, where
    /// kube-controller-manager creates it. With [`Authorization::Rbac`] every namespace gets it
    /// anyway. Default: no.
    pub fn default_accounts(mut self, on: bool) -> Self {
        self.creates_accounts = on;
        self
    }

    /// Adds a bearer token and its user. Once there is a token, requests without one are anonymous
    /// and may do nothing. Default: no tokens, and everyone may do everything.
    pub fn token(mut self, token: impl Into<String>, user: User) -> Self {
        self.auth.add_token(token.into(), user);
        self
    }

    /// Adds an access rule; the first rule that matches a request decides. Default: no rules, and
    /// everything is allowed.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.auth.add_rule(rule);
        self
    }

    /// How requests that no access rule matches are authorized. Default:
    /// [`Authorization::AlwaysAllow`].
    ///
    /// With [`Authorization::Rbac`] and without tokens, requests without a token have the rights of
    /// `system:masters`, so that the first roles can be created. This includes everyone who can
    /// reach the server.
    pub fn authorization(mut self, mode: Authorization) -> Self {
        self.auth.mode = mode;
        self
    }

    /// Starts the server: it holds the namespaces that every cluster has.
    pub fn build(self) -> ApiServer {
        let mut state = State {
            store: Store::new(self.history),
            registry: Registry::new(),
            ids: Ids::from_seed(self.seed),
            clock: self.clock,
            owners: Owners::default(),
            touched: VecDeque::new(),
            served: std::collections::BTreeMap::new(),
            openapi: crate::openapi::Cache::default(),
            collects: self.collects,
            uncollected: self.collects_by_step.then(VecDeque::new),
            creates_accounts: self.creates_accounts || self.auth.uses_roles(),
            rbac: self.auth.uses_roles().then(Arc::default),
            sender: None,
            warnings: Vec::new(),
            hooks: Arc::default(),
            replay: None,
        };
        bootstrap(&mut state);
        let (signer, faults) = (Signer::from_seed(self.seed), Faults::from_seed(self.seed));
        ApiServer { shared: Arc::new(Shared::new(state, self.auth, signer, faults)) }
    }
}

/// Creates the objects that exist before the first request.
fn bootstrap(state: &mut State) {
    let kind = state.registry.namespaces().clone();
    for name in NAMESPACES {
        let target = crate::target::Target {
            kind: kind.clone(),
            version: 0,
            namespace: String::new(),
            name: String::new(),
            subresource: String::new(),
        };
        let namespace = json!({"metadata": {"name": name}});
        let namespace = namespace.as_object().cloned().unwrap_or_default();
        state
            .create(&target, namespace, false, Tracking::By(Writer::default()))
            .expect("a namespace of a new server must be valid");
        debug_assert!(state.store.get(kind.storage, &Key::new("", name)).is_some());
    }
    if state.rbac.is_some() {
        state.create_default_roles();
    }
    state.run_controllers();
}
