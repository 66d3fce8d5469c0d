//! Reading one's own writes.

use super::*;

/// worker.rs `caught_up` takes the writes out of `unseen` for good. A run that is told to be behind
/// and comes back a second later, as its documentation suggests, is not told again, though the
/// cache still lacks the write: it makes the object twice.
#[tokio::test(start_paused = true)]
async fn cache_that_is_behind_is_told_to_every_run_until_it_is_not() {
    let (cluster, client) = cluster().await;
    secrets_come_late(&cluster, Duration::from_mins(1));
    let maker = does(|_: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            if cx.cache_behind() {
                return Ok(Action::requeue_after(Duration::from_secs(1)));
            }
            if cx.list::<Secret>()?.in_namespace("default").is_empty() {
                let mut made = secret("made-");
                made.metadata.generate_name = made.metadata.name.take();
                cx.live().create(&made).await?;
            }
            Ok(Action::requeue_after(Duration::from_secs(1)))
        })
    });
    let running = run_with(client.clone(), |builder| builder.reads(Watch::<Secret>::new()), maker);
    tokio::time::sleep(Duration::from_mins(5)).await;
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    let made = secrets.list(&kube::api::ListParams::default()).await.expect("listed").items.len();
    running.end().await.expect("it stops");
    assert_eq!(made, 1, "one was asked for");
}

/// worker.rs `caught_up` waits in the worker, up to 5 s for each key from when the key is taken.
/// One watch that is late stops all keys, also those that have written nothing (fault 12), and N
/// keys with a write wait 5 s × N / workers.
#[tokio::test(start_paused = true)]
async fn key_that_waits_for_a_cache_does_not_keep_others_waiting() {
    let (cluster, client) = cluster().await;
    create(&client, "two").await;
    secrets_come_late(&cluster, Duration::from_mins(1));
    let (said, mut runs) = mpsc::channel(100);
    let maker = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let name = object.name_any();
            said.send((name.clone(), Instant::now())).await?;
            if name == "one" && object.data.is_some() && !cx.cache_behind() {
                cx.live().create(&secret("made")).await?;
                return Ok(Action::requeue_after(Duration::ZERO));
            }
            Ok(Action::done())
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

/// `InformerCache::is_caught_up` takes whatever is not held as seen if fields select. The next run
/// reads a cache without what was made, and `cache_behind` is false: lib.rs promises the contrary,
/// without an exception.
#[tokio::test(start_paused = true)]
async fn what_a_run_made_is_waited_for_also_if_fields_select() {
    let (cluster, client) = cluster().await;
    secrets_come_late(&cluster, Duration::from_secs(2));
    let (said, mut runs) = mpsc::channel(100);
    let maker = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let held = cx.get::<Secret>("default/made")?.is_some();
            said.send((held, cx.cache_behind())).await?;
            if cx.live::<Secret>().get(&key("default/made")).await?.is_none() {
                cx.live().create(&secret("made")).await?;
                return Ok(Action::requeue_after(Duration::ZERO));
            }
            Ok(Action::done())
        })
    });
    let one = Watch::<Secret>::new().options(|o| o.field_selector("metadata.name=made"));
    let running = run_with(client, |builder| builder.reads(one), maker);
    assert_eq!(runs.recv().await, Some((false, false)));
    let (held, is_behind) = runs.recv().await.expect("another run");
    running.end().await.expect("it stops");
    assert!(held || is_behind, "the cache lacks it, and nobody says so");
}

/// worker.rs `drain` looks at the token before the wait for the caches, and not after it. Its
/// documentation says that no key is run from then on; with leader election, this run writes though
/// the lease is gone.
#[tokio::test(start_paused = true)]
async fn key_that_waits_for_a_cache_is_not_run_after_the_stop() {
    let (cluster, client) = cluster().await;
    secrets_come_late(&cluster, Duration::from_mins(1));
    let runs = Arc::new(AtomicU32::new(0));
    let (counted, (said, mut heard)) = (Arc::clone(&runs), mpsc::channel(10));
    let maker = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        counted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if !cx.cache_behind() {
                cx.live().create(&secret("made")).await?;
            }
            said.send(()).await?;
            Ok(Action::requeue_after(Duration::ZERO))
        })
    });
    let running = run_with(client, |builder| builder.reads(Watch::<Secret>::new()), maker);
    heard.recv().await.expect("a run");
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.end().await.expect("it stops");
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

