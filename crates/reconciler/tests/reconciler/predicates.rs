//! Which changes of an object pass which predicate, and how predicates are combined.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use windlass_reconciler::{Action, Controller, Predicate, RunContext, Watch};

use crate::stage::{api, cluster, does, run_built};

const LABELS: &str = "labels";
const ANNOTATIONS: &str = "annotations";
const DATA: &str = "data";
const FINALIZERS: &str = "finalizers";
const DELETION: &str = "deletion";

/// All that happens to an object, in this order, after it was there.
const ALL: [&str; 5] = [LABELS, ANNOTATIONS, DATA, FINALIZERS, DELETION];

/// What a predicate lets pass.
#[derive(Debug, PartialEq, Eq)]
struct Passed {
    /// Whether the object ran when the controller began.
    is_new: bool,
    changes: Vec<&'static str>,
}

async fn change(client: &Client, what: &str) {
    let patch = |patch: Value| async move {
        let patch = Patch::Merge(patch);
        api(client).patch("one", &PatchParams::default(), &patch).await.expect("patched");
    };
    match what {
        LABELS => patch(json!({"metadata": {"labels": {"a": "1"}}})).await,
        ANNOTATIONS => patch(json!({"metadata": {"annotations": {"a": "1"}}})).await,
        DATA => patch(json!({"data": {"a": "1"}})).await,
        FINALIZERS => patch(json!({"metadata": {"finalizers": ["example.com/a"]}})).await,
        _ => {
            // The finalizer keeps it: its deletion is asked for, and no more.
            let deleted = api(client).delete("one", &DeleteParams::default()).await;
            assert!(deleted.expect("accepted").is_left(), "it stays");
        }
    }
}

/// Lets everything happen to an object, and returns what of it led to runs.
async fn passed(predicate: Predicate<ConfigMap>) -> Passed {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let reporter = does(move |_: Arc<ConfigMap>, _: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            said.send(()).await?;
            Ok(Action::done())
        })
    });
    let watch = Watch::<ConfigMap>::new().options(|o| o.namespace("default")).when(predicate);
    let running = run_built(client.clone(), Controller::named("configmap", watch), reporter);
    let mut has_run =
        async || matches!(timeout(Duration::from_mins(1), runs.recv()).await, Ok(Some(())));
    let is_new = has_run().await;
    let mut changes = Vec::new();
    for what in ALL {
        change(&client, what).await;
        if has_run().await {
            changes.push(what);
        }
    }
    running.end().await.expect("it stops");
    Passed { is_new, changes }
}

#[tokio::test(start_paused = true)]
async fn each_asks_for_its_own_part_of_an_object() {
    let new = |changes: &[&'static str]| Passed { is_new: true, changes: changes.to_vec() };
    assert_eq!(passed(Predicate::labels_changed()).await, new(&[LABELS]));
    assert_eq!(passed(Predicate::annotations_changed()).await, new(&[ANNOTATIONS]));
    assert_eq!(passed(Predicate::finalizers_changed()).await, new(&[FINALIZERS, DELETION]));
    assert_eq!(passed(Predicate::version_changed()).await, new(&ALL));
    // A ConfigMap has no generation, so that any change may be one of what it asks for.
    assert_eq!(passed(Predicate::generation_changed()).await, new(&ALL));
}

#[tokio::test(start_paused = true)]
async fn predicates_are_combined() {
    let [labels, annotations] = [Predicate::labels_changed(), Predicate::annotations_changed()];
    let either = passed(labels.clone().or(annotations.clone())).await;
    assert_eq!(either, Passed { is_new: true, changes: vec![LABELS, ANNOTATIONS] });
    let both = passed(labels.clone().and(annotations)).await;
    assert_eq!(both, Passed { is_new: true, changes: Vec::new() });
    // What is new passes one that asks for a change, and so not its opposite.
    let opposite = passed(labels.not()).await;
    assert_eq!(
        opposite,
        Passed { is_new: false, changes: vec![ANNOTATIONS, DATA, FINALIZERS, DELETION] }
    );
    let own =
        passed(Predicate::new(|event| event.object().head().deletion_timestamp().is_some())).await;
    assert_eq!(own, Passed { is_new: false, changes: vec![DELETION] });
}
