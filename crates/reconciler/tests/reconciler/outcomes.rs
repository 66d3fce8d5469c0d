//! What follows on a run: the table in the documentation of `Reconcile`, row by row, on the paused
//! clock.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_indexer::ObjectKey;
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{
    Action, Cause, Class, Controller, Error, Outcome, Reconcile, RunContext, Watch,
};
use windlass_testserver::TestServer;

/// What a scripted reconciler does next.
enum Step {
    Return(Result<Action, Error>),
    Panic,
    Hang,
}

/// Does what it is told, and says when it ran and why.
struct Scripted {
    steps: Mutex<VecDeque<Step>>,
    ran: mpsc::Sender<Ran>,
}

#[derive(Debug)]
struct Ran {
    at: Instant,
    attempt: u32,
    causes: Vec<Cause>,
    is_present: bool,
}

impl Scripted {
    async fn next(&self, cx: &RunContext, is_present: bool) -> Result<Action, Error> {
        let ran = Ran {
            at: Instant::now(),
            attempt: cx.attempt(),
            causes: cx.causes().to_vec(),
            is_present,
        };
        self.ran.send(ran).await.expect("the test listens");
        let step = self.steps.lock().expect("not poisoned").pop_front();
        match step {
            None => Ok(Action::done()),
            Some(Step::Return(result)) => result,
            Some(Step::Panic) => panic!("as the script says"),
            Some(Step::Hang) => std::future::pending().await,
        }
    }
}

impl Reconcile<ConfigMap> for Scripted {
    async fn reconcile(&self, _: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        self.next(cx, true).await
    }

    async fn absent(&self, _: &ObjectKey, cx: &RunContext) -> Result<Action, Error> {
        self.next(cx, false).await
    }
}

/// One `ConfigMap`, and a controller of it that follows a script.
struct Stage {
    api: Api<ConfigMap>,
    controller: Arc<Controller<ConfigMap>>,
    runs: mpsc::Receiver<Ran>,
    stop: CancellationToken,
    running: tokio::task::JoinSet<()>,
}

impl Stage {
    async fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let cluster = TestServer::embedded();
        let client = cluster.client().expect("a client");
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let object =
            serde_json::from_value(json!({"metadata": {"name": "one"}})).expect("an object");
        api.create(&PostParams::default(), &object).await.expect("created");
        let (sender, runs) = mpsc::channel(100);
        let reconciler = Scripted { steps: Mutex::new(steps.into_iter().collect()), ran: sender };
        let factory = SharedInformerFactory::new(client);
        let controller = Controller::named("configmap", Watch::<ConfigMap>::new())
            .timeout(Duration::from_mins(1))
            .build(&factory, reconciler)
            .expect("a controller");
        let (controller, stop) = (Arc::new(controller), CancellationToken::new());
        let mut running = tokio::task::JoinSet::new();
        let (runner, token) = (Arc::clone(&controller), stop.clone());
        running.spawn(async move { runner.run(token).await.expect("it runs") });
        Self { api, controller, runs, stop, running }
    }

    async fn run(&mut self) -> Ran {
        self.runs.recv().await.expect("a run")
    }

    async fn touch(&self) {
        let patch = Patch::Merge(json!({"data": {"touched": "yes"}}));
        self.api.patch("one", &PatchParams::default(), &patch).await.expect("patched");
    }

    /// Nothing runs for an hour.
    async fn expect_rest(&mut self) {
        let ran = tokio::time::timeout(Duration::from_hours(1), self.runs.recv()).await;
        assert!(ran.is_err(), "{ran:?}");
    }

    fn outcomes(&self) -> Vec<Outcome> {
        let key = ObjectKey::namespaced("default", "one");
        self.controller.runs(&key).into_iter().map(|run| run.outcome).collect()
    }

    async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended.expect("no panic");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn done_rests_until_something_changes() {
    let mut stage = Stage::new([]).await;
    let first = stage.run().await;
    assert!(matches!(&first.causes[..], [Cause::Changed { .. }]), "{first:?}");
    stage.expect_rest().await;
    stage.touch().await;
    let second = stage.run().await;
    assert_eq!((second.attempt, second.is_present), (1, true));
    stage.expect_rest().await;
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn requeue_after_is_exact_and_not_rate_limited() {
    let again = || Step::Return(Ok(Action::requeue_after(Duration::from_secs(7))));
    let mut stage = Stage::new([again(), again()]).await;
    let first = stage.run().await;
    let second = stage.run().await;
    let third = stage.run().await;
    assert_eq!(second.at - first.at, Duration::from_secs(7));
    assert_eq!(third.at - second.at, Duration::from_secs(7));
    assert_eq!((second.attempt, &second.causes[..]), (1, &[Cause::Timer][..]));
    stage.expect_rest().await;
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn error_is_retried_with_growing_waits_and_the_causes_of_the_first_run() {
    let fail = || Step::Return(Err(Error::msg("not yet")));
    let mut stage = Stage::new([fail(), fail(), fail()]).await;
    let first = stage.run().await;
    let second = stage.run().await;
    let third = stage.run().await;
    let fourth = stage.run().await;
    assert!(third.at - second.at > second.at - first.at);
    assert!(fourth.at - third.at > third.at - second.at);
    assert_eq!([first.attempt, second.attempt, third.attempt, fourth.attempt], [1, 2, 3, 4]);
    assert_eq!(fourth.causes, first.causes);
    stage.expect_rest().await;
    assert!(matches!(
        stage.outcomes()[..],
        [
            Outcome::Failed { .. },
            Outcome::Failed { .. },
            Outcome::Failed { class: Class::Other, .. },
            Outcome::Done
        ]
    ));
    // A success starts over.
    stage.touch().await;
    assert_eq!(stage.run().await.attempt, 1);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn terminal_error_waits_for_a_change_and_keeps_its_failures() {
    let fail = Step::Return(Err(Error::msg("no such thing").terminal()));
    let mut stage = Stage::new([fail]).await;
    stage.run().await;
    stage.expect_rest().await;
    assert!(matches!(stage.outcomes()[..], [Outcome::Terminal { class: Class::Terminal, .. }]));
    stage.touch().await;
    stage.run().await;
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn panic_is_caught_and_retried() {
    let mut stage = Stage::new([Step::Panic]).await;
    stage.run().await;
    assert_eq!(stage.run().await.attempt, 2);
    stage.expect_rest().await;
    let outcomes = stage.outcomes();
    let [Outcome::Panicked { message, .. }, Outcome::Done] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(message, "as the script says");
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn run_that_hangs_is_cancelled_and_retried() {
    let mut stage = Stage::new([Step::Hang]).await;
    let first = stage.run().await;
    let second = stage.run().await;
    assert!(second.at - first.at >= Duration::from_mins(1));
    assert_eq!(second.attempt, 2);
    stage.expect_rest().await;
    assert!(matches!(&stage.outcomes()[..], [Outcome::TimedOut, Outcome::Done]));
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_an_error_wins_over_the_limiter() {
    let later = Error::msg("come back").retry_after(Duration::from_secs(90));
    let mut stage = Stage::new([Step::Return(Err(later))]).await;
    let first = stage.run().await;
    let second = stage.run().await;
    assert_eq!(second.at - first.at, Duration::from_secs(90));
    assert_eq!(second.attempt, 2);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_object_is_absent() {
    let mut stage = Stage::new([]).await;
    stage.run().await;
    stage.api.delete("one", &DeleteParams::default()).await.expect("deleted");
    let ran = stage.run().await;
    assert!(!ran.is_present, "{ran:?}");
    stage.end().await;
}
