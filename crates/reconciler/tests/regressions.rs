//! What once was wrong: each comment tells what the code did, and where, before the test was written.

mod stage;

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
    Action, Cause, Class, Context, Controller, Error, Finalize, Finalized, Outcome, Predicate,
    Reconcile, Watch,
};
use windlass_testkit::TestCluster;
use windlass_testkit::apiserver::{ApiServer, Fault, FaultRule};
use windlass_workqueue::Priority;

use stage::{Log, api, cluster, create, does, run, run_with};

/// Long for a paused clock, and over at once.
const LONG: Duration = Duration::from_hours(2);

fn key(text: &str) -> ObjectKey {
    text.parse().expect("a key")
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}}))
        .expect("an object")
}

fn secrets_come_late(cluster: &TestCluster, by: Duration) {
    let server = cluster.server().expect("embedded");
    server.faults().add(FaultRule::new(Fault::DelayEvent(by)).resource("secrets"));
}

async fn touch(client: &kube::Client, name: &str, value: &str) {
    let patch = Patch::Merge(json!({"data": {"touched": value}}));
    api(client).patch(name, &PatchParams::default(), &patch).await.expect("patched");
}

// ---- reading one's own writes ----------------------------------------------------------------------------------------

/// worker.rs `caught_up` takes the writes out of `unseen` for good. A run that is told to be behind and comes back a
/// second later, as its documentation suggests, is not told again, though the cache still lacks the write: it makes
/// the object twice.
#[tokio::test(start_paused = true)]
async fn cache_that_is_behind_is_told_to_every_run_until_it_is_not() {
    let (cluster, client) = cluster().await;
    secrets_come_late(&cluster, Duration::from_mins(1));
    let maker = does(|_: Arc<ConfigMap>, cx: &Context| {
        Box::pin(async move {
            if cx.cache_behind() {
                return Ok(Action::RequeueAfter(Duration::from_secs(1)));
            }
            if cx.lister::<Secret>()?.in_namespace("default").iter().next().is_none() {
                let mut made = secret("made-");
                made.metadata.generate_name = made.metadata.name.take();
                cx.live().create(&made).await?;
            }
            Ok(Action::RequeueAfter(Duration::from_secs(1)))
        })
    });
    let running = run_with(client.clone(), |builder| builder.reads(Watch::<Secret>::new()), maker);
    tokio::time::sleep(Duration::from_mins(5)).await;
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    let made = secrets.list(&kube::api::ListParams::default()).await.expect("listed").items.len();
    running.end().await.expect("it stops");
    assert_eq!(made, 1, "one was asked for");
}

/// worker.rs `caught_up` waits in the worker, up to 5 s for each key from when the key is taken. One watch that is late
/// stops all keys, also those that have written nothing (fault 12), and N keys with a write wait 5 s × N / workers.
#[tokio::test(start_paused = true)]
async fn key_that_waits_for_a_cache_does_not_keep_others_waiting() {
    let (cluster, client) = cluster().await;
    create(&client, "two").await;
    secrets_come_late(&cluster, Duration::from_mins(1));
    let (said, mut runs) = mpsc::channel(100);
    let maker = does(move |object: Arc<ConfigMap>, cx: &Context| {
        let said = said.clone();
        Box::pin(async move {
            let name = object.name_any();
            said.send((name.clone(), Instant::now())).await?;
            if name == "one" && object.data.is_some() && !cx.cache_behind() {
                cx.live().create(&secret("made")).await?;
                return Ok(Action::RequeueAfter(Duration::ZERO));
            }
            Ok(Action::Done)
        })
    });
    let running = run_with(client.clone(), |builder| builder.reads(Watch::<Secret>::new()), maker);
    for _ in 0..2 {
        runs.recv().await.expect("a run");
    }
    touch(&client, "one", "yes").await;
    runs.recv().await.expect("the run that makes a secret");
    // The worker waits for the cache of secrets now, on behalf of `one`.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let touched = Instant::now();
    touch(&client, "two", "yes").await;
    let at = loop {
        let (name, at) = runs.recv().await.expect("a run");
        if name == "two" {
            break at;
        }
    };
    running.end().await.expect("it stops");
    assert!(at - touched < Duration::from_secs(1), "it waited {:?} for another", at - touched);
}

/// freshness.rs `has_seen` takes whatever is not held as seen if fields select. The next run reads a cache without what
/// was made, and `cache_behind` is false: lib.rs promises the contrary, without an exception.
#[tokio::test(start_paused = true)]
async fn what_a_run_made_is_waited_for_also_if_fields_select() {
    let (cluster, client) = cluster().await;
    secrets_come_late(&cluster, Duration::from_secs(2));
    let (said, mut runs) = mpsc::channel(100);
    let maker = does(move |_: Arc<ConfigMap>, cx: &Context| {
        let said = said.clone();
        Box::pin(async move {
            let held = cx.lister::<Secret>()?.get("default/made")?.is_some();
            said.send((held, cx.cache_behind())).await?;
            if cx.live::<Secret>().get(&key("default/made")).await?.is_none() {
                cx.live().create(&secret("made")).await?;
                return Ok(Action::RequeueAfter(Duration::ZERO));
            }
            Ok(Action::Done)
        })
    });
    let one = Watch::<Secret>::new().options(|o| o.field_selector("metadata.name=made"));
    let running = run_with(client, |builder| builder.reads(one), maker);
    assert_eq!(runs.recv().await, Some((false, false)));
    let (held, is_behind) = runs.recv().await.expect("another run");
    running.end().await.expect("it stops");
    assert!(held || is_behind, "the cache lacks it, and nobody says so");
}

