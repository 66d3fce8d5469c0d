//! What a controller does while an owner is being deleted: it makes nothing for it. On both
//! servers, where the server has a part in it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use windlass_reconciler::{
    Action, Class, ControllerBuilder, Error, Finalize, Finalized, Outcome, OwnerDeleted,
    RunContext, Watch, WriteOptions, add_owner, set_owner,
};
use windlass_testserver::{TestServer, on_each_server};

use crate::stage::{Called, config_map, does, in_a_run, run_with};

fn plain(builder: ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap> {
    builder.makes::<ConfigMap>()
}

fn map(name: &str) -> ConfigMap {
    let object = json!({"metadata": {"name": name}, "data": {"key": "value"}});
    serde_json::from_value(object).expect("an object")
}

fn in_namespace(mut map: ConfigMap, owner: &ConfigMap) -> ConfigMap {
    map.metadata.namespace = owner.namespace();
    map
}

/// Creates `owner`, and deletes it. A finalizer keeps it.
async fn create_deleted(maps: &Api<ConfigMap>) {
    let mut owner = map("owner");
    owner.finalizers_mut().push("example.com/hold".to_owned());
    maps.create(&PostParams::default(), &owner).await.expect("created");
    maps.delete("owner", &DeleteParams::foreground()).await.expect("deleted");
}

async fn release(maps: &Api<ConfigMap>) {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("owner", &PatchParams::default(), &patch).await.expect("released");
}

on_each_server!(nothing_is_made_for_an_owner_that_is_being_deleted);
async fn nothing_is_made_for_an_owner_that_is_being_deleted(cluster: TestServer) {
    let namespace = cluster.namespace("deletion").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    create_deleted(&maps).await;
    in_a_run(&cluster, &namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let live = cx.live::<ConfigMap>();
            let child = || in_namespace(map("child"), &owner);
            let mut controlled = child();
            set_owner(&mut controlled, &*owner)?;
            let mut plain = child();
            add_owner(&mut plain, &*owner)?;
            // A reconciler may build its owner anew, without what the server says of it.
            let mut alive = ConfigMap::clone(&owner);
            alive.metadata.deletion_timestamp = None;
            let refused = [
                cx.children(&owner).apply(map("child")).prune().await.map(drop),
                cx.children(&alive).apply(map("child")).prune().await.map(drop),
                live.apply_owned(child(), &owner).await.map(drop),
                live.apply_owned(child(), &alive).await.map(drop),
                live.create(&controlled).await.map(drop),
                live.create(&plain).await.map(drop),
                live.apply(&controlled).await.map(drop),
                live.with(WriteOptions::new().dry_run()).create(&controlled).await.map(drop),
            ];
            for (way, refused) in refused.into_iter().enumerate() {
                let error = refused.expect_err("the owner is being deleted");
                assert_eq!(error.class(), Class::OwnerDeleted, "{way}: {error}");
                let refusal = OwnerDeleted::of(&error).expect("its type");
                let name = format!("ConfigMap {}", cx.key());
                assert_eq!(refusal.owner, name, "{way}");
                assert_eq!(error.delay(), None);
                // Nothing that is decided about the error makes a failure of it.
                let error = error.retry_after(Duration::from_secs(1)).terminal();
                assert_eq!((error.class(), error.delay()), (Class::OwnerDeleted, None));
            }
            // What belongs to nobody, or to somebody else, is made.
            live.create(&child()).await?;
            // Nothing is made here.
            cx.children(&owner).prune().await?;
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
    release(&maps).await;
}

on_each_server!(object_for_the_clean_up_is_made_and_does_not_block_the_deletion);
async fn object_for_the_clean_up_is_made_and_does_not_block_the_deletion(cluster: TestServer) {
    let namespace = cluster.namespace("deletion").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    create_deleted(&maps).await;
    in_a_run(&cluster, &namespace, plain, |owner: Arc<ConfigMap>, cx: &RunContext| {
        Box::pin(async move {
            let options = WriteOptions::new().allow_deleted_owner();
            let set = cx.children(&owner).with(options).apply(map("in-a-set"));
            let of_set: Option<ConfigMap> = set.prune().await?.get("in-a-set")?;
            let single = in_namespace(map("single"), &owner);
            let single = cx.live().with(options).apply_owned(single, &owner).await?;
            for made in [of_set.expect("it was made"), single] {
                let owner = &made.owner_references()[0];
                let is_blocking = owner.block_owner_deletion;
                assert_eq!((owner.controller, is_blocking), (Some(true), None));
            }
            Ok::<(), Error>(())
        })
    })
    .await
    .expect("everything goes");
    // The embedded collector has settled. A real one that has just started may delete them.
    if cluster.server().is_some() {
        for name in ["in-a-set", "single"] {
            maps.get(name).await.expect("it is there");
        }
    }
    release(&maps).await;
}

/// A controller that makes `child` for each `ConfigMap` that has no owner, and says how often it
/// ran.
fn maker(
    runs: mpsc::Sender<()>,
) -> impl for<'a> Fn(Arc<ConfigMap>, &'a RunContext) -> Called<'a> + Send + Sync + 'static {
    move |object: Arc<ConfigMap>, cx: &RunContext| {
        let _ = runs.try_send(());
        Box::pin(async move {
            let child: Secret = serde_json::from_value(json!({"metadata": {"name": "child"}}))?;
            cx.children(&object).apply(child).prune().await?;
            Ok(Action::done())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn run_for_a_deleted_owner_is_no_failure_and_waits_for_the_next_event() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    create_deleted(&maps).await;
    let (sender, mut runs) = mpsc::channel(64);
    let builder = |builder: ControllerBuilder<ConfigMap>| builder.makes::<Secret>();
    let running = run_with(client, builder, does(maker(sender)));
    runs.recv().await.expect("a run");
    // No retry, for an hour.
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(runs.try_recv().is_err());
    let key = "default/owner".parse().expect("a key");
    let [run] = &running.controller.runs(&key)[..] else { panic!("one run") };
    let Outcome::OwnerDeleted { message } = &run.outcome else { panic!("{:?}", run.outcome) };
    assert_eq!(
        message,
        "ConfigMap default/owner is being deleted, so Secret default/child is not made for it: a \
         foreground deletion would never end; if it is needed for the clean-up, use \
         WriteOptions::allow_deleted_owner"
    );
    assert_eq!((run.outcome.is_failure(), run.retry_in, run.gave_up), (false, None, false));
    let status = running.controller.status();
    assert_eq!((status.counts.owner_deleted, status.counts.runs()), (1, 1));
    assert!(status.counts.failed.is_empty());
    assert!(running.controller.inactive().is_empty());
    running.end().await.expect("it stops");
}

/// The owner is deleted while its run is under way.
#[tokio::test(start_paused = true)]
async fn long_run_makes_nothing_once_the_cache_shows_the_deletion() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut owner = config_map("owner");
    owner.finalizers_mut().push("example.com/hold".to_owned());
    maps.create(&PostParams::default(), &owner).await.expect("created");
    let (began, mut runs) = mpsc::channel(64);
    let reconciler = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let began = began.clone();
        Box::pin(async move {
            let _ = began.try_send(());
            tokio::time::sleep(Duration::from_mins(1)).await;
            let child: Secret = serde_json::from_value(json!({"metadata": {"name": "child"}}))?;
            cx.children(&object).apply(child).prune().await?;
            Ok(Action::done())
        })
    });
    let builder = |builder: ControllerBuilder<ConfigMap>| builder.makes::<Secret>();
    let running = run_with(client.clone(), builder, reconciler);
    runs.recv().await.expect("a run");
    maps.delete("owner", &DeleteParams::background()).await.expect("deleted");
    // The run of the deletion begins when that one has ended.
    runs.recv().await.expect("a run");
    let key = "default/owner".parse().expect("a key");
    let [run] = &running.controller.runs(&key)[..] else { panic!("one run") };
    assert!(matches!(run.outcome, Outcome::OwnerDeleted { .. }), "{:?}", run.outcome);
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    assert!(secrets.get_opt("child").await.expect("an answer").is_none());
    running.end().await.expect("it stops");
}

/// Cleans up by a set of children, without saying that it may.
struct Forgetful;

impl Finalize<ConfigMap> for Forgetful {
    async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        Ok(Action::done())
    }

    async fn cleanup(&self, owner: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        let job: Secret = serde_json::from_value(json!({"metadata": {"name": "job"}}))?;
        cx.children(&owner).apply(job).prune().await?;
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn clean_up_that_is_refused_is_an_error_that_shows() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut owner = config_map("owner");
    owner.finalizers_mut().push("example.com/job".to_owned());
    maps.create(&PostParams::default(), &owner).await.expect("created");
    maps.delete("owner", &DeleteParams::background()).await.expect("deleted");
    let reconciler = Finalized::new("example.com/job", Forgetful);
    let builder = |builder: ControllerBuilder<ConfigMap>| builder.makes::<Secret>();
    let running = run_with(client, builder, reconciler);
    let key = "default/owner".parse().expect("a key");
    while running.controller.runs(&key).is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let [run] = &running.controller.runs(&key)[..] else { panic!("one run") };
    let Outcome::Terminal { message, .. } = &run.outcome else { panic!("{:?}", run.outcome) };
    assert!(message.contains("allow_deleted_owner"), "{message}");
    running.end().await.expect("it stops");
}

/// Deletes `owner`, and lets the collector go on while the controller acts between its steps.
/// Returns after how many steps nothing was left to do; `None` if that were too many.
async fn steps_until_settled(cluster: &TestServer, policy: DeleteParams) -> Option<u32> {
    let server = cluster.server().expect("it is embedded").clone();
    let client = cluster.client().expect("a client");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    maps.create(&PostParams::default(), &config_map("owner")).await.expect("created");
    let (sender, _runs) = mpsc::channel(64);
    let builder = |builder: ControllerBuilder<ConfigMap>| {
        builder.owns(Watch::<Secret>::new().options(|o| o.namespace("default")))
    };
    let running = run_with(client, builder, does(maker(sender)));
    while secrets.get_opt("child").await.expect("an answer").is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    maps.delete("owner", &policy).await.expect("deleted");
    let mut steps = Some(0);
    loop {
        // The clock is paused, so this is as long as the controller has something to do.
        tokio::time::sleep(Duration::from_secs(1)).await;
        if !server.collect_step() {
            break;
        }
        steps = steps.map(|steps| steps + 1).filter(|steps| *steps < 50);
        if steps.is_none() {
            break;
        }
    }
    assert!(running.controller.status().counts.failed.is_empty(), "{:?}", running.controller);
    running.end().await.expect("it stops");
    steps
}

fn by_step() -> TestServer {
    TestServer::on(
        windlass_testserver::apiserver::ApiServer::builder().garbage_by_step(true).build(),
    )
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_ends() {
    let cluster = by_step();
    // The child, and the finalizer of its owner.
    assert_eq!(steps_until_settled(&cluster, DeleteParams::foreground()).await, Some(2));
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client().expect("a client"));
    assert!(maps.get_opt("owner").await.expect("an answer").is_none());
}

#[tokio::test(start_paused = true)]
async fn children_of_an_owner_that_orphans_them_are_left_alone() {
    let cluster = by_step();
    let orphan = DeleteParams {
        propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    assert_eq!(steps_until_settled(&cluster, orphan).await, Some(2));
    let secrets: Api<Secret> = Api::default_namespaced(cluster.client().expect("a client"));
    let child = secrets.get("child").await.expect("it stays");
    assert!(child.owner_references().is_empty() && child.metadata.deletion_timestamp.is_none());
}

/// Deletes its children itself, and says that it has.
struct CleansUp(mpsc::Sender<String>);

impl Finalize<ConfigMap> for CleansUp {
    async fn reconcile(&self, owner: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        let child: Secret = serde_json::from_value(json!({"metadata": {"name": "child"}}))?;
        let report = cx.children(&owner).apply(child).prune().await?;
        let _ = self.0.try_send(report.to_string());
        Ok(Action::done())
    }

    async fn cleanup(&self, owner: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        let report = cx.children(&owner).prune().await?;
        let _ = self.0.try_send(report.to_string());
        Ok(Action::done())
    }
}

/// The clean-up is faster than the collector.
#[tokio::test(start_paused = true)]
async fn clean_up_leaves_children_alone_that_the_user_orphans() {
    for is_orphaned in [true, false] {
        let cluster = by_step();
        let server = cluster.server().expect("it is embedded").clone();
        let client = cluster.client().expect("a client");
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let secrets: Api<Secret> = Api::default_namespaced(client.clone());
        maps.create(&PostParams::default(), &config_map("owner")).await.expect("created");
        let (sender, mut reports) = mpsc::channel(64);
        let builder = |builder: ControllerBuilder<ConfigMap>| {
            builder.owns(Watch::<Secret>::new().options(|o| o.namespace("default")))
        };
        let finalized = Finalized::new("example.com/maker", CleansUp(sender));
        let running = run_with(client, builder, finalized);
        assert_eq!(reports.recv().await.expect("a run"), "created secrets.v1 default/child");
        tokio::time::sleep(Duration::from_secs(1)).await;
        while reports.try_recv().is_ok() {}
        let policy = if is_orphaned {
            kube::api::PropagationPolicy::Orphan
        } else {
            kube::api::PropagationPolicy::Foreground
        };
        let policy = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        maps.delete("owner", &policy).await.expect("deleted");
        let report = reports.recv().await.expect("a run");
        let deleted = "deleted secrets.v1 default/child";
        assert_eq!(report, if is_orphaned { "nothing changed" } else { deleted });
        tokio::time::sleep(Duration::from_secs(1)).await;
        while server.collect_step() {}
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(maps.get_opt("owner").await.expect("an answer").is_none());
        let child = secrets.get_opt("child").await.expect("an answer");
        assert_eq!(child.is_some(), is_orphaned);
        assert!(child.is_none_or(|child| child.owner_references().is_empty()));
        running.end().await.expect("it stops");
    }
}

/// The collector has not come to the child of the owner before when its namesake is made.
#[tokio::test(start_paused = true)]
async fn owner_that_is_made_again_gets_its_child_when_the_old_one_is_gone() {
    let cluster = by_step();
    assert_eq!(steps_until_settled(&cluster, DeleteParams::background()).await, Some(1));
    let server = cluster.server().expect("it is embedded").clone();
    let client = cluster.client().expect("a client");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let (sender, _runs) = mpsc::channel(64);
    let builder = |builder: ControllerBuilder<ConfigMap>| {
        builder.owns(Watch::<Secret>::new().options(|o| o.namespace("default")))
    };
    let running = run_with(client, builder, does(maker(sender)));
    maps.create(&PostParams::default(), &config_map("owner")).await.expect("created");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    secrets.patch("child", &PatchParams::default(), &hold).await.expect("held");
    let first = secrets.get("child").await.expect("it was made");
    maps.delete("owner", &DeleteParams::background()).await.expect("deleted");
    let owner = maps.create(&PostParams::default(), &config_map("owner")).await.expect("again");
    tokio::time::sleep(Duration::from_secs(1)).await;
    while server.collect_step() {}
    tokio::time::sleep(Duration::from_secs(1)).await;
    // It is terminating, and still that of the owner before.
    let terminating = secrets.get("child").await.expect("it is held");
    assert!(terminating.metadata.deletion_timestamp.is_some());
    assert_eq!(terminating.uid(), first.uid());
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    secrets.patch("child", &PatchParams::default(), &release).await.expect("released");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = secrets.get("child").await.expect("it was made again");
    assert_eq!(Some(&*second.owner_references()[0].uid), owner.uid().as_deref());
    running.end().await.expect("it stops");
}

/// Somebody deletes a child that a finalizer keeps: it is applied as it is, and made again when it
/// is gone.
#[tokio::test(start_paused = true)]
async fn child_that_is_being_deleted_is_made_again_when_it_is_gone() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    maps.create(&PostParams::default(), &config_map("owner")).await.expect("created");
    let (sender, _runs) = mpsc::channel(64);
    let builder = |builder: ControllerBuilder<ConfigMap>| {
        builder.owns(Watch::<Secret>::new().options(|o| o.namespace("default")))
    };
    let running = run_with(client, builder, does(maker(sender)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    let first = secrets.patch("child", &PatchParams::default(), &hold).await.expect("held");
    secrets.delete("child", &DeleteParams::background()).await.expect("deleted");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    secrets.patch("child", &PatchParams::default(), &release).await.expect("released");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = secrets.get("child").await.expect("it was made again");
    assert_ne!(second.uid(), first.uid());
    assert!(running.controller.status().counts.failed.is_empty());
    running.end().await.expect("it stops");
}
