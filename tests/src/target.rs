//! The server that a case talks to: embedded, or real.
//!
//! Only this file knows how the servers are started and reached. A case has an embedded server to
//! itself. The real one is shared by all cases of the process, which run concurrently in namespaces
//! of their own; a case that disturbs the others, by compacting their history, asks to be
//! [`alone`](Target::alone).

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use kube::Client;
use kube::client::Body;
use kube::config::AuthInfo;
use serde_json::{Value, json};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tower::ServiceExt as _;
use windlass_apiserver::{ApiServer, Authorization, Fault, FaultRule, Rule, User};
use windlass_testserver::ControlPlane;

/// The token of a user with all rights, on the embedded server.
const ADMIN_TOKEN: &str = "admin-token";

/// The token of a user without rights.
const BOB_TOKEN: &str = "bob-token";

/// A token that is unknown to every server.
const UNKNOWN_TOKEN: &str = "unknown-token";

/// How long a case waits for asynchronous work. The real server's controllers take seconds; the
/// embedded server's work is immediate, so a missing event should fail soon.
const PATIENCE_REAL: Duration = Duration::from_secs(30);
const PATIENCE_EMBEDDED: Duration = Duration::from_secs(5);

/// Held shared by every case on the real server, and exclusively by a case that disturbs the
/// others.
static REAL_SERVER: RwLock<()> = RwLock::const_new(());

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A member of `system:masters`.
    Admin,
    /// The user `bob`, with no more rights than every user has.
    Bob,
    /// No token at all.
    Anonymous,
    /// A token that the server does not know.
    Stranger,
}

/// A server, and the right to use it.
pub(crate) enum Target {
    /// A fresh embedded server.
    Embedded(ApiServer),
    /// The real server of this process.
    Real(Arc<ControlPlane>, Turn),
}

/// The right to use the real server.
pub(crate) enum Turn {
    /// Together with other cases.
    Shared(#[expect(dead_code, reason = "it is held, not read")] RwLockReadGuard<'static, ()>),
    /// While no other case runs.
    Alone(#[expect(dead_code, reason = "it is held, not read")] RwLockWriteGuard<'static, ()>),
    /// While changing from one to the other.
    None,
}

impl Who {
    /// Returns how the transcript names the sender; `None` for the usual one.
    pub(crate) fn shown(self) -> Option<&'static str> {
        match self {
            Self::Admin => None,
            Self::Bob => Some("bob"),
            Self::Anonymous => Some("anonymous"),
            Self::Stranger => Some("unknown token"),
        }
    }
}

impl Target {
    /// Creates an embedded server that knows the tokens of [`Who`].
    pub(crate) fn embedded() -> Self {
        let reviews = "authorization.k8s.io";
        let server = ApiServer::builder()
            .token(ADMIN_TOKEN, User::named("admin"))
            .token(BOB_TOKEN, User::named("bob"))
            // As on a real cluster, all users may query their own rights.
            .rule(Rule::allow().user("bob").resource(reviews, "selfsubjectaccessreviews"))
            .rule(Rule::allow().user("bob").resource(reviews, "selfsubjectrulesreviews"))
            .rule(Rule::deny().user("bob"))
            .build();
        Self::Embedded(server)
    }

    /// Creates an embedded server that enforces roles, as the real one does.
    pub(crate) fn embedded_with_roles() -> Self {
        let admin = User::named("windlass-admin").group("system:masters").uid("windlass-admin");
        let server = ApiServer::builder()
            .authorization(Authorization::Rbac)
            .token(ADMIN_TOKEN, admin)
            .token(BOB_TOKEN, User::named("bob").uid("bob"))
            .build();
        Self::Embedded(server)
    }

    /// Returns the real server of this process.
    pub(crate) async fn real() -> Self {
        let cluster = ControlPlane::shared().await;
        let cluster = cluster.unwrap_or_else(|error| panic!("there is no real cluster: {error}"));
        Self::Real(cluster, Turn::Shared(REAL_SERVER.read().await))
    }

    /// Returns a client for requests of `who`. It must not retry requests.
    pub(crate) fn client(&self, who: Who) -> Client {
        match self {
            Self::Embedded(server) => embedded_client(server, who),
            Self::Real(cluster, _) => real_client(cluster, who),
        }
    }