/// worker.rs `drain` looks at the token before the wait for the caches, and not after it. Its documentation says that
/// no key is run from then on; with leader election, this run writes though the lease is gone.
#[tokio::test(start_paused = true)]
async fn key_that_waits_for_a_cache_is_not_run_after_the_stop() {
    let (cluster, client) = cluster().await;
    secrets_come_late(&cluster, Duration::from_mins(1));
    let runs = Arc::new(AtomicU32::new(0));
    let (counted, (said, mut heard)) = (Arc::clone(&runs), mpsc::channel(10));
    let maker = does(move |_: Arc<ConfigMap>, cx: &Context| {
        let said = said.clone();
        counted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if !cx.cache_behind() {
                cx.live().create(&secret("made")).await?;
            }
            said.send(()).await?;
            Ok(Action::RequeueAfter(Duration::ZERO))
        })
    });
    let running = run_with(client, |builder| builder.reads(Watch::<Secret>::new()), maker);
    heard.recv().await.expect("a run");
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.end().await.expect("it stops");
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

// ---- why it ran ------------------------------------------------------------------------------------------------------

/// worker.rs `settle` gives every key that asks to be run again the cause `Timer` at once, before the time has come. Its
/// own write then wakes it with [Timer, Changed by us], which is no circle for journal.rs: no reconciler that returns
/// `RequeueAfter` is ever found to be in a hot loop; and the run is told of a timer that has not rung.
#[tokio::test(start_paused = true)]
async fn hot_loop_is_found_also_if_the_runs_ask_for_another_in_an_hour() {
    let (log, _guard) = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut ran) = mpsc::channel(1);
    let counter = does(move |object: Arc<ConfigMap>, cx: &Context| {
        let said = said.clone();
        Box::pin(async move {
            let _ = said.send(cx.causes().to_vec()).await;
            let mut new = ConfigMap::clone(&object);
            let data = new.data.get_or_insert_default();
            let runs = data.get("runs").and_then(|runs| runs.parse().ok()).unwrap_or(0u32);
            data.insert("runs".to_owned(), (runs + 1).to_string());
            cx.live().update(&*object, &new).await?;
            Ok(Action::RequeueAfter(Duration::from_hours(1)))
        })
    });
    let running = run(client, counter);
    let mut last = Vec::new();
    for _ in 0..50 {
        last = ran.recv().await.expect("a run");
    }
    drop(ran);
    let (found, loops) =
        (log.lines("hot loop").len(), running.controller.status().counts.hot_loops);
    running.end().await.expect("it stops");
    assert!(!last.contains(&Cause::Timer), "no hour has passed: {last:?}");
    assert_eq!((found, loops), (1, 1));
}

/// journal.rs counts circles over whatever is written. A controller that makes one child in each run, and is woken by
/// it, comes to an end; it is told to be a hot loop at the tenth.
#[tokio::test(start_paused = true)]
async fn making_one_child_after_the_other_is_no_loop() {
    let (log, _guard) = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let maker = does(move |object: Arc<ConfigMap>, cx: &Context| {
        let said = said.clone();
        Box::pin(async move {
            let made = cx.lister::<Secret>()?.in_namespace("default").iter().count();
            if made < 15 {
                let mut child = secret(&format!("made-{made}"));
                windlass_reconciler::set_owner(&mut child, &*object)?;
                cx.live().create(&child).await?;
            }
            said.send(made).await?;
            Ok(Action::Done)
        })
    });
    let running = run_with(client, |builder| builder.owns(Watch::<Secret>::new()), maker);
    while runs.recv().await.expect("a run") < 15 {}
    let found = log.lines("hot loop");
    running.end().await.expect("it stops");
    assert_eq!(found, Vec::<String>::new());
}