/// recording.rs: what is written through the client after the run has ended goes to a log that
/// nobody reads any more. It is not waited for; and whoever keeps the client, in a field or in a
/// task, makes that log grow for ever.
#[tokio::test(start_paused = true)]
async fn what_a_task_of_a_run_writes_after_it_is_waited_for_too() {
    let (cluster, client) = cluster().await;
    secrets_come_late(&cluster, Duration::from_secs(2));
    let (said, mut runs) = mpsc::channel(100);
    let (lent, mut clients) = mpsc::channel(100);
    let lender = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let (said, lent) = (said.clone(), lent.clone());
        Box::pin(async move {
            let held = cx.get::<Secret>("default/made")?.is_some();
            lent.send(cx.client().clone()).await?;
            said.send((held, cx.cache_behind())).await?;
            Ok(Action::done())
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

/// recording.rs does not remember a write whose answer was lost, so the next run reads a cache that
/// may lack it, and `cache_behind` says that nothing is missing (fault 14: treated as unknown): it
/// is made twice.
#[tokio::test(start_paused = true)]
async fn write_whose_answer_was_lost_is_unknown_to_the_next_run() {
    let (cluster, client) = cluster().await;
    secrets_come_late(&cluster, Duration::from_secs(2));
    let lost = FaultRule::new(Fault::LoseAnswer).verb("create").resource("secrets").times(1);
    cluster.server().expect("embedded").faults().add(lost);
    let (said, mut runs) = mpsc::channel(100);
    let maker = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let held = cx.get::<Secret>("default/made")?.is_some();
            said.send((held, cx.cache_behind())).await?;
            if !held && !cx.cache_behind() {
                cx.live().create(&secret("made")).await?;
            }
            Ok(Action::done())
        })
    });
    let running = run_with(client, |builder| builder.reads(Watch::<Secret>::new()), maker);
    assert_eq!(runs.recv().await, Some((false, false)));
    let (held, is_behind) = runs.recv().await.expect("another run");
    running.end().await.expect("it stops");
    assert!(held || is_behind, "the cache lacks what was made, and nobody says so");
}

/// Counts its clean-ups; each object has a Secret, which goes with it.
struct Counting {
    cleanups: Arc<AtomicU32>,
    made: mpsc::Sender<()>,
}

impl Finalize<ConfigMap> for Counting {
    async fn reconcile(&self, object: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        cx.live().apply_owned(secret("child"), &*object).await?;
        self.made.send(()).await?;
        Ok(Action::done())
    }

    async fn cleanup(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        self.cleanups.fetch_add(1, Ordering::Relaxed);
        Ok(Action::done())
    }
}

/// write.rs `Write::of` takes the answer to the patch that removes the last finalizer for a
/// version. It is the one that the cache holds already, so that nothing waits for the deletion: an
/// event of a child runs the object again, and it is cleaned up twice.
#[tokio::test(start_paused = true)]
async fn deletion_that_follows_on_the_last_finalizer_is_waited_for() {
    let (cluster, client) = cluster().await;
    let cleanups = Arc::new(AtomicU32::new(0));
    let (made, mut ready) = mpsc::channel(100);
    let counting = Counting { cleanups: Arc::clone(&cleanups), made };
    let reconciler = Finalized::new("example.com/counted", counting);
    let running =
        run_with(client.clone(), |builder| builder.owns(Watch::<Secret>::new()), reconciler);
    ready.recv().await.expect("a run");
    let late = FaultRule::new(Fault::DelayEvent(Duration::from_secs(2))).resource("configmaps");
    cluster.server().expect("embedded").faults().add(late);
    api(&client).delete("one", &DeleteParams::default()).await.expect("deleted");
    let is_deletion =
        |cause: &Cause| matches!(cause, Cause::Changed { change: Change::Deleted, .. });
    let is_over = || {
        let runs = running.controller.runs(&key("default/one"));
        runs.iter().flat_map(|run| &run.causes).filter(|cause| is_deletion(cause)).count() == 2
    };
    while !is_over() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    running.end().await.expect("it stops");
    assert_eq!(cleanups.load(Ordering::Relaxed), 1);
}

