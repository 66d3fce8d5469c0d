//! What the tests share: the operator at work on a cluster.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub mod gadget;

use ::gadget_operator::{definitions, manager};
use kube::api::ObjectMeta;
use windlass::prelude::Options;
use windlass_testing::{Running, TestCluster, TestObject};

/// The operator at work on a cluster in this process, and what makes pods of Deployments there.
pub async fn at_work() -> (TestCluster, [Running; 2]) {
    let cluster = TestCluster::embedded();
    for definition in definitions() {
        cluster.install(&definition).await;
    }
    let operator = start(&cluster, "default");
    let workloads = cluster.run_workloads(|workloads| workloads);
    cluster.wait_until_quiet().await;
    (cluster, [operator, workloads])
}

/// Starts the operator, with its Lease in this namespace.
pub fn start(cluster: &TestCluster, lease_namespace: &str) -> Running {
    let mut options = Options::default();
    options.leader_election_namespace = Some(lease_namespace.to_owned());
    cluster.run_manager(manager(options))
}

pub async fn stop(running: [Running; 2]) {
    for one in running {
        one.stop().await;
    }
}

/// The metadata of an object; `None` if it is not there.
pub async fn metadata<K: TestObject>(cluster: &TestCluster, name: &str) -> Option<ObjectMeta> {
    cluster.get_opt::<K>(name).await.map(|object| object.meta().clone())
}