/// write.rs `led_to`: a deletion leads to every version of its key, for as long as the journal knows of it. What
/// somebody else makes under the same name is told to be our own write.
#[tokio::test(start_paused = true)]
async fn what_others_make_after_our_deletion_is_not_by_us() {
    let (_cluster, client) = cluster().await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.create(&PostParams::default(), &secret("old")).await.expect("created");
    let (said, mut runs) = mpsc::channel(100);
    let deleter = does(move |_: Arc<ConfigMap>, cx: &Context| {
        let said = said.clone();
        Box::pin(async move {
            if let Some(old) = cx.lister::<Secret>()?.get("default/old")?
                && old.labels().is_empty()
            {
                cx.live().delete(&*old).await?;
            }
            said.send(cx.causes().to_vec()).await?;
            Ok(Action::Done)
        })
    });
    let to_one = |_: &Cached<Secret>| Some(key("default/one"));
    let running =
        run_with(client, |builder| builder.watches(Watch::<Secret>::new(), to_one), deleter);
    while let Ok(Some(_)) = timeout(Duration::from_secs(1), runs.recv()).await {}
    let mut theirs = secret("old");
    theirs.metadata.labels = Some(BTreeMap::from([("made".to_owned(), "others".to_owned())]));
    secrets.create(&PostParams::default(), &theirs).await.expect("created");
    let causes = runs.recv().await.expect("a run");
    running.end().await.expect("it stops");
    assert!(!causes[0].is_by_us(), "{}", causes[0]);
}

/// Is not dropped before it is let go: as an error that holds a connection may.
#[derive(Debug)]
struct SlowToGo(Mutex<std::sync::mpsc::Receiver<()>>);

impl fmt::Display for SlowToGo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("slow to go")
    }
}

impl StdError for SlowToGo {}

impl Drop for SlowToGo {
    fn drop(&mut self) {
        let _ = self.0.lock().expect("not poisoned").recv();
    }
}

/// worker.rs `run`: the key may run again from `settle` on, and the journal has the run only after it, and after the log
/// line and the end of the user's error. Another worker then does not find the write that woke it: `by_us` is wrong, the
/// count of circles begins anew, and the runs come into the journal in the wrong order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn run_is_in_the_journal_before_the_key_runs_again() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let (go, gate) = std::sync::mpsc::channel();
    let gate = Mutex::new(Some(gate));
    let writer = does(move |object: Arc<ConfigMap>, cx: &Context| {
        let (said, gate) = (said.clone(), gate.lock().expect("not poisoned").take());
        Box::pin(async move {
            said.send(cx.causes().to_vec()).await?;
            let Some(gate) = gate else { return Ok(Action::Done) };
            let mut new = ConfigMap::clone(&object);
            new.labels_mut().insert("seen".to_owned(), "yes".to_owned());
            cx.live().update(&*object, &new).await?;
            Err(SlowToGo(Mutex::new(gate)).into())
        })
    });
    let running = run_with(client, |builder| builder.workers(2), writer);
    runs.recv().await.expect("a run");
    go.send(()).expect("it waits, or will");
    let causes = runs.recv().await.expect("another run");
    running.end().await.expect("it stops");
    assert!(causes.iter().any(Cause::is_by_us), "{causes:?}");
}

/// journal.rs `trim` moves keys that ran long ago to the end of the order when it drops stale entries. After that, the
/// key that ran last is forgotten, and not the one that ran longest ago.
#[tokio::test(start_paused = true)]
async fn key_that_ran_longest_ago_is_forgotten_first() {
    struct Often(AtomicU32);

    impl Reconcile<ConfigMap> for Often {
        async fn reconcile(&self, _: Arc<ConfigMap>, _: &Context) -> Result<Action, Error> {
            Ok(Action::Done)
        }

        async fn absent(&self, key: &ObjectKey, _: &Context) -> Result<Action, Error> {
            let is_again = key.name() == "often" && self.0.fetch_add(1, Ordering::Relaxed) < 10_001;
            Ok(if is_again { Action::RequeueAfter(Duration::ZERO) } else { Action::Done })
        }
    }

    let cluster = TestCluster::embedded();
    let (keys, mut asked) = mpsc::channel::<ObjectKey>(20_000);
    let asked = stream::poll_fn(move |cx| asked.poll_recv(cx));
    let client = cluster.client().expect("a client");
    let running = run_with(client, |b| b.stream("test", asked), Often(AtomicU32::new(0)));
    let ran = async |number: u64| {
        while running.controller.status().counts.runs() < number {
            tokio::task::yield_now().await;
        }
    };
    for number in 0..windlass_reconciler::KEYS_MAX - 1 {
        keys.send(key(&format!("default/k{number}"))).await.expect("it is listened to");
    }
    ran(9_999).await;
    keys.send(key("default/often")).await.expect("it is listened to");
    ran(9_999 + 10_002).await;
    keys.send(key("default/new")).await.expect("it is listened to");
    ran(9_999 + 10_003).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let known = |name: &str| !running.controller.runs(&key(name)).is_empty();
    let (often, oldest) = (known("default/often"), known("default/k0"));
    running.end().await.expect("it stops");
    assert_eq!((often, oldest), (true, false));
}

// ---- outcomes and errors ---------------------------------------------------------------------------------------------

#[derive(Debug)]
struct Transparent(kube::Error);