/// `InformerCache::is_caught_up` compares versions of before and after a restore of the cluster.
/// What the last run wrote before has a higher version than anything after it: the key is told to
/// be behind, and waits five seconds after each of its writes, until the versions have grown past
/// the old ones.
#[tokio::test(start_paused = true)]
async fn writes_from_before_a_restore_are_not_waited_for_after_it() {
    let (cluster, client) = cluster().await;
    let server = cluster.server().expect("embedded").clone();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.create(&PostParams::default(), &secret("counted")).await.expect("created");
    let second = Duration::from_secs(1);
    let (said, mut runs) = mpsc::channel(100);
    let counter = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let started = Instant::now();
            let count = |secret: &mut Secret| {
                let counted = secret.annotations_mut().entry("runs".to_owned()).or_default();
                counted.push('1');
            };
            cx.live::<Secret>().modify(&key("default/counted"), count).await?;
            said.send((started, cx.cache_behind())).await?;
            let is_touched = object.data.is_some();
            Ok(if is_touched { Action::requeue_after(second) } else { Action::done() })
        })
    });
    let backup = server.snapshot();
    for number in 0..100 {
        secrets
            .create(&PostParams::default(), &secret(&format!("new-{number}")))
            .await
            .expect("made");
    }
    let running =
        run_with(client.clone(), |builder| builder.reads(Watch::<Secret>::new()), counter);
    assert!(!runs.recv().await.expect("a run").1);

    // A server is not restored while it answers.
    let away = server.faults().add(FaultRule::new(Fault::Refuse).verb("watch").verb("list"));
    server.restore(&backup);
    while server.faults().times_applied(away) < 2 {
        tokio::time::sleep(second).await;
    }
    server.faults().remove(away);
    let has_followed = || {
        let informers = running.controller.informers();
        informers.iter().all(|informer| informer.feeds[0].counts.restored == 1)
    };
    while !has_followed() {
        tokio::time::sleep(second).await;
    }
    touch(&client, "one", "yes").await;
    let (mut last, was_behind) = runs.recv().await.expect("a run");
    assert!(!was_behind, "of what it wrote before the restore");
    for _ in 0..3 {
        let (started, is_behind) = runs.recv().await.expect("a run");
        assert_eq!((started - last, is_behind), (second, false));
        last = started;
    }
    running.end().await.expect("it stops");
}

/// Makes a Secret in its first run, and comes back `after` that, with a cache of those whose type
/// is `type`. Says when each run began, whether the cache had the Secret, and whether it was told
/// to be behind.
fn run_with_secrets_of(
    client: kube::Client,
    selected: &'static str,
    after: Duration,
) -> (crate::stage::Running, mpsc::Receiver<(Instant, bool, bool)>) {
    let (said, runs) = mpsc::channel(100);
    let maker = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let held = cx.get::<Secret>("default/made")?.is_some();
            said.send((Instant::now(), held, cx.cache_behind())).await?;
            if cx.live::<Secret>().get(&key("default/made")).await?.is_none() {
                cx.live().create(&secret("made")).await?;
            }
            Ok(Action::requeue_after(after))
        })
    });
    let some = Watch::<Secret>::new().options(move |o| o.field_selector(selected));
    (run_with(client, |builder| builder.reads(some), maker), runs)
}

/// `InformerCache::is_caught_up` cannot tell whether a field selects an object, and so a key waited
/// five seconds after each write to one that is not selected, and was told to be behind then, until
/// a bookmark came.
#[tokio::test(start_paused = true)]
async fn object_that_a_field_does_not_select_is_waited_for_briefly_and_told_once() {
    let (_cluster, client) = cluster().await;
    let (running, mut runs) = run_with_secrets_of(client, "type=example.com/x", Duration::ZERO);
    let (first, _, _) = runs.recv().await.expect("a run");
    let (second, _, is_behind) = runs.recv().await.expect("another run");
    let (third, _, is_still_behind) = runs.recv().await.expect("a third run");
    running.end().await.expect("it stops");
    assert_eq!(second - first, Duration::from_millis(100));
    assert_eq!((is_behind, is_still_behind), (true, false));
    assert_eq!(third, second);
}

#[tokio::test(start_paused = true)]
async fn object_that_a_field_does_not_select_is_forgotten_after_five_seconds() {
    let (_cluster, client) = cluster().await;
    let pause = Duration::from_secs(6);
    let (running, mut runs) = run_with_secrets_of(client, "type=example.com/x", pause);
    let (first, _, _) = runs.recv().await.expect("a run");
    let (second, _, is_behind) = runs.recv().await.expect("another run");
    running.end().await.expect("it stops");
    assert_eq!((second - first, is_behind), (pause, false));
}

#[tokio::test(start_paused = true)]
async fn object_that_a_field_selects_is_shown_or_told() {
    for late in [Duration::from_millis(50), Duration::from_secs(2)] {
        let (cluster, client) = cluster().await;
        secrets_come_late(&cluster, late);
        let (running, mut runs) = run_with_secrets_of(client, "type=Opaque", Duration::ZERO);
        runs.recv().await.expect("a run");
        let (_, held, is_behind) = runs.recv().await.expect("another run");
        running.end().await.expect("it stops");
        assert_ne!(held, is_behind, "{late:?}");
        assert_eq!(held, late < Duration::from_millis(100));
    }
}
