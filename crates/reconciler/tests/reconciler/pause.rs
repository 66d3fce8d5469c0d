//! Objects that an annotation pauses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use windlass_indexer::ObjectKey;
use windlass_informer::Event;
use windlass_reconciler::{
    Action, Controller, ControllerBuilder, Error, InactiveReason, Outcome, PAUSED_ANNOTATION,
    Predicate, Reconcile, RunContext, Watch,
};

use crate::stage::{Running, api, cluster, config_map, create, run_built, run_with};
use windlass_testserver::Log;

/// Says what is asked of it.
struct Reporter(mpsc::Sender<String>);

impl Reconcile<ConfigMap> for Reporter {
    async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        self.0.send("reconcile".to_owned()).await?;
        Ok(Action::done())
    }

    async fn absent(&self, _: &ObjectKey, _: &RunContext) -> Result<Action, Error> {
        self.0.send("absent".to_owned()).await?;
        Ok(Action::done())
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
            Event::Updated { old, new, .. } => {
                old.head().annotations_hash() == new.head().annotations_hash()
            }
            _ => true,
        }),
    );
    let running =
        run_built(client.clone(), Controller::named("configmap", watch).pausable(), Reporter(said));
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
    let running = run_with(client.clone(), ControllerBuilder::pausable, Reporter(said));
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

/// Its hook makes a child, which is refused for an owner that is being deleted.
struct MakesWhilePaused(mpsc::Sender<String>);

impl Reconcile<ConfigMap> for MakesWhilePaused {
    async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        self.0.send("reconcile".to_owned()).await?;
        Ok(Action::done())
    }

    async fn paused(&self, object: Arc<ConfigMap>, cx: &RunContext) -> Result<(), Error> {
        self.0.send("paused".to_owned()).await?;
        cx.children(&object).apply(config_map("child")).prune().await.map(drop)
    }
}

#[tokio::test(start_paused = true)]
async fn object_that_is_being_deleted_runs_when_its_pause_ends() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let paused = json!({"metadata": {
        "finalizers": ["example.com/bucket"], "annotations": {PAUSED_ANNOTATION: "true"},
    }});
    api(&client)
        .patch("one", &PatchParams::default(), &Patch::Merge(paused))
        .await
        .expect("paused");
    api(&client).delete("one", &DeleteParams::default()).await.expect("deleted");
    let (said, mut calls) = mpsc::channel(100);
    // As the generation, it does not change with the annotation.
    let watch = Watch::<ConfigMap>::new()
        .options(|options| options.namespace("default"))
        .when(Predicate::new(|event| !matches!(event, Event::Updated { .. })));
    let builder = Controller::named("maker", watch).pausable().makes::<ConfigMap>();
    let running = run_built(client.clone(), builder, MakesWhilePaused(said));
    assert_eq!(calls.recv().await.as_deref(), Some("paused"));
    expect_rest(&mut calls).await;
    assert_eq!(running.controller.status().paused, 1);
    annotate(&client, PAUSED_ANNOTATION, json!(null)).await;
    let called = tokio::time::timeout(Duration::from_hours(1), calls.recv()).await;
    assert_eq!(called.expect("its deletion goes on").as_deref(), Some("reconcile"));
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn annotation_has_another_name_or_none() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let by_hold: Change = |builder| builder.paused_by("example.com/hold");
    let cases: [(Change, bool); 2] = [(by_hold, true), (|builder| builder, false)];
    for (change, is_paused) in cases {
        annotate(&client, "example.com/hold", json!("true")).await;
        annotate(&client, PAUSED_ANNOTATION, json!("true")).await;
        let (said, mut calls) = mpsc::channel(100);
        let running = run_with(client.clone(), change, Reporter(said));
        let called = calls.recv().await.expect("a call");
        assert_eq!(called.starts_with("paused"), is_paused, "{called}");
        running.end().await.expect("it stops");
    }
}