impl fmt::Display for Transparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Transparent {
    /// As `#[error(transparent)]` of `thiserror` makes it.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// error.rs `class_of` knows `kube::Error` only. In `#[error(transparent)] Kube(#[from] kube::Error)`, which is what most
/// operators have, the chain goes from the user's error to the `Box<Status>` right away: conflicts become warnings,
/// Retry-After is not heeded, Forbidden has no advice.
#[test]
fn transparent_error_is_classed_by_the_status_in_its_chain() {
    let status = |code| {
        let status = json!({"status": "Failure", "message": "no", "reason": "x", "code": code,
            "details": {"retryAfterSeconds": 7}});
        Error::from(Transparent(kube::Error::Api(
            serde_json::from_value(status).expect("a status"),
        )))
    };
    assert_eq!(status(429).delay(), Some(Duration::from_secs(7)));
    assert_eq!(status(409).class(), Class::Conflict);
    assert_eq!(status(403).class(), Class::Forbidden);
}

/// A type that a Secret is not.
#[derive(Clone, Debug, Deserialize)]
struct Strict {
    #[expect(dead_code, reason = "it is only decoded")]
    metadata: ObjectMeta,
    #[expect(dead_code, reason = "it is only decoded")]
    must: String,
}

/// error.rs `class_of`: a `DecodeError` is terminal, whichever object it is of. Here it is another object that cannot be
/// decoded; nothing wakes the key when that one is mended, and the log line says to mend the wrong one.
#[tokio::test(start_paused = true)]
async fn other_object_that_does_not_decode_is_tried_again() {
    let (_cluster, client) = cluster().await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.create(&PostParams::default(), &secret("other")).await.expect("created");
    let reader = does(|_: Arc<ConfigMap>, cx: &Context| {
        Box::pin(async move {
            cx.lister::<Strict>()?.get("default/other")?;
            Ok(Action::Done)
        })
    });
    let strict = Watch::<Strict>::of(Resource::of::<Secret>());
    let running = run_with(client, |builder| builder.reads(strict), reader);
    tokio::time::sleep(LONG).await;
    let runs = running.controller.runs(&key("default/one"));
    running.end().await.expect("it stops");
    let last = &runs.last().expect("it ran").outcome;
    assert!(!matches!(last, Outcome::Terminal { .. }), "{last:?}");
}

/// DESIGN: a key that does not decode is undecodable until its next version, and reported once. worker.rs reports it at
/// each resync, as an ERROR.
#[tokio::test(start_paused = true)]
async fn object_that_does_not_decode_is_reported_once() {
    struct Never;

    impl Reconcile<Strict> for Never {
        async fn reconcile(&self, _: Arc<Strict>, _: &Context) -> Result<Action, Error> {
            Ok(Action::Done)
        }
    }

    let (log, _guard) = Log::start();
    let (_cluster, client) = cluster().await;
    let factory = SharedInformerFactory::new(client);
    let watch = Watch::<Strict>::of(Resource::of::<ConfigMap>())
        .options(|o| o.namespace("default").resync(Duration::from_secs(30)));
    let controller = Controller::of(watch).build(&factory, Never).expect("a controller");
    let stop = CancellationToken::new();
    let story = async {
        tokio::time::sleep(Duration::from_mins(5)).await;
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(controller.run(stop.clone()), story);
    ran.expect("it ran");
    assert_eq!(log.lines("undecodable").len(), 1);
}

/// An error that panics when it is shown.
#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl StdError for Unspeakable {}

/// worker.rs `settle` calls the error's `Display` and `Drop` out of reach of `catch_unwind`: the panic ends the worker,
/// and `Controller::run` goes on with it (fault 19: caught, backed off, counted).
#[tokio::test(start_paused = true)]
async fn error_that_panics_when_it_is_shown_is_a_panic_of_the_run() {
    let (_cluster, client) = cluster().await;
    let running = run(client, does(|_, _| Box::pin(async { Err(Unspeakable.into()) })));
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.end().await.expect("it stops");
}

/// Panics when a cancelled run is dropped.
struct Brittle;

impl Drop for Brittle {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped half-way");
    }
}

/// worker.rs `call`: the future of a run that takes too long is dropped by `timeout`, outside of `catch_unwind`. A guard
/// of the user's that panics then takes the whole controller down.
#[tokio::test(start_paused = true)]
async fn run_that_panics_while_it_is_cancelled_does_not_end_the_controller() {
    let (_cluster, client) = cluster().await;
    let hang = does(|_, _| {
        Box::pin(async {
            let _guard = Brittle;
            std::future::pending().await
        })
    });
    let running = run_with(client, |builder| builder.timeout(Duration::from_secs(1)), hang);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let counts = running.controller.status().counts;
    running.end().await.expect("it stops");
    assert!(counts.timed_out > 1 && counts.panicked == 0, "{counts:?}");
}

/// worker.rs `settle` ignores that the queue refuses a delay of more than a hundred years: `retry_after(MAX)` is
/// neither retried nor charged, and told as tried again "in 0ns"; a slip of units silences a key for ever.
#[tokio::test(start_paused = true)]
async fn delay_that_is_too_long_still_counts_as_a_failure() {
    let (_cluster, client) = cluster().await;
    let running = run(
        client,
        does(|_, _| Box::pin(async { Err(Error::msg("no").retry_after(Duration::MAX)) })),
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    let one = key("default/one");
    let failures = running.controller.queue().failures(&one);
    let outcome = running.controller.runs(&one).pop().expect("it ran").outcome;
    running.end().await.expect("it stops");
    assert_eq!(failures, 1, "{outcome:?}");
}

// ---- finalizers ------------------------------------------------------------------------------------------------------

struct Told(mpsc::Sender<&'static str>);

impl Finalize<Deployment> for Told {
    async fn reconcile(&self, _: Arc<Deployment>, _: &Context) -> Result<Action, Error> {
        self.0.send("reconcile").await?;
        Ok(Action::Done)
    }

    async fn cleanup(&self, _: Arc<Deployment>, _: &Context) -> Result<Action, Error> {
        self.0.send("cleanup").await?;
        Ok(Action::Done)
    }
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

/// finalizer.rs relies on the event of its own patch for the first real run. A finalizer does not change the generation,
/// so with the most common predicate that event is passed over: the object is never reconciled.
#[tokio::test(start_paused = true)]
async fn finalized_object_is_reconciled_whatever_the_predicate() {
    let cluster = TestCluster::embedded();
    let client = cluster.client().expect("a client");
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    deployments.create(&PostParams::default(), &deployment("web")).await.expect("created");
    let (said, mut heard) = mpsc::channel(10);
    let factory = SharedInformerFactory::new(client);
    let watch = Watch::<Deployment>::new().when(Predicate::generation_changed());
    let controller = Controller::of(watch)
        .build(&factory, Finalized::new("example.com/bucket", Told(said)))
        .expect("a controller");
    let stop = CancellationToken::new();
    let story = async {
        let heard = timeout(LONG, heard.recv()).await;
        stop.cancel();
        heard
    };
    let (ran, heard) = tokio::join!(controller.run(stop.clone()), story);
    ran.expect("it ran");
    assert_eq!(heard.expect("it is reconciled within two hours"), Some("reconcile"));
}

// ---- writes ----------------------------------------------------------------------------------------------------------

/// A Deployment as an old version of a type knows it: containers have a name and an image.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Poor {
    metadata: ObjectMeta,
    spec: PoorSpec,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct PoorSpec {
    template: PoorTemplate,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct PoorTemplate {
    spec: PoorPod,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct PoorPod {
    containers: Vec<PoorContainer>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct PoorContainer {
    name: String,
    image: String,
}

impl kube::Resource for Poor {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Deployment".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "apps".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "deployments".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// difference.rs: a merge patch replaces a list as a whole, and the list is a typed one. A field of a container that
/// the type does not know is erased by a change of the image (fault 28: never).
#[tokio::test(start_paused = true)]
async fn unknown_fields_within_lists_are_not_erased() {
    let (_cluster, client) = cluster().await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let mut web = deployment("web");
    let pod = web.spec.template.spec.as_mut().expect("a pod");
    pod.containers[0].command = Some(vec!["serve".to_owned()]);
    let web = deployments.create(&PostParams::default(), &web).await.expect("created");
    let command = |web: &Deployment| {
        let pod = web.spec.template.spec.as_ref().expect("a pod");
        (pod.containers[0].image.clone(), pod.containers[0].command.clone())
    };
    assert!(command(&web).1.is_some());
    let (said, mut heard) = mpsc::channel(10);
    let changer = does(move |_: Arc<ConfigMap>, cx: &Context| {
        let said = said.clone();
        Box::pin(async move {
            let (live, web) = (cx.live::<Poor>(), key("default/web"));
            let modified = live.modify(&web, |web| {
                web.spec.template.spec.containers[0].image = "web:2".to_owned();
            });
            modified.await?;
            said.send(()).await?;
            Ok(Action::Done)
        })
    });
    let running = run(client, changer);
    heard.recv().await.expect("it was changed");
    running.end().await.expect("it stops");
    let after = deployments.get("web").await.expect("it is there");
    let expected = (Some("web:2".to_owned()), Some(vec!["serve".to_owned()]));
    assert_eq!(command(&after), expected);
}

/// live.rs `update_status` sends all that differs to /status, and not "the status alone": kinds whose status takes
/// metadata (pods do) would be relabelled, and here a request is made though the status is the same.
#[tokio::test(start_paused = true)]
async fn status_that_is_the_same_is_not_written() {
    let (_cluster, client) = cluster().await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    deployments.create(&PostParams::default(), &deployment("web")).await.expect("created");
    let (said, mut heard) = mpsc::channel(10);
    let writer = does(move |_: Arc<ConfigMap>, cx: &Context| {
        let said = said.clone();
        Box::pin(async move {
            let live = cx.live::<Deployment>();
            let old = live.get(&key("default/web")).await?.expect("it is there");
            let mut new = old.clone();
            new.annotations_mut().insert("not".to_owned(), "status".to_owned());
            live.update_status(&old, &new).await?;
            said.send(()).await?;
            Ok(Action::Done)
        })
    });
    let running = run(client, writer);
    heard.recv().await.expect("a run");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let runs = running.controller.runs(&key("default/one"));
    running.end().await.expect("it stops");
    let told: Vec<_> = runs[0].writes.iter().map(ToString::to_string).collect();
    assert_eq!(told, Vec::<String>::new());
}

// ---- sources, the queue, the end -------------------------------------------------------------------------------------

/// Says that it ran.
struct Teller(mpsc::Sender<()>);

impl Reconcile<Deployment> for Teller {
    async fn reconcile(&self, _: Arc<Deployment>, _: &Context) -> Result<Action, Error> {
        self.0.send(()).await?;
        Ok(Action::Done)
    }
}

/// owner.rs passes over children of a namesake that was there before. If the new owner met the old child ("exists, and is
/// not mine") and rests, nothing tells it that the old child is gone; controller-runtime maps by name for that reason.
#[tokio::test(start_paused = true)]
async fn new_owner_runs_when_the_child_of_its_namesake_goes() {
    let server = ApiServer::builder().garbage_collection(false).build();
    let cluster = TestCluster::on(server);
    let client = cluster.client().expect("a client");
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), "default");
    let old = deployments.create(&PostParams::default(), &deployment("web")).await.expect("made");
    let spec = serde_json::to_value(&old).expect("json")["spec"].clone();
    let spec = json!({"selector": spec["selector"], "template": spec["template"]});
    let set = json!({"metadata": {"name": "web-1", "namespace": "default"}, "spec": spec});
    let mut set: ReplicaSet = serde_json::from_value(set).expect("an object");
    windlass_reconciler::set_owner(&mut set, &old).expect("an owner");
    sets.create(&PostParams::default(), &set).await.expect("created");
    deployments.delete("web", &DeleteParams::default()).await.expect("deleted");
    deployments.create(&PostParams::default(), &deployment("web")).await.expect("made again");

    let (said, mut runs) = mpsc::channel(10);
    let factory = SharedInformerFactory::new(client);
    let controller = Controller::of(Watch::<Deployment>::new())
        .owns(Watch::<ReplicaSet>::new())
        .build(&factory, Teller(said))
        .expect("a controller");
    let stop = CancellationToken::new();
    let story = async {
        runs.recv().await.expect("a run");
        sets.delete("web-1", &DeleteParams::default()).await.expect("deleted");
        let again = timeout(LONG, runs.recv()).await;
        stop.cancel();
        again
    };
    let (ran, again) = tokio::join!(controller.run(stop.clone()), story);
    ran.expect("it ran");
    assert!(again.is_ok(), "the way is free, and nobody tells the owner");
}

/// controller.rs `work_until` shuts the queue down when something has broken, but does not tell the workers to stop: all
/// keys that are ready are reconciled first, on caches that may be dead, before `run` says what broke (fault 20).
#[tokio::test(start_paused = true)]
async fn controller_that_broke_does_not_work_through_its_queue_first() {
    let (_cluster, client) = cluster().await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let slow = does(move |_: Arc<ConfigMap>, _: &Context| {
        counted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok(Action::Done)
        })
    });
    for number in 0..20 {
        create(&client, &format!("more-{number}")).await;
    }
    let mut polls = 0;
    let broken = stream::poll_fn(move |cx| -> std::task::Poll<Option<ObjectKey>> {
        polls += 1;
        assert!(polls < 100, "broken");
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    });
    let mut running = run_with(client, |builder| builder.stream("broken", broken), slow);
    running.ended().await.expect_err("it cannot go on");
    assert!(runs.load(Ordering::Relaxed) <= 2, "{runs:?} runs after it broke");
}

/// source.rs `remove` only lets go of its own handle, and controller.rs `synced` holds another. A source that is removed
/// while the controller waits for its cache is waited for to the end, and then fails the controller.
#[tokio::test(start_paused = true)]
async fn source_that_is_removed_is_not_waited_for() {
    let (_cluster, client) = cluster().await;
    let missing = ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Foo".to_owned(),
        plural: "foos".to_owned(),
    };
    let (said, mut runs) = mpsc::channel(10);
    let teller = does(move |_: Arc<ConfigMap>, _: &Context| {
        let said = said.clone();
        Box::pin(async move {
            said.send(()).await?;
            Ok(Action::Done)
        })
    });
    let factory = SharedInformerFactory::new(client);
    let controller =
        Controller::of(Watch::<ConfigMap>::new()).build(&factory, teller).expect("a controller");
    let watch = Watch::<DynamicObject>::of(Resource::new(&missing, true));
    let source = controller.add_owned(watch).expect("a source");
    let stop = CancellationToken::new();
    let story = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(controller.remove(source));
        let ran = timeout(LONG, runs.recv()).await;
        stop.cancel();
        ran
    };
    let (ran, first) = tokio::join!(controller.run(stop.clone()), story);
    ran.expect("nothing is missing any more");
    first.expect("it runs").expect("it runs");
}

/// wiring.rs: a panic in a predicate, a mapper or a policy loses the event for ever. A policy only says how urgent a key
/// is; that it panics must not mean that the key never runs.
#[tokio::test(start_paused = true)]
async fn policy_that_panics_does_not_lose_the_key() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(10);
    let teller = does(move |_: Arc<ConfigMap>, _: &Context| {
        let said = said.clone();
        Box::pin(async move {
            said.send(()).await?;
            Ok(Action::Done)
        })
    });
    let policy = |_: &ObjectKey, _: &Cause| -> Priority { panic!("no opinion") };
    let running = run_with(client, |builder| builder.priority(policy), teller);
    let ran = timeout(LONG, runs.recv()).await;
    running.end().await.expect("it stops");
    assert!(ran.is_ok(), "the key is lost");
}

/// watch.rs: `options` and `when` replace what was said before, silently. A watch of one namespace becomes one of the
/// whole cluster by a second call that only adds a label selector.
#[tokio::test(start_paused = true)]
async fn options_of_a_watch_add_up() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(10);
    let teller = does(move |object: Arc<ConfigMap>, _: &Context| {
        let said = said.clone();
        Box::pin(async move {
            said.send(object.name_any()).await?;
            Ok(Action::Done)
        })
    });
    let factory = SharedInformerFactory::new(client);
    let watch = Watch::<ConfigMap>::new()
        .options(|o| o.namespace("kube-system").field_selector("metadata.name!=kube-root-ca.crt"))
        .options(|o| o.label_selector("!nothing"));
    let controller = Controller::of(watch).build(&factory, teller).expect("a controller");
    let stop = CancellationToken::new();
    let story = async {
        let ran = timeout(Duration::from_mins(1), runs.recv()).await;
        stop.cancel();
        ran
    };
    let (ended, ran) = tokio::join!(controller.run(stop.clone()), story);
    ended.expect("it ran");
    assert!(ran.is_err(), "{ran:?} is in another namespace");
}

