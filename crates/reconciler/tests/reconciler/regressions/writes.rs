//! Finalizers, and writes.

use super::*;

struct Told(mpsc::Sender<&'static str>);

impl Finalize<Deployment> for Told {
    async fn reconcile(&self, _: Arc<Deployment>, _: &RunContext) -> Result<Action, Error> {
        self.0.send("reconcile").await?;
        Ok(Action::done())
    }

    async fn cleanup(&self, _: Arc<Deployment>, _: &RunContext) -> Result<Action, Error> {
        self.0.send("cleanup").await?;
        Ok(Action::done())
    }
}

/// finalizer.rs relies on the event of its own patch for the first real run. A finalizer does not
/// change the generation, so with the most common predicate that event is passed over: the object
/// is never reconciled.
#[tokio::test(start_paused = true)]
async fn finalized_object_is_reconciled_whatever_the_predicate() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    deployments.create(&PostParams::default(), &deployment("web")).await.expect("created");
    let (said, mut heard) = mpsc::channel(10);
    let factory = SharedInformerFactory::new(client);
    let watch = Watch::<Deployment>::new().when(Predicate::generation_changed());
    let controller = Controller::named("configmap", watch)
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

/// difference.rs: a merge patch replaces a list as a whole, and the list is a typed one. A field of
/// a container that the type does not know is erased by a change of the image (fault 28: never).
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
    let changer = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let (live, web) = (cx.live::<Poor>(), key("default/web"));
            let modified = live.modify(&web, |web| {
                web.spec.template.spec.containers[0].image = "web:2".to_owned();
            });
            modified.await?;
            said.send(()).await?;
            Ok(Action::done())
        })
    });
    let running = run(client, changer);
    heard.recv().await.expect("it was changed");
    running.end().await.expect("it stops");
    let after = deployments.get("web").await.expect("it is there");
    let expected = (Some("web:2".to_owned()), Some(vec!["serve".to_owned()]));
    assert_eq!(command(&after), expected);
}

/// live.rs `update_status` sends all that differs to /status, and not "the status alone": kinds
/// whose status takes metadata (pods do) would be relabelled, and here a request is made though the
/// status is the same.
#[tokio::test(start_paused = true)]
async fn status_that_is_the_same_is_not_written() {
    let (_cluster, client) = cluster().await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    deployments.create(&PostParams::default(), &deployment("web")).await.expect("created");
    let (said, mut heard) = mpsc::channel(10);
    let writer = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let live = cx.live::<Deployment>();
            let old = live.get(&key("default/web")).await?.expect("it is there");
            let mut new = old.clone();
            new.annotations_mut().insert("not".to_owned(), "status".to_owned());
            live.update_status(&old, &new).await?;
            said.send(()).await?;
            Ok(Action::done())
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

/// The journal kept every write of a run, with the whole head of its object.
#[tokio::test(start_paused = true)]
async fn journal_keeps_the_first_and_the_last_writes_of_a_run_and_counts_the_others() {
    const WRITES: usize = 10_000;
    let (_cluster, client) = cluster().await;
    let (said, mut heard) = mpsc::channel(10);
    let writer = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let secrets: Api<Secret> = Api::namespaced(cx.client().clone(), "default");
            let made = secrets.create(&PostParams::default(), &secret("made")).await?;
            let mut versions = vec![made.resource_version()];
            for number in 1..WRITES {
                let patch = Patch::Merge(json!({"stringData": {"number": number.to_string()}}));
                let patched = secrets.patch("made", &PatchParams::default(), &patch).await?;
                versions.push(patched.resource_version());
            }
            said.send(versions).await?;
            Ok(Action::done())
        })
    });
    let running = run(client, writer);
    let versions = heard.recv().await.expect("a run");
    while running.controller.runs(&key("default/one")).is_empty() {
        tokio::task::yield_now().await;
    }
    let run = running.controller.runs(&key("default/one")).remove(0);
    running.end().await.expect("it stops");
    let kept: Vec<_> =
        run.writes.iter().map(|write| write.version.as_ref().map(ToString::to_string)).collect();
    assert_eq!((kept.len(), run.writes_omitted), (16, 9_984));
    assert_eq!(kept, [&versions[..8], &versions[WRITES - 8..]].concat());
}
