//! Why it ran.

use windlass_reconciler::Change;

use super::*;

/// worker.rs `settle` gives every key that asks to be run again the cause `Timer` at once, before
/// the time has come. Its own write then wakes it with [Timer, Changed by us], which is no circle
/// for journal.rs: no reconciler that returns `RequeueAfter` is ever found to be in a hot loop; and
/// the run is told of a timer that has not rung.
#[tokio::test(start_paused = true)]
async fn hot_loop_is_found_also_if_the_runs_ask_for_another_in_an_hour() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut ran) = mpsc::channel(1);
    let counter = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let _ = said.send(cx.causes().to_vec()).await;
            let mut new = ConfigMap::clone(&object);
            let data = new.data.get_or_insert_default();
            let runs = data.get("runs").and_then(|runs| runs.parse().ok()).unwrap_or(0u32);
            data.insert("runs".to_owned(), (runs + 1).to_string());
            cx.live().update(&*object, &new).await?;
            Ok(Action::requeue_after(Duration::from_hours(1)))
        })
    });
    let running = run(client, counter);
    let mut last = Vec::new();
    for _ in 0..50 {
        last = ran.recv().await.expect("a run");
    }
    drop(ran);
    let (found, loops) =
        (log.lines_with("hot loop").len(), running.controller.status().counts.hot_loops);
    running.end().await.expect("it stops");
    assert!(!last.contains(&Cause::Timer), "no hour has passed: {last:?}");
    assert_eq!((found, loops), (1, 1));
}

/// The queue told the cause of a delayed add to whatever run came first, and journal.rs took it out
/// of the first one only: when that failed, its retry was told of a timer that would ring minutes
/// later.
#[tokio::test(start_paused = true)]
async fn timer_that_has_not_rung_is_no_cause_of_a_run_nor_of_its_retry() {
    let (_cluster, client) = cluster().await;
    let (said, mut ran) = mpsc::channel(10);
    let fails_on_change = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            said.send(cx.causes().iter().map(Cause::to_string).collect::<Vec<_>>()).await?;
            if object.data.is_some() && cx.attempt() < 3 {
                return Err(Error::msg("not now"));
            }
            Ok(Action::requeue_after(Duration::from_mins(5)))
        })
    });
    let running = run(client.clone(), fails_on_change);
    ran.recv().await.expect("the first run");
    tokio::time::sleep(Duration::from_secs(1)).await;
    touch(&client, "one", "now").await;
    for attempt in 1..=3 {
        let causes = ran.recv().await.expect("a run");
        assert_eq!(causes.len(), 1, "attempt {attempt}: {causes:?}");
        assert!(causes[0].contains("updated"), "attempt {attempt}: {causes:?}");
    }
    // The third attempt asked for another run, and now its time has come.
    let changed = Instant::now();
    assert_eq!(ran.recv().await.expect("a run"), ["timer"]);
    assert!(changed.elapsed() >= Duration::from_mins(5));
    running.end().await.expect("it stops");
}

/// journal.rs counts circles over whatever is written. A controller that makes one child in each
/// run, and is woken by it, comes to an end; it is told to be a hot loop at the tenth.
#[tokio::test(start_paused = true)]
async fn making_one_child_after_the_other_is_no_loop() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let maker = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let made = cx.list::<Secret>()?.in_namespace("default").iter().count();
            if made < 15 {
                let mut child = secret(&format!("made-{made}"));
                windlass_reconciler::set_owner(&mut child, &*object)?;
                cx.live().create(&child).await?;
            }
            said.send(made).await?;
            Ok(Action::done())
        })
    });
    let running = run_with(client, |builder| builder.owns(Watch::<Secret>::new()), maker);
    while runs.recv().await.expect("a run") < 15 {}
    let found = log.lines_with("hot loop");
    running.end().await.expect("it stops");
    assert_eq!(found, Vec::<String>::new());
}

