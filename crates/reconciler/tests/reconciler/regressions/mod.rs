//! What once was wrong: each comment tells what the code did, and where, before the test was
//! written.

mod causes;
mod outcomes;
mod own_writes;
mod panics;
mod requests;
mod sources;
mod writes;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ObjectMeta, PartialObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use windlass_indexer::{Cached, ObjectKey};
use windlass_informer::{Resource, SharedInformerFactory};
use windlass_reconciler::{
    Action, Cause, Change, Class, Controller, Delay, Error, Finalize, Finalized, Outcome,
    Predicate, Reconcile, Run, RunContext, Watch,
};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule, WallClock};
use windlass_testserver::{Log, TestServer, on_each_server};
use windlass_workqueue::{Priority, RateLimiter};

use crate::stage::{api, cluster, create, does, run, run_on, run_with};

/// Long for a paused clock, and over at once.
const LONG: Duration = Duration::from_hours(2);

fn key(text: &str) -> ObjectKey {
    text.parse().expect("a key")
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}}))
        .expect("an object")
}

fn deployment(name: &str) -> Deployment {
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    });
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}}, "template": template,
    }}))
    .expect("an object")
}

fn secrets_come_late(cluster: &TestServer, by: Duration) {
    let server = cluster.server().expect("embedded");
    server.faults().add(FaultRule::new(Fault::DelayEvent(by)).resource("secrets"));
}

async fn touch(client: &kube::Client, name: &str, value: &str) {
    let patch = Patch::Merge(json!({"data": {"touched": value}}));
    api(client).patch(name, &PatchParams::default(), &patch).await.expect("patched");
}