type Change = fn(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap>;

/// Says which object runs, and whether it is paused. The hook of a paused object ends when it may.
struct Names {
    said: mpsc::Sender<String>,
    may_end: Arc<Semaphore>,
}

impl Reconcile<ConfigMap> for Names {
    async fn reconcile(&self, _: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        self.said.send(cx.key().name().to_owned()).await?;
        Ok(Action::done())
    }

    async fn paused(&self, _: Arc<ConfigMap>, cx: &RunContext) -> Result<(), Error> {
        self.said.send(format!("{} is paused", cx.key().name())).await?;
        self.may_end.acquire().await?.forget();
        Ok(())
    }
}

/// A controller that ignores what happens to the object `one`. Its handler waits at the object
/// `gate`, and meanwhile the notices of each other object merge.
struct HeldUp {
    running: Running,
    client: Client,
    calls: mpsc::Receiver<String>,
    by_hand: mpsc::Sender<ObjectKey>,
    hooks_may_end: Arc<Semaphore>,
    open_gate: std::sync::mpsc::Sender<()>,
}

impl HeldUp {
    /// Runs it until its handler is held up.
    async fn run(client: Client) -> Self {
        let (said, mut calls) = mpsc::channel(100);
        let (arrive, mut arrived) = mpsc::channel(1);
        let (open_gate, gate) = std::sync::mpsc::channel();
        let gate = Mutex::new(gate);
        let ignores_changes = Predicate::new(move |event: &Event<ConfigMap>| {
            if event.key().name() == "gate" {
                arrive.try_send(()).expect("the test listens");
                gate.lock().expect("not poisoned").recv().expect("the test opens it");
            }
            event.key().name() != "one" || matches!(event, Event::Added { initial: true, .. })
        });
        let watch = Watch::<ConfigMap>::new()
            .options(|options| options.namespace("default").merge_above(0))
            .when(ignores_changes);
        let (by_hand, mut keys) = mpsc::channel(10);
        let keys = futures::stream::poll_fn(move |cx| keys.poll_recv(cx));
        let builder = Controller::named("configmap", watch).pausable().stream("by hand", keys);
        let hooks_may_end = Arc::new(Semaphore::new(0));
        let reconciler = Names { said, may_end: Arc::clone(&hooks_may_end) };
        let running = run_built(client.clone(), builder, reconciler);
        assert_eq!(calls.recv().await.as_deref(), Some("one"));
        create(&client, "gate").await;
        arrived.recv().await.expect("it is held up");
        Self { running, client, calls, by_hand, hooks_may_end, open_gate }
    }

    /// Pauses the object or ends its pause, and waits until the cache shows it.
    async fn pause(&self, is_paused: bool) {
        annotate(&self.client, PAUSED_ANNOTATION, json!(is_paused.then_some("true"))).await;
        let one = "default/one".parse().expect("a key");
        while self.running.controller.is_paused(&one) != is_paused {
            tokio::task::yield_now().await;
        }
    }

    /// Lets the handler go on, and waits until it has handled all events. Returns what ran.
    async fn go_on(&mut self) -> Vec<String> {
        create(&self.client, "last").await;
        self.open_gate.send(()).expect("it waits");
        let mut ran = Vec::new();
        loop {
            match self.calls.recv().await.expect("a run") {
                name if name == "last" => return ran,
                name => ran.push(name),
            }
        }
    }
}

/// The versions before and after the pause merge, so no event tells of it. But a run has seen it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn object_whose_pause_came_and_went_in_one_notice_runs() {
    let (_cluster, client) = cluster().await;
    let mut held_up = HeldUp::run(client).await;
    held_up.hooks_may_end.add_permits(1);
    held_up.pause(true).await;
    held_up.by_hand.send("default/one".parse().expect("a key")).await.expect("sent");
    assert_eq!(held_up.calls.recv().await.as_deref(), Some("one is paused"));
    while held_up.running.controller.status().paused == 0 {
        tokio::task::yield_now().await;
    }
    held_up.pause(false).await;
    assert_eq!(held_up.go_on().await, ["gate", "one"]);
    assert_eq!(held_up.running.controller.status().paused, 0);
    held_up.running.end().await.expect("it stops");
}

/// The event comes while the run that has seen the pause is under way, before it is noted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn object_whose_pause_ends_before_its_run_does_runs_again() {
    let (_cluster, client) = cluster().await;
    let mut held_up = HeldUp::run(client).await;
    held_up.pause(true).await;
    held_up.by_hand.send("default/one".parse().expect("a key")).await.expect("sent");
    assert_eq!(held_up.calls.recv().await.as_deref(), Some("one is paused"));
    held_up.pause(false).await;
    // The handler passes by the end of the pause while the only worker is busy.
    create(&held_up.client, "last").await;
    held_up.open_gate.send(()).expect("it waits");
    let last = "default/last".parse().expect("a key");
    while held_up.running.controller.queue().status(&last).is_none() {
        tokio::task::yield_now().await;
    }
    held_up.hooks_may_end.add_permits(1);
    for expected in ["gate", "last", "one"] {
        let ran = tokio::time::timeout(Duration::from_secs(20), held_up.calls.recv()).await;
        assert_eq!(ran.expect("the key is not lost").as_deref(), Some(expected));
    }
    held_up.running.end().await.expect("it stops");
}
