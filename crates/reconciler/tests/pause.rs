//! Objects that an annotation pauses.

mod stage;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass_indexer::ObjectKey;
use windlass_informer::Event;
use windlass_reconciler::{
    Action, Controller, Error, InactiveReason, Outcome, PAUSED_ANNOTATION, Predicate, Reconcile,
    RunContext, Watch,
};

use stage::{api, cluster, run, run_built, run_with};
use windlass_testkit::Log;

/// Says what is asked of it.
struct Reporter(mpsc::Sender<String>);

impl Reconcile<ConfigMap> for Reporter {
    async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        self.0.send("reconcile".to_owned()).await?;
        Ok(Action::Done)
    }

    async fn absent(&self, _: &ObjectKey, _: &RunContext) -> Result<Action, Error> {
        self.0.send("absent".to_owned()).await?;
        Ok(Action::Done)
    }

    /// As a condition would be written, and with a failure before that.
    async fn paused(&self, object: Arc<ConfigMap>, cx: &RunContext) -> Result<(), Error> {
        self.0.send(format!("paused, attempt {}", cx.attempt())).await?;
        if cx.attempt() == 1 {
            return Err(Error::msg("try again"));
        }
        let mut new = ConfigMap::clone(&object);
        new.data.get_or_insert_default().insert("ready".to_owned(), "paused".to_owned());
        cx.live().update(&*object, &new).await?;
        Ok(())
    }
}

async fn annotate(client: &Client, name: &str, value: Value) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {name: value}}}));
    api(client).patch("one", &PatchParams::default(), &patch).await.expect("patched");
}

async fn touch(client: &Client, value: &str) {
    let patch = Patch::Merge(json!({"data": {"touched": value}}));
    api(client).patch("one", &PatchParams::default(), &patch).await.expect("patched");
}

async fn expect_rest(calls: &mut mpsc::Receiver<String>) {
    let called = tokio::time::timeout(Duration::from_hours(1), calls.recv()).await;
    assert!(called.is_err(), "{called:?}");
}

#[tokio::test(start_paused = true)]
async fn paused_object_is_left_alone_until_it_is_not_paused() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut calls) = mpsc::channel(100);
    // Its predicate lets no annotation pass.
    let watch = Watch::<ConfigMap>::new().options(|options| options.namespace("default")).when(
        Predicate::new(|event| match event {
            Event::Updated { old, new } => {
                old.head().annotations_hash() == new.head().annotations_hash()
            }
            _ => true,
        }),
    );
    let running = run_built(client.clone(), Controller::of(watch), Reporter(said));
    assert_eq!(calls.recv().await.as_deref(), Some("reconcile"));

    annotate(&client, PAUSED_ANNOTATION, json!("true")).await;
    assert_eq!(calls.recv().await.as_deref(), Some("paused, attempt 1"));
    assert_eq!(calls.recv().await.as_deref(), Some("paused, attempt 2"));
    touch(&client, "1").await;
    expect_rest(&mut calls).await;
    let controller = &running.controller;
    assert_eq!(controller.status().paused, 1);
    let [inactive] = &controller.inactive()[..] else { panic!("one key") };
    assert_eq!(
        (inactive.key.to_string().as_str(), inactive.reason),
        ("default/one", InactiveReason::Paused)
    );
    let last = controller.runs(&inactive.key).pop().expect("a run");
    assert_eq!(last.outcome, Outcome::Paused);
    assert_eq!(api(&client).get("one").await.expect("read").data.expect("data")["ready"], "paused");

    annotate(&client, PAUSED_ANNOTATION, json!("no")).await;
    assert_eq!(calls.recv().await.as_deref(), Some("reconcile"));
    expect_rest(&mut calls).await;
    assert_eq!((controller.status().paused, controller.status().counts.paused), (0, 1));
    for line in ["is paused by its annotation windlass.dev/paused", "no longer paused"] {
        assert_eq!(log.lines_with(line).len(), 1, "{line}");
    }
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn clean_up_of_a_paused_object_waits_and_a_deleted_one_is_absent() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut calls) = mpsc::channel(100);
    let running = run(client.clone(), Reporter(said));
    assert_eq!(calls.recv().await.as_deref(), Some("reconcile"));
    let paused = json!({"metadata": {
        "finalizers": ["example.com/bucket"], "annotations": {PAUSED_ANNOTATION: "true"},
    }});
    let patch = Patch::Merge(paused);
    api(&client).patch("one", &PatchParams::default(), &patch).await.expect("patched");
    for attempt in 1..=2 {
        assert_eq!(calls.recv().await, Some(format!("paused, attempt {attempt}")));
    }
    api(&client).delete("one", &DeleteParams::default()).await.expect("deleted");
    expect_rest(&mut calls).await;
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api(&client).patch("one", &PatchParams::default(), &patch).await.expect("patched");
    assert_eq!(calls.recv().await.as_deref(), Some("absent"));
    assert_eq!(running.controller.status().paused, 0);
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn annotation_has_another_name_or_none() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    for (name, is_paused) in [(Some("example.com/hold"), true), (None, false)] {
        annotate(&client, "example.com/hold", json!("true")).await;
        annotate(&client, PAUSED_ANNOTATION, json!("true")).await;
        let (said, mut calls) = mpsc::channel(100);
        let running = run_with(client.clone(), |builder| builder.paused_by(name), Reporter(said));
        let called = calls.recv().await.expect("a call");
        assert_eq!(called.starts_with("paused"), is_paused, "{called}");
        running.end().await.expect("it stops");
    }
}