/// write.rs `led_to`: a deletion leads to every version of its key, for as long as the journal
/// knows of it. What somebody else makes under the same name is told to be our own write.
#[tokio::test(start_paused = true)]
async fn what_others_make_after_our_deletion_is_not_by_us() {
    let (_cluster, client) = cluster().await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.create(&PostParams::default(), &secret("old")).await.expect("created");
    let (said, mut runs) = mpsc::channel(100);
    let deleter = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            if let Some(old) = cx.get::<Secret>("default/old")?
                && old.labels().is_empty()
            {
                cx.live().delete(&*old).await?;
            }
            said.send(cx.causes().to_vec()).await?;
            Ok(Action::done())
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

/// worker.rs `run`: the key may run again from `settle` on, and the journal has the run only after
/// it, and after the log line and the end of the user's error. Another worker then does not find
/// the write that woke it: `by_us` is wrong, the count of circles begins anew, and the runs come
/// into the journal in the wrong order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn run_is_in_the_journal_before_the_key_runs_again() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let (go, gate) = std::sync::mpsc::channel();
    let gate = Mutex::new(Some(gate));
    let writer = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let (said, gate) = (said.clone(), gate.lock().expect("not poisoned").take());
        Box::pin(async move {
            said.send(cx.causes().to_vec()).await?;
            let Some(gate) = gate else { return Ok(Action::done()) };
            let mut new = ConfigMap::clone(&object);
            new.labels_mut().insert("seen".to_owned(), "yes".to_owned());
            cx.live().update(&*object, &new).await?;
            Err(SlowToGo(Mutex::new(gate)).into())
        })
    });
    let running = run_with(client, |builder| builder.workers(2), writer);
    runs.recv().await.expect("a run");
    go.send(()).expect("it waits, or will");
    // A retry may come before the change does; its causes are those of the first run.
    let is_update = |cause: &Cause| matches!(cause, Cause::Changed { change: Change::Updated, .. });
    let update = loop {
        let causes = runs.recv().await.expect("another run");
        if let Some(update) = causes.into_iter().find(is_update) {
            break update;
        }
    };
    running.end().await.expect("it stops");
    assert!(update.is_by_us(), "{update:?}");
}

/// journal.rs `trim` moves keys that ran long ago to the end of the order when it drops stale
/// entries. After that, the key that ran last is forgotten, and not the one that ran longest ago.
#[tokio::test(start_paused = true)]
async fn key_that_ran_longest_ago_is_forgotten_first() {
    struct Often(AtomicU32);

    impl Reconcile<ConfigMap> for Often {
        async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
            Ok(Action::done())
        }

        async fn absent(&self, key: &ObjectKey, _: &RunContext) -> Result<Action, Error> {
            let is_again = key.name() == "often" && self.0.fetch_add(1, Ordering::Relaxed) < 10_001;
            Ok(if is_again { Action::requeue_after(Duration::ZERO) } else { Action::done() })
        }
    }

    let cluster = TestServer::embedded();
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

/// What others write while a run applies what is there already: the run's write changes nothing,
/// and is answered with their version. Says why each run came.
fn applies_in_vain(
    client: kube::Client,
    said: mpsc::Sender<Vec<Cause>>,
) -> impl Reconcile<ConfigMap> {
    let runs = Arc::new(AtomicU32::new(0));
    does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let (client, said, runs) = (client.clone(), said.clone(), Arc::clone(&runs));
        Box::pin(async move {
            // The real server is shared with other tests.
            if object.name_any() != "fought" {
                return Ok(Action::done());
            }
            let mut applied = crate::stage::config_map("fought");
            applied.labels_mut().insert("team".to_owned(), "ours".to_owned());
            let number = runs.fetch_add(1, Ordering::Relaxed);
            if number > 0 {
                touch(&client, "fought", &number.to_string()).await;
            }
            cx.live().apply(&applied).await?;
            let _ = said.send(cx.causes().to_vec()).await;
            Ok(Action::done())
        })
    })
}

