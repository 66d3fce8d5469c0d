//! Three replicas of an operator as processes under load. The leader is killed and paused in turn:
//! nothing is lost, nothing is duplicated, and only the leader writes.
//!
//! `WINDLASS_FAILOVERS` is the number of failovers (default: 3), `WINDLASS_SEED` seeds the load
//! (default: 1).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_tests::failover::{
    COUNT, LABEL, LEASE, SEEN, VALUE, WORKERS, check_history, late_writes, lease_writes,
};
use windlass_tests::replica::Replica;
use windlass_testserver::{CLEANUP_CONTROLLERS, ControlPlane, ControlPlaneOptions};

const NAMESPACE: &str = "failover";
const REPLICAS: usize = 3;

/// The number of clients that change parents all the time, and the maximum of parents for each.
const CLIENTS: u64 = 4;
const PARENTS: usize = 20;

/// The pause between two changes of a client, and between two checks of the cluster.
const PAUSE: Duration = Duration::from_millis(20);

/// How long the cluster may take to settle. Only a failing test waits for all of it.
const SETTLE_TIMEOUT: Duration = Duration::from_mins(2);

/// The running replicas.
struct Fleet {
    cluster: ControlPlane,
    client: kube::Client,
    replicas: Vec<Replica>,
    started: usize,
    /// Replicas that could not renew in time, because the machine was too busy.
    lost: usize,
}

/// What the load has written to an existing parent.
#[derive(Clone, Debug)]
struct Parent {
    uid: String,
    value: u64,
    /// How many values it has had.
    values: u64,
}

type Parents = BTreeMap<String, Parent>;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn failovers_under_load_lose_nothing_and_double_nothing() {
    let (failovers, seed) = (variable("WINDLASS_FAILOVERS", 3), variable("WINDLASS_SEED", 1));
    println!("replay with: WINDLASS_FAILOVERS={failovers} WINDLASS_SEED={seed}");
    let mut fleet = Fleet::start().await;
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let clients = (0..CLIENTS).map(|client| {
        let rng = fastrand::Rng::with_seed(seed.wrapping_mul(CLIENTS).wrapping_add(client));
        tasks.spawn(change_parents(fleet.maps(), client, rng, stop.clone()))
    });
    let clients: Vec<_> = clients.collect();

    let (mut leader, mut paused) = (fleet.wait_for_leader("").await, BTreeMap::new());
    for failover in 0..failovers {
        fleet.wait_until_working(failover).await;
        let ended = fleet.take(&leader);
        let began = Instant::now();
        if failover % 2 == 0 {
            ended.kill().await;
            leader = fleet.wait_for_leader(&leader).await;
        } else {
            ended.signal(Signal::SIGSTOP);
            let next = fleet.wait_for_leader(&leader).await;
            paused.insert(std::mem::replace(&mut leader, next), Timestamp::now());
            ended.signal(Signal::SIGCONT);
            let status = ended.wait().await;
            assert!(!status.success(), "a replica that lost the leadership ends with an error");
        }
        println!("failover {failover}: {leader} leads after {:?}", began.elapsed());
        fleet.add().await;
    }
    fleet.wait_until_working(failovers).await;
    stop.cancel();
    let parents = join_all(clients).await.into_iter();
    let parents = parents.flat_map(|parents| parents.expect("the client must not fail")).collect();
    fleet.wait_until_settled(parents).await;
    fleet.check_audit_log(&paused, usize::try_from(failovers).expect("not that many")).await;
}

impl Fleet {
    async fn start() -> Self {
        let options = ControlPlaneOptions::new().controllers(CLEANUP_CONTROLLERS).audit_log();
        let cluster = ControlPlane::start(options).await.expect("a control plane");
        let client = cluster.client().expect("a client");
        let namespace = json!({ "metadata": { "name": NAMESPACE } });
        let namespaces: Api<Namespace> = Api::all(client.clone());
        create(&namespaces, namespace).await;
        // No rights outside of the namespace.
        let rights = |group: &str, resource: &str, verbs: &[&str]| json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
        let role = json!({
            "metadata": { "name": "replica" },
            "rules": [
                rights("coordination.k8s.io", "leases", &["get", "create", "update"]),
                rights("", "configmaps", &["get", "list", "watch", "create", "update", "patch"]),
            ],
        });
        create(&Api::<Role>::namespaced(client.clone(), NAMESPACE), role).await;
        let mut fleet = Self { cluster, client, replicas: Vec::new(), started: 0, lost: 0 };
        for _ in 0..REPLICAS {
            fleet.add().await;
        }
        fleet
    }

