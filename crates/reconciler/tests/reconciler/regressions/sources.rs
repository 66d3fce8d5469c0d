//! Sources, the queue, the end.

use super::*;

/// Says that it ran.
struct Reporter(mpsc::Sender<()>);

impl Reconcile<Deployment> for Reporter {
    async fn reconcile(&self, _: Arc<Deployment>, _: &RunContext) -> Result<Action, Error> {
        self.0.send(()).await?;
        Ok(Action::done())
    }
}

/// wiring.rs passes over children of a namesake that was there before. If the new owner met the old
/// child ("exists, and is not mine") and rests, nothing tells it that the old child is gone;
/// controller-runtime maps by name for that reason.
#[tokio::test(start_paused = true)]
async fn new_owner_runs_when_the_child_of_its_namesake_goes() {
    let server = ApiServer::builder().garbage_collection(false).build();
    let cluster = TestServer::on(server);
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
    let controller = Controller::named("deployment", Watch::<Deployment>::new())
        .owns(Watch::<ReplicaSet>::new())
        .build(&factory, Reporter(said))
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

/// controller.rs `work_until` shuts the queue down when something has broken, but does not tell the
/// workers to stop: all keys that are ready are reconciled first, on caches that may be dead,
/// before `run` says what broke (fault 20).
#[tokio::test(start_paused = true)]
async fn controller_that_broke_does_not_work_through_its_queue_first() {
    let (_cluster, client) = cluster().await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let slow = does(move |_: Arc<ConfigMap>, _: &RunContext| {
        counted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok(Action::done())
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

/// source.rs `remove` only lets go of its own handle, and controller.rs `synced` holds another. A
/// source that is removed while the controller waits for its cache is waited for to the end, and
/// then fails the controller.
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
    let reporter = does(move |_: Arc<ConfigMap>, _: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            said.send(()).await?;
            Ok(Action::done())
        })
    });
    let factory = SharedInformerFactory::new(client);
    let controller = Controller::named("configmap", Watch::<ConfigMap>::new())
        .build(&factory, reporter)
        .expect("a controller");
    let watch = Watch::<DynamicObject>::of(Resource::new(&missing, true));
    let source = controller.handle().add_owned(watch).expect("a source");
    let stop = CancellationToken::new();
    let story = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(controller.handle().remove(source));
        let ran = timeout(LONG, runs.recv()).await;
        stop.cancel();
        ran
    };
    let (ran, first) = tokio::join!(controller.run(stop.clone()), story);
    ran.expect("nothing is missing any more");
    first.expect("it runs").expect("it runs");
}

/// wiring.rs: a panic in a predicate, a mapper or a policy loses the event for ever. A policy only
/// says how urgent a key is; that it panics must not mean that the key never runs.
#[tokio::test(start_paused = true)]
async fn policy_that_panics_does_not_lose_the_key() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(10);
    let reporter = does(move |_: Arc<ConfigMap>, _: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            said.send(()).await?;
            Ok(Action::done())
        })
    });
    let policy = |_: &ObjectKey, _: &Cause| -> Priority { panic!("no opinion") };
    let running = run_with(client, |builder| builder.priority(policy), reporter);
    let ran = timeout(LONG, runs.recv()).await;
    running.end().await.expect("it stops");
    assert!(ran.is_ok(), "the key is lost");
}

/// watch.rs: `options` and `when` replace what was said before, silently. A watch of one namespace
/// becomes one of the whole cluster by a second call that only adds a label selector.
#[tokio::test(start_paused = true)]
async fn options_of_a_watch_add_up() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(10);
    let reporter = does(move |object: Arc<ConfigMap>, _: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            said.send(object.name_any()).await?;
            Ok(Action::done())
        })
    });
    let factory = SharedInformerFactory::new(client);
    let watch = Watch::<ConfigMap>::new()
        .options(|o| o.namespace("kube-system").field_selector("metadata.name!=kube-root-ca.crt"))
        .options(|o| o.label_selector("!nothing"));
    let controller =
        Controller::named("configmap", watch).build(&factory, reporter).expect("a controller");
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

/// source.rs `lister` gives the first cache of a type. With two watches of one type, what the
/// second has is not found, and nothing says so.
#[tokio::test(start_paused = true)]
async fn two_caches_of_one_type_are_not_mistaken_for_each_other() {
    let (_cluster, client) = cluster().await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.create(&PostParams::default(), &secret("there")).await.expect("created");
    let (said, mut heard) = mpsc::channel(10);
    let reader = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let has_whole_answer = match cx.cache::<Secret>() {
                Ok(cache) => cache.get("default/there")?.is_some(),
                Err(_) => true,
            };
            said.send(has_whole_answer).await?;
            Ok(Action::done())
        })
    });
    let elsewhere = Watch::<Secret>::new().options(|o| o.namespace("kube-system"));
    let here = Watch::<Secret>::new().options(|o| o.namespace("default"));
    let running = run_with(client, |builder| builder.reads(elsewhere).reads(here), reader);
    let has_whole_answer = heard.recv().await.expect("a run");
    running.end().await.expect("it stops");
    assert!(
        has_whole_answer,
        "it is in a cache of the controller, and neither found nor is an error told"
    );
}

/// context.rs `lister` cuts the name of a type at its last `::`, which is within the brackets of a
/// generic one.
#[tokio::test(start_paused = true)]
async fn missing_cache_of_metadata_is_told_in_words_that_compile() {
    let (_cluster, client) = cluster().await;
    let (said, mut heard) = mpsc::channel(10);
    let reader = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let error = cx.cache::<PartialObjectMeta<Secret>>().map(drop).expect_err("no cache");
            said.send(error.to_string()).await?;
            Ok(Action::done())
        })
    });
    let running = run(client, reader);
    let told = heard.recv().await.expect("a run");
    running.end().await.expect("it stops");
    assert!(!told.contains("Secret>>"), "{told}");
}

/// controller.rs `run`: the queue of a controller that ran is shut down. Who runs it again, as
/// after a cache that was not complete in time, is told that it ran and was stopped, and nothing is
/// reconciled.
#[tokio::test(start_paused = true)]
async fn controller_that_is_run_again_runs_or_says_that_it_cannot() {
    let (cluster, client) = cluster().await;
    let server = cluster.server().expect("embedded");
    let failing = FaultRule::new(Fault::Fail { code: 503, retry_after: None });
    let fault = server.faults().add(failing.resource("configmaps"));
    let factory = SharedInformerFactory::new(client);
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let reconciler = does(move |_: Arc<ConfigMap>, _: &RunContext| {
        counted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(Action::done()) })
    });
    let controller = Controller::named("configmap", Watch::<ConfigMap>::new())
        .build(&factory, reconciler)
        .expect("a controller");
    controller.run(CancellationToken::new()).await.expect_err("the cache is not complete");
    server.faults().remove(fault);
    let again = timeout(LONG, controller.run(CancellationToken::new())).await;
    let has_run = runs.load(Ordering::Relaxed) > 0;
    assert!(has_run || matches!(again, Ok(Err(_))), "nothing ran, and it says {again:?}");
}

/// worker.rs `settle` does not ask the policy about `Cause::Timer`, though it is a cause that wakes
/// keys.
#[tokio::test(start_paused = true)]
async fn policy_is_asked_about_timers_too() {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(10);
    let again = does(move |_: Arc<ConfigMap>, _: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let _ = said.send(()).await;
            Ok(Action::requeue_after(Duration::from_secs(1)))
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