on_each_server!(what_others_wrote_is_not_by_a_run_that_applied_what_was_there);
/// cause.rs `mark_if_own` credits a write with the version of its answer, also if the write changed
/// nothing and somebody else had made that version. The next run is told that it was woken by a run
/// before, and after ten of them the controller is blamed for a hot loop.
async fn what_others_wrote_is_not_by_a_run_that_applied_what_was_there(cluster: TestServer) {
    let log = Log::start();
    let client = cluster.client().expect("a client");
    create(&client, "fought").await;
    let (said, mut runs) = mpsc::channel(1);
    let running = run(client.clone(), applies_in_vain(client.clone(), said));
    // The first run has applied its label, and the second one was perhaps woken by that.
    for _ in 0..2 {
        runs.recv().await.expect("a run");
    }
    for _ in 0..30 {
        let causes = runs.recv().await.expect("a run");
        assert!(!causes.iter().any(Cause::is_by_us), "{causes:?}");
    }
    drop(runs);
    let hot_loops = running.controller.status().counts.hot_loops;
    running.end().await.expect("it stops");
    assert_eq!((hot_loops, log.lines_with("hot loop")), (0, Vec::new()));
    api(&client).delete("fought", &DeleteParams::default()).await.expect("deleted");
}

/// A loop of applies is still one. The server notes to the second who wrote last, so that each run
/// takes one.
#[tokio::test(start_paused = true)]
async fn hot_loop_of_applies_is_found() {
    let log = Log::start();
    let clock = WallClock::following_tokio("2026-01-01T00:00:00Z".parse().expect("a time"));
    let cluster = TestServer::on(ApiServer::builder().clock(clock).build());
    let client = cluster.client().expect("a client");
    create(&client, "one").await;
    let runs = AtomicU32::new(0);
    let (said, mut ran) = mpsc::channel(1);
    let counter = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let (number, said) = (runs.fetch_add(1, Ordering::Relaxed).to_string(), said.clone());
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut applied = crate::stage::config_map("one");
            applied.labels_mut().insert("runs".to_owned(), number);
            cx.live().apply(&applied).await?;
            let _ = said.send(()).await;
            Ok(Action::done())
        })
    });
    let running = run(client, counter);
    for _ in 0..20 {
        ran.recv().await.expect("a run");
    }
    drop(ran);
    running.end().await.expect("it stops");
    assert_eq!(log.lines_with("hot loop").len(), 1);
}

/// The same, if somebody else has only removed something: no manager of a field is noted for that,
/// but the cache shows it.
#[tokio::test(start_paused = true)]
async fn what_others_removed_is_not_by_a_run_that_applied_what_was_there() {
    let clock = WallClock::following_tokio("2026-01-01T00:00:00Z".parse().expect("a time"));
    let cluster = TestServer::on(ApiServer::builder().clock(clock).build());
    let client = cluster.client().expect("a client");
    create(&client, "one").await;
    touch(&client, "one", "yes").await;
    let runs = AtomicU32::new(0);
    let (others, (said, mut ran)) = (client.clone(), mpsc::channel(100));
    let watch = Watch::<ConfigMap>::new().options(|o| o.namespace("default"));
    let factory = SharedInformerFactory::new(client.clone());
    let here = factory.informer_with::<ConfigMap>(|o| o.namespace("default"));
    let objects = here.expect("an informer").lister().clone();
    let applier = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let (number, said) = (runs.fetch_add(1, Ordering::Relaxed), said.clone());
        let (others, objects) = (others.clone(), objects.clone());
        Box::pin(async move {
            // So that this controller is the last one that is noted.
            tokio::time::sleep(Duration::from_secs(1)).await;
            if number == 2 {
                let removal = Patch::Merge(json!({"data": null}));
                let removed = api(&others).patch("one", &PatchParams::default(), &removal).await?;
                let version = removed.resource_version().expect("a version");
                let shown = || {
                    objects.cached("default/one").map(|o| o.head().resource_version().to_string())
                };
                while shown() != Some(version.clone()) {
                    tokio::task::yield_now().await;
                }
            }
            let mut applied = crate::stage::config_map("one");
            applied.labels_mut().insert("runs".to_owned(), number.min(1).to_string());
            cx.live().apply(&applied).await?;
            said.send(cx.causes().to_vec()).await?;
            Ok(Action::done())
        })
    });
    let running = run_on(factory, Controller::named("configmap", watch), applier);
    let mut are_by_us = Vec::new();
    for _ in 0..4 {
        let causes = ran.recv().await.expect("a run");
        are_by_us.push(causes.iter().all(Cause::is_by_us));
    }
    running.end().await.expect("it stops");
    // The first apply comes in the second in which the server notes who was there before it.
    assert_eq!(are_by_us, [false, false, true, false]);
}

