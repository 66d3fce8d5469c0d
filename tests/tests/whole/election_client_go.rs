//! Replicas of Windlass and of client-go contend for one Lease, as processes.
//!
//! Every replica is a user with a Role in the namespace of the Lease, and no other rights.

use std::path::{Path, PathBuf};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use windlass_tests::failover::{LEASE, check_history, lease_writes};
use windlass_tests::replica::Replica;
use windlass_testserver::{ControlPlane, ControlPlaneOptions, go_program};

const NAMESPACE: &str = "election";

/// A control plane, and a factory of replicas on it.
struct Arena {
    cluster: ControlPlane,
    client: kube::Client,
    client_go: PathBuf,
}

impl Arena {
    async fn start() -> Self {
        let client_go = go_program("election-go").expect("the Go program");
        let cluster = ControlPlane::start(ControlPlaneOptions::new().audit_log()).await;
        let cluster = cluster.expect("a control plane");
        let client = cluster.client().expect("a client");
        let arena = Self { cluster, client, client_go };
        let namespaces: Api<Namespace> = Api::all(arena.client.clone());
        create(&namespaces, json!({ "metadata": { "name": NAMESPACE } })).await;
        let role = json!({
            "metadata": { "name": "replica" },
            "rules": [{
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": ["get", "create", "update"],
            }],
        });
        create(&Api::<Role>::namespaced(arena.client.clone(), NAMESPACE), role).await;
        arena
    }

    async fn windlass(&self, name: &str) -> Replica {
        self.replica(Path::new(env!("CARGO_BIN_EXE_elector")), name).await
    }

    async fn client_go(&self, name: &str) -> Replica {
        self.replica(&self.client_go, name).await
    }

    async fn replica(&self, program: &Path, name: &str) -> Replica {
        let user = self.cluster.user(name).expect("a user");
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), NAMESPACE);
        let binding = json!({
            "metadata": { "name": name },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "replica",
            },
            "subjects": [{ "kind": "User", "name": name }],
        });
        create(&bindings, binding).await;
        let everywhere: Api<Lease> = Api::all(user.client().expect("a client"));
        let refused = everywhere.list(&ListParams::default()).await;
        refused.expect_err("it has no rights in the cluster");
        let flags = [
            format!("--namespace={NAMESPACE}"),
            format!("--name={LEASE}"),
            format!("--identity={name}"),
        ];
        Replica::start(program, &user, &flags)
    }

    async fn lease(&self) -> k8s_openapi::api::coordination::v1::LeaseSpec {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let lease = leases.get(LEASE).await.expect("the Lease is there");
        lease.spec.expect("it has a spec")
    }

    /// Checks that there was one leader at a time, and this number of changes.
    fn check_history(&self, changes: usize) {
        let log = self.cluster.audit_log().expect("the audit log");
        let writes = lease_writes(&log, NAMESPACE, LEASE);
        println!("{} writes of the Lease", writes.len());
        assert_eq!(check_history(&writes), Ok(changes));
    }
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let object = serde_json::from_value(object).expect("an object of the type");
    api.create(&PostParams::default(), &object).await.expect("it is created");
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn lease_that_is_released_goes_from_windlass_to_client_go_and_back() {
    let arena = Arena::start().await;
    let mut first = arena.windlass("windlass-1").await;
    first.wait_until_leading().await;
    let mut second = arena.client_go("client-go-1").await;
    second.wait_for_leader("windlass-1").await;

    first.stop().await;
    second.wait_until_leading().await;
    let spec = arena.lease().await;
    assert_eq!(spec.holder_identity.as_deref(), Some("client-go-1"));
    assert_eq!(spec.lease_transitions, Some(1), "client-go has counted on");

    let mut third = arena.windlass("windlass-2").await;
    third.wait_for_leader("client-go-1").await;
    second.stop().await;
    third.wait_until_leading().await;
    third.stop().await;
    let spec = arena.lease().await;
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some(""), Some(2)));
    arena.check_history(2);
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn lease_of_a_killed_leader_goes_from_windlass_to_client_go_and_back() {
    let arena = Arena::start().await;
    let mut first = arena.windlass("windlass-1").await;
    first.wait_until_leading().await;
    let mut second = arena.client_go("client-go-1").await;
    second.wait_for_leader("windlass-1").await;
    first.kill().await;
    second.wait_until_leading().await;

    let mut third = arena.windlass("windlass-2").await;
    third.wait_for_leader("client-go-1").await;
    second.kill().await;
    third.wait_until_leading().await;
    third.stop().await;
    arena.check_history(2);
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn leaders_among_both_kinds_of_replicas_follow_each_other() {
    let arena = Arena::start().await;
    let mut replicas = vec![
        arena.windlass("windlass-1").await,
        arena.client_go("client-go-1").await,
        arena.windlass("windlass-2").await,
        arena.client_go("client-go-2").await,
    ];
    let count = replicas.len();
    let mut is_killed = false;
    while !replicas.is_empty() {
        let leading = replicas.iter_mut().map(|replica| Box::pin(replica.wait_until_leading()));
        let ((), index, others) = futures::future::select_all(leading).await;
        drop(others);
        let leader = replicas.swap_remove(index);
        if is_killed {
            leader.kill().await;
        } else {
            leader.stop().await;
        }
        is_killed = !is_killed;
    }
    arena.check_history(count - 1);
}