/// source.rs `lister` gives the first cache of a type. With two watches of one type, what the second has is not found,
/// and nothing says so.
#[tokio::test(start_paused = true)]
async fn two_caches_of_one_type_are_not_mistaken_for_each_other() {
    let (_cluster, client) = cluster().await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.create(&PostParams::default(), &secret("there")).await.expect("created");
    let (said, mut heard) = mpsc::channel(10);
    let reader = does(move |_: Arc<ConfigMap>, cx: &Context| {
        let said = said.clone();
        Box::pin(async move {
            let is_told = match cx.lister::<Secret>() {
                Ok(lister) => lister.get("default/there")?.is_some(),
                Err(_) => true,
            };
            said.send(is_told).await?;
            Ok(Action::Done)
        })
    });
    let elsewhere = Watch::<Secret>::new().options(|o| o.namespace("kube-system"));
    let here = Watch::<Secret>::new().options(|o| o.namespace("default"));
    let running = run_with(client, |builder| builder.reads(elsewhere).reads(here), reader);
    let is_told = heard.recv().await.expect("a run");
    running.end().await.expect("it stops");
    assert!(is_told, "it is in a cache of the controller, and neither found nor is an error told");
}

/// context.rs `lister` cuts the name of a type at its last `::`, which is within the brackets of a generic one.
#[tokio::test(start_paused = true)]
async fn missing_cache_of_metadata_is_told_in_words_that_compile() {
    let (_cluster, client) = cluster().await;
    let (said, mut heard) = mpsc::channel(10);
    let reader = does(move |_: Arc<ConfigMap>, cx: &Context| {
        let said = said.clone();
        Box::pin(async move {
            let error = cx.lister::<PartialObjectMeta<Secret>>().map(drop).expect_err("no cache");
            said.send(error.to_string()).await?;
            Ok(Action::Done)
        })
    });
    let running = run(client, reader);
    let told = heard.recv().await.expect("a run");
    running.end().await.expect("it stops");
    assert!(!told.contains("Secret>>"), "{told}");
}