    /// Waits until no other case uses this server, and keeps it that way. Must be called first in a
    /// case.
    pub(crate) async fn alone(&mut self) {
        if let Self::Real(_, turn) = self {
            *turn = Turn::None;
            *turn = Turn::Alone(REAL_SERVER.write().await);
        }
    }

    /// Compacts the history up to now: older versions can no longer be read.
    pub(crate) async fn compact(&self) {
        match self {
            Self::Embedded(server) => server.compact(),
            Self::Real(cluster, _) => drop(cluster.compact().await.expect("etcd must compact")),
        }
    }

    /// Overloads the server for bob's gets of config maps in this namespace, and for nothing else.
    ///
    /// On the real server, they belong to a priority level without a share of the concurrency: it
    /// rejects concurrent requests, but lets a single one pass. The embedded server has no priority
    /// levels, and uses a fault.
    pub(crate) async fn overload_for_bob(&self, namespace: &str) {
        match self {
            Self::Embedded(server) => {
                let busy = FaultRule::new(Fault::Fail { code: 429, retry_after: None });
                server.faults().add(busy.verb("get").resource("configmaps").namespace(namespace));
            }
            Self::Real(cluster, _) => {
                let client = real_client(cluster, Who::Admin);
                let level = json!({
                    "type": "Limited",
                    "limited": {
                        "nominalConcurrencyShares": 0,
                        "lendablePercent": 0,
                        "borrowingLimitPercent": 0,
                        "limitResponse": {"type": "Reject"},
                    },
                });
                let rules = json!([{
                    "subjects": [{"kind": "User", "user": {"name": "bob"}}],
                    "resourceRules": [{
                        "verbs": ["get"],
                        "apiGroups": [""],
                        "resources": ["configmaps"],
                        "namespaces": [namespace],
                    }],
                }]);
                let schema = json!({
                    "priorityLevelConfiguration": {"name": namespace},
                    "matchingPrecedence": 2,
                    "rules": rules,
                });
                flow_control(&client, "PriorityLevelConfiguration", namespace, level).await;
                flow_control(&client, "FlowSchema", namespace, schema).await;
            }
        }
    }

    /// Returns how long to wait for something that must happen.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            Self::Embedded(_) => PATIENCE_EMBEDDED,
            Self::Real(..) => PATIENCE_REAL,
        }
    }
}

/// Creates an object of API Priority and Fairness.
async fn flow_control(client: &Client, kind: &str, name: &str, spec: Value) {
    let group = "flowcontrol.apiserver.k8s.io/v1";
    let object = json!({
        "apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    let request = http::Request::post(format!("/apis/{group}/{}s", kind.to_lowercase()))
        .header(CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes())
        .expect("a request of a case must be well-formed");
    let _: Value = client.request(request).await.expect("the server must take it");
}

fn embedded_client(server: &ApiServer, who: Who) -> Client {
    let token = match who {
        Who::Admin => Some(ADMIN_TOKEN),
        Who::Bob => Some(BOB_TOKEN),
        Who::Stranger => Some(UNKNOWN_TOKEN),
        Who::Anonymous => None,
    };
    let header = token.map(|token| format!("Bearer {token}").parse::<HeaderValue>());
    let header = header.map(|header| header.expect("a token must be valid in a header"));
    let service = server.service().map_request(move |mut request: http::Request<Body>| {
        if let Some(header) = &header {
            request.headers_mut().insert(AUTHORIZATION, header.clone());
        }
        request
    });
    Client::new(service, "default")
}

fn real_client(cluster: &ControlPlane, who: Who) -> Client {
    let mut config = match who {
        Who::Admin => cluster.config(),
        Who::Bob => cluster.config_as(cluster.powerless_token()),
        Who::Stranger => cluster.config_as(UNKNOWN_TOKEN),
        Who::Anonymous => {
            let mut config = cluster.config();
            config.auth_info = AuthInfo::default();
            config
        }
    };
    // A case needs to see answers such as 429 and 504.
    config.default_retry = false;
    Client::try_from(config).expect("a client must be possible")
}