    /// Starts a replica with a new user.
    async fn add(&mut self) {
        self.started += 1;
        let user = self.cluster.user(&format!("replica-{}", self.started)).expect("a user");
        let binding = json!({
            "metadata": { "name": user.name() },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "replica",
            },
            "subjects": [{ "kind": "User", "name": user.name() }],
        });
        create(&Api::<RoleBinding>::namespaced(self.client.clone(), NAMESPACE), binding).await;
        let program = Path::new(env!("CARGO_BIN_EXE_replica"));
        let flags = [
            format!("--namespace={NAMESPACE}"),
            format!("--leader-election-namespace={NAMESPACE}"),
            "--health-probe-bind-address=0".to_owned(),
            "--metrics-bind-address=0".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        self.replicas.push(Replica::start(program, &user, &flags));
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn take(&mut self, name: &str) -> Replica {
        let index = self.replicas.iter().position(|replica| replica.name() == name);
        self.replicas.swap_remove(index.expect("it runs"))
    }

    /// Waits until a running replica other than `not` leads.
    async fn wait_for_leader(&mut self, not: &str) -> String {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        loop {
            self.replace_lost().await;
            let lease = leases.get_opt(LEASE).await.expect("the server answers");
            let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
            // The name of the pod is followed by random digits.
            let holder = holder.split('_').next().unwrap_or_default();
            if holder != not && self.replicas.iter().any(|replica| replica.name() == holder) {
                return holder.to_owned();
            }
            sleep(PAUSE).await;
        }
    }

    /// Replaces replicas that have ended by themselves, as Kubernetes does.
    async fn replace_lost(&mut self) {
        let mut running = Vec::new();
        for mut replica in std::mem::take(&mut self.replicas) {
            if replica.has_ended() {
                println!("{} could not renew its Lease in time", replica.name());
                self.lost += 1;
                self.add().await;
            } else {
                running.push(replica);
            }
        }
        self.replicas.append(&mut running);
    }

    /// Waits until a new parent has its child.
    async fn wait_until_working(&mut self, failover: u64) {
        let (maps, name) = (self.maps(), format!("probe-{failover}"));
        create(&maps, parent(&name, 1)).await;
        while maps.get_opt(&format!("{name}-child")).await.expect("an answer").is_none() {
            self.replace_lost().await;
            sleep(PAUSE).await;
        }
        maps.delete(&name, &DeleteParams::background()).await.expect("it is deleted");
    }

    /// Waits until every parent has its child, and there are no other children.
    async fn wait_until_settled(&mut self, parents: Parents) {
        let maps = self.maps();
        let mut wrong = String::new();
        let settled = timeout(SETTLE_TIMEOUT, async {
            while let Err(difference) = compare(&maps, &parents).await {
                wrong = difference;
                self.replace_lost().await;
                sleep(PAUSE).await;
            }
        });
        let is_settled = settled.await.is_ok();
        assert!(is_settled, "not settled within {SETTLE_TIMEOUT:?}: {wrong}");
        println!("{} parents have their children", parents.len());
    }

    /// `paused` has the paused replicas, with the time at which each was resumed.
    async fn check_audit_log(mut self, paused: &BTreeMap<String, Timestamp>, failovers: usize) {
        for replica in std::mem::take(&mut self.replicas) {
            replica.stop().await;
        }
        let log = self.cluster.audit_log().expect("the audit log");
        let leases = lease_writes(&log, NAMESPACE, LEASE);
        let changes = check_history(&leases).expect("one holder at a time");
        assert!(changes >= failovers, "{changes} changes of the holder");
        assert_eq!(leases.last().map(|write| write.holder.as_str()), Some(""), "it was released");

        let is_replica = |user: &str| user.starts_with("replica-");
        let (late, total) = late_writes(&log, &leases, is_replica);
        println!("{total} writes, {} of them late, {} replicas lost", late.len(), self.lost);
        for write in &late {
            println!("late: {write:?}");
            let times = write.begun.zip(paused.get(&write.user).copied());
            let is_from_before = times.is_some_and(|(begun, went_on)| begun < went_on);
            assert!(is_from_before, "it began after the leadership was over: {write:?}");
            assert!(write.is_harmless, "{write:?}");
        }
        // Each worker may have passed the fence with one write when its process was paused.
        for user in paused.keys() {
            let count = late.iter().filter(|write| write.user == *user).count();
            assert!(count <= WORKERS, "{count} late writes of {user}");
        }
        let created_twice = log.iter().filter(|record| {
            is_replica(&record.user) && record.verb == "create" && record.resource == "configmaps"
        });
        assert_eq!(created_twice.count(), 0, "everything is applied");
    }
}

/// Creates, changes and deletes parents until it is stopped, and returns the remaining ones.
async fn change_parents(
    maps: Api<ConfigMap>,
    client: u64,
    mut rng: fastrand::Rng,
    stop: CancellationToken,
) -> Parents {
    let mut parents = Parents::new();
    while !stop.is_cancelled() {
        let name = format!("parent-{client}-{}", rng.usize(0..PARENTS));
        let value = rng.u64(..);
        match parents.get_mut(&name) {
            None => {
                let made = create(&maps, parent(&name, value)).await;
                let uid = made.uid().expect("the server sets it");
                parents.insert(name, Parent { uid, value, values: 1 });
            }
            Some(_) if rng.u8(0..6) == 0 => {
                maps.delete(&name, &DeleteParams::background()).await.expect("it is deleted");
                parents.remove(&name);
            }
            Some(parent) => {
                let patch = Patch::Merge(json!({ "data": { VALUE: value.to_string() } }));
                let patched = maps.patch(&name, &PatchParams::default(), &patch).await;
                patched.expect("it is changed");
                (parent.value, parent.values) = (value, parent.values + 1);
            }
        }
        sleep(PAUSE).await;
    }
    parents
}

/// Returns an error that describes what is wrong.
async fn compare(maps: &Api<ConfigMap>, parents: &Parents) -> Result<(), String> {
    let list = async |kind: &str| {
        let params = ListParams::default().labels(&format!("{LABEL}={kind}"));
        let found = maps.list(&params).await.expect("the server answers");
        let by_name = |map: ConfigMap| (map.name_any(), map);
        found.items.into_iter().map(by_name).collect::<BTreeMap<_, _>>()
    };
    let (found, children) = (list("parent").await, list("child").await);
    if found.len() != parents.len() || children.len() != parents.len() {
        let counts = (found.len(), children.len());
        return Err(format!("{counts:?} parents and children instead of {}", parents.len()));
    }
    for (name, wanted) in parents {
        let found = found.get(name).ok_or(format!("{name} is gone"))?;
        let child = children.get(&format!("{name}-child")).ok_or(format!("{name}: no child"))?;
        let value = Some(wanted.value.to_string());
        let of_child = child.data.as_ref().and_then(|data| data.get(VALUE)).cloned();
        let owner = child.owner_references().first().map(|owner| owner.uid.clone());
        if of_child != value || owner.as_ref() != Some(&wanted.uid) {
            return Err(format!("{name}: the child has {of_child:?} instead of {value:?}"));
        }
        if found.annotations().get(SEEN).cloned() != value {
            return Err(format!("{name}: the value was not seen"));
        }
        let count = found.annotations().get(COUNT).and_then(|count| count.parse::<u64>().ok());
        let is_possible = count.is_some_and(|count| (1..=wanted.values).contains(&count));
        // It cannot become right later.
        assert!(is_possible, "{name} had {} values, and {count:?} were counted", wanted.values);
    }
    Ok(())
}

fn parent(name: &str, value: u64) -> serde_json::Value {
    json!({
        "metadata": { "name": name, "labels": { LABEL: "parent" } },
        "data": { VALUE: value.to_string() },
    })
}

async fn create<K>(api: &Api<K>, object: serde_json::Value) -> K
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let object = serde_json::from_value(object).expect("an object of the type");
    api.create(&PostParams::default(), &object).await.expect("it is created")
}