/// recording.rs: what is written through the client after the run has ended goes to a log that nobody reads any more. It
/// is not waited for; and whoever keeps the client, in a field or in a task, makes that log grow for ever.
#[tokio::test(start_paused = true)]
async fn what_a_task_of_a_run_writes_after_it_is_waited_for_too() {
    let (cluster, client) = cluster().await;
    secrets_come_late(&cluster, Duration::from_secs(2));
    let (said, mut runs) = mpsc::channel(100);
    let (lent, mut clients) = mpsc::channel(100);
    let lender = does(move |_: Arc<ConfigMap>, cx: &Context| {
        let (said, lent) = (said.clone(), lent.clone());
        Box::pin(async move {
            let held = cx.lister::<Secret>()?.get("default/made")?.is_some();
            lent.send(cx.client().clone()).await?;
            said.send((held, cx.cache_behind())).await?;
            Ok(Action::Done)
        })
    });
    let running = run_with(client.clone(), |builder| builder.reads(Watch::<Secret>::new()), lender);
    assert_eq!(runs.recv().await, Some((false, false)));
    let kept = clients.recv().await.expect("a client");
    while running.controller.runs(&key("default/one")).is_empty() {
        tokio::task::yield_now().await;
    }
    let secrets: Api<Secret> = Api::namespaced(kept, "default");
    secrets.create(&PostParams::default(), &secret("made")).await.expect("created");
    touch(&client, "one", "yes").await;
    let (held, is_behind) = runs.recv().await.expect("another run");
    running.end().await.expect("it stops");
    assert!(held || is_behind, "the cache lacks it, and nobody says so");
}