/// write.rs `led_to`: a deletion of ours leads to every deletion under its name, also of another
/// object.
#[tokio::test(start_paused = true)]
async fn what_others_delete_after_our_deletion_is_not_by_us() {
    let (_cluster, client) = cluster().await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.create(&PostParams::default(), &secret("old")).await.expect("created");
    let (said, mut runs) = mpsc::channel(100);
    let deleter = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            if let Some(old) = cx.get::<Secret>("default/old")?
                && old.labels().is_empty()
            {
                cx.live().delete(&*old).await?;
            }
            said.send(cx.causes().to_vec()).await?;
            Ok(Action::done())
        })
    });
    let to_one = |_: &Cached<Secret>| Some(key("default/one"));
    let running =
        run_with(client, |builder| builder.watches(Watch::<Secret>::new(), to_one), deleter);
    let mut deletion = async || {
        loop {
            let causes = runs.recv().await.expect("a run");
            let is_deletion =
                |cause: &Cause| matches!(cause, Cause::Changed { change: Change::Deleted, .. });
            if let Some(cause) = causes.into_iter().find(is_deletion) {
                return cause.is_by_us();
            }
        }
    };
    assert!(deletion().await, "it is ours");
    let mut theirs = secret("old");
    theirs.metadata.labels = Some(BTreeMap::from([("made".to_owned(), "others".to_owned())]));
    secrets.create(&PostParams::default(), &theirs).await.expect("created");
    secrets.delete("old", &DeleteParams::default()).await.expect("deleted");
    assert!(!deletion().await, "it is theirs");
    running.end().await.expect("it stops");
}

/// write.rs `led_to`: in a cluster that was restored from a backup, the version that a run wrote
/// before can be another's.
#[tokio::test(start_paused = true)]
async fn version_that_was_ours_before_a_restore_is_not_ours_after_it() {
    let (cluster, client) = cluster().await;
    let server = cluster.server().expect("embedded").clone();
    let backup = server.snapshot();
    let (said, mut runs) = mpsc::channel(100);
    let labeller = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            if object.name_any() != "one" {
                return Ok(Action::done());
            }
            if object.data.is_none() {
                let mut new = ConfigMap::clone(&object);
                new.labels_mut().insert("seen".to_owned(), "yes".to_owned());
                cx.live().update(&*object, &new).await?;
            }
            said.send((object.resource_version(), cx.causes().to_vec())).await?;
            Ok(Action::done())
        })
    });
    let running = run(client.clone(), labeller);
    runs.recv().await.expect("a run");
    let (ours, causes) = runs.recv().await.expect("the run that its write led to");
    assert!(causes.iter().all(Cause::is_by_us), "{causes:?}");
    create(&client, "undone").await;
    while running.controller.lister().cached("default/undone").is_none() {
        tokio::task::yield_now().await;
    }

    // A server is not restored while it answers.
    let away = server.faults().add(FaultRule::new(Fault::Refuse).verb("watch").verb("list"));
    server.restore(&backup);
    while server.faults().times_applied(away) == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    touch(&client, "one", "yes").await;
    server.faults().remove(away);
    let (theirs, causes) = runs.recv().await.expect("the run that the restore led to");
    running.end().await.expect("it stops");
    assert_eq!(ours, theirs, "the same version of the same object");
    assert!(!causes.iter().any(Cause::is_by_us), "{causes:?}");
}