/// error.rs `told`: what the server answered and could not be decoded is shown with its content, in the log and in the
/// journal. A user's own `Api` from `Context::client` ends here whenever a type does not fit.
#[test]
fn answer_that_does_not_decode_is_told_without_its_content() {
    let cause = serde_json::from_value::<u32>(json!("hunter2")).expect_err("no number");
    let told = Error::from(kube::Error::SerdeError(cause)).to_string();
    assert!(!told.contains("hunter2"), "{told}");
}

/// controller.rs `run`: the queue of a controller that ran is shut down. Who runs it again, as after a cache that was not
/// complete in time, is told that it ran and was stopped, and nothing is reconciled.
#[tokio::test(start_paused = true)]
async fn controller_that_is_run_again_runs_or_says_that_it_cannot() {
    let (cluster, client) = cluster().await;
    let server = cluster.server().expect("embedded");
    let failing = FaultRule::new(Fault::Fail { code: 503, retry_after: None });
    let fault = server.faults().add(failing.resource("configmaps"));
    let factory = SharedInformerFactory::new(client);
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let reconciler = does(move |_: Arc<ConfigMap>, _: &Context| {
        counted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(Action::Done) })
    });
    let controller = Controller::of(Watch::<ConfigMap>::new())
        .build(&factory, reconciler)
        .expect("a controller");
    controller.run(CancellationToken::new()).await.expect_err("the cache is not complete");
    server.faults().remove(fault);
    let again = timeout(LONG, controller.run(CancellationToken::new())).await;
    let has_run = runs.load(Ordering::Relaxed) > 0;
    assert!(has_run || matches!(again, Ok(Err(_))), "nothing ran, and it says {again:?}");
}

/// worker.rs `settle` does not ask the policy about `Cause::Timer`, though it is a cause that wakes keys.
#[tokio::test(start_paused = true)]
async fn policy_is_asked_about_timers_too() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(10);
    let again = does(move |_: Arc<ConfigMap>, _: &Context| {
        let said = said.clone();
        Box::pin(async move {
            let _ = said.send(()).await;
            Ok(Action::RequeueAfter(Duration::from_secs(1)))
        })
    });
    let asked = Arc::new(Mutex::new(Vec::new()));
    let asks = Arc::clone(&asked);
    let policy = move |_: &ObjectKey, cause: &Cause| {
        asks.lock().expect("not poisoned").push(cause.clone());
        Priority::Normal
    };
    let running = run_with(client, |builder| builder.priority(policy), again);
    for _ in 0..3 {
        runs.recv().await.expect("a run");
    }
    drop(runs);
    running.end().await.expect("it stops");
    let asked = asked.lock().expect("not poisoned").clone();
    assert!(asked.contains(&Cause::Timer), "{asked:?}");
}

/// recording.rs does not remember a write whose answer was lost, so the next run reads a cache that may lack it, and
/// `cache_behind` says that nothing is missing (fault 14: treated as unknown): it is made twice.
#[tokio::test(start_paused = true)]
async fn write_whose_answer_was_lost_is_unknown_to_the_next_run() {
    let (cluster, client) = cluster().await;
    secrets_come_late(&cluster, Duration::from_secs(2));
    let lost = FaultRule::new(Fault::LoseAnswer).verb("create").resource("secrets").times(1);
    cluster.server().expect("embedded").faults().add(lost);
    let (said, mut runs) = mpsc::channel(100);
    let maker = does(move |_: Arc<ConfigMap>, cx: &Context| {
        let said = said.clone();
        Box::pin(async move {
            let held = cx.lister::<Secret>()?.get("default/made")?.is_some();
            said.send((held, cx.cache_behind())).await?;
            if !held && !cx.cache_behind() {
                cx.live().create(&secret("made")).await?;
            }
            Ok(Action::Done)
        })
    });
    let running = run_with(client, |builder| builder.reads(Watch::<Secret>::new()), maker);
    assert_eq!(runs.recv().await, Some((false, false)));
    let (held, is_behind) = runs.recv().await.expect("another run");
    running.end().await.expect("it stops");
    assert!(held || is_behind, "the cache lacks what was made, and nobody says so");
}
