//! Nothing is deleted because of what an old version of the owner says. On both servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt as _, TryStreamExt as _};
use http::Request;
use http_body_util::{BodyExt as _, StreamBody};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_informer::{Resource, SharedInformerFactory};
use windlass_reconciler::{
    Action, ChildrenReport, Class, Controller, ControllerBuilder, Error, FinishedRuns, Outcome,
    OwnerDeleted, OwnershipError, RunContext, RunError, StaleRead, Watch, reconcile_fn,
};
use windlass_testserver::{TestServer, on_each_server};

use crate::stage::{Running, Shown, in_a_run, run_built};

/// A client whose watches of a resource are held up while the gate is closed.
fn gated(client: &Client, plural: &'static str, gate: &watch::Receiver<bool>) -> Client {
    let (inner, gate) = (client.clone(), gate.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, gate) = (inner.clone(), gate.clone());
        async move {
            let uri = request.uri();
            let is_watch = uri.query().is_some_and(|query| query.contains("watch="));
            let is_held_up = is_watch && uri.path().ends_with(plural);
            let (head, body) = inner.send(request).await?.into_parts();
            let chunks = body.into_data_stream().then(move |chunk| {
                let mut gate = gate.clone();
                async move {
                    if is_held_up {
                        gate.wait_for(|is_open| *is_open).await.expect("a gate");
                    }
                    chunk
                }
            });
            let frames = StreamBody::new(chunks.map_ok(http_body::Frame::data));
            Ok::<_, kube::Error>(http::Response::from_parts(head, frames.boxed_unsync()))
        }
    });
    Client::new(service, client.default_namespace())
}

/// A kind of owners: how many children one has is in a field.
#[derive(Clone, Copy)]
struct Owners {
    resource: fn() -> Resource,
    plural: &'static str,
    /// With this number of children.
    body: fn(u64) -> Value,
    field: &'static str,
}

const OWNERS: [Owners; 2] = [
    Owners {
        resource: Resource::of::<ConfigMap>,
        plural: "configmaps",
        body: |number| json!({"data": {"children": number.to_string()}}),
        field: "/data/children",
    },
    // A kind with generations.
    Owners {
        resource: Resource::of::<Deployment>,
        plural: "deployments",
        body: |number| {
            json!({"spec": {
                "replicas": number,
                "selector": {"matchLabels": {"app": "a"}},
                "template": {
                    "metadata": {"labels": {"app": "a"}},
                    "spec": {"containers": [{"name": "a", "image": "a"}]},
                },
            }})
        },
        field: "/spec/replicas",
    },
];

impl Owners {
    fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        let resource = (self.resource)();
        let kind = GroupVersionKind::gvk(resource.group(), resource.version(), resource.kind());
        let resource = ApiResource::from_gvk_with_plural(&kind, self.plural);
        Api::namespaced_with(client.clone(), namespace, &resource)
    }

    fn object(&self, number: u64) -> DynamicObject {
        let mut object = (self.body)(number);
        object["metadata"] = json!({"name": "owner"});
        object["apiVersion"] = (self.resource)().api_version().into();
        object["kind"] = (self.resource)().kind().into();
        serde_json::from_value(object).expect("an object")
    }

    async fn set(&self, api: &Api<DynamicObject>, number: u64) {
        let patch = Patch::Merge((self.body)(number));
        api.patch("owner", &PatchParams::default(), &patch).await.expect("patched");
    }
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("an object")
}

/// A replica that leads: it makes as many Secrets as the owner says.
struct Leader {
    finished: FinishedRuns,
    stop: CancellationToken,
    task: JoinSet<Result<(), RunError>>,
    factory: SharedInformerFactory,
}

impl Leader {
    fn start(client: Client, namespace: &str, owners: Owners) -> Self {
        let factory = SharedInformerFactory::new(client);
        let (scope, its_scope) = (namespace.to_owned(), namespace.to_owned());
        let watch = Watch::<DynamicObject>::of((owners.resource)())
            .options(|options| options.namespace(scope).field_selector("metadata.name=owner"));
        let secrets = Watch::<Secret>::new().options(|options| options.namespace(its_scope));
        let reconciler = reconcile_fn(async move |owner: Arc<DynamicObject>, cx| {
            let number = match owner.data.pointer(owners.field) {
                Some(Value::String(text)) => text.parse()?,
                number => number.and_then(Value::as_u64).unwrap_or_default(),
            };
            let wanted = (0..number).map(|number| secret(&format!("child-{number}")));
            cx.children(&owner).apply_all(wanted).prune().await?;
            Ok(Action::done())
        });
        let builder = Controller::named("shops", watch).owns(secrets).max_attempts(1);
        let controller = builder.build(&factory, reconciler).expect("a controller");
        let finished = controller.handle().finished();
        let (stop, mut task) = (CancellationToken::new(), JoinSet::new());
        let token = stop.clone();
        task.spawn(async move { controller.run(token).await });
        Self { finished, stop, task, factory }
    }

    /// How the next run ends.
    async fn next(&mut self) -> Outcome {
        let (_, run) = self.finished.next().await.expect("a run");
        assert!(run.attempt == 1 && !run.gave_up, "{run:?}");
        run.outcome.clone()
    }

    /// Waits for a run that succeeds.
    async fn wait_until_done(&mut self) {
        while self.next().await != Outcome::Done {}
    }

    async fn end(mut self) {
        self.stop.cancel();
        self.task.join_next().await.expect("it ran").expect("no panic").expect("it stops");
        self.factory.shut_down().await;
    }
}

fn is_stale(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { class: Class::StaleRead, .. })
}

/// Waits until there is a Secret, or none.
async fn wait_until(secrets: &Api<Secret>, name: &str, is_there: bool) -> Option<Secret> {
    loop {
        let secret = secrets.get_opt(name).await.expect("an answer");
        if secret.is_some() == is_there {
            return secret;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

on_each_server!(leader_with_an_old_owner_deletes_nothing_that_the_newer_one_asks_for);
/// The new leader's watch of owners lags, and that of their children does not.
async fn leader_with_an_old_owner_deletes_nothing_that_the_newer_one_asks_for(cluster: TestServer) {
    for owners in OWNERS {
        let namespace = cluster.namespace("stale").await.expect("a namespace");
        let client = cluster.client().expect("a client");
        let api = owners.api(&client, &namespace);
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        api.create(&PostParams::default(), &owners.object(1)).await.expect("created");
        let mut old = Leader::start(client.clone(), &namespace, owners);
        old.wait_until_done().await;
        let (gate, is_open) = watch::channel(true);
        let held_up = gated(&client, owners.plural, &is_open);
        let mut new = Leader::start(held_up, &namespace, owners);
        new.wait_until_done().await;

        gate.send(false).expect("a watch");
        owners.set(&api, 2).await;
        let made = wait_until(&secrets, "child-1", true).await.expect("it is made");
        old.end().await;
        loop {
            let outcome = new.next().await;
            let left = secrets.get("child-1").await.expect("it is not deleted");
            assert_eq!((left.uid(), left.metadata.deletion_timestamp), (made.uid(), None));
            if is_stale(&outcome) {
                break;
            }
        }

        gate.send(true).expect("a watch");
        new.wait_until_done().await;
        let left = secrets.get("child-1").await.expect("it is wanted");
        assert_eq!(left.uid(), made.uid());
        // What is really not wanted any more goes.
        owners.set(&api, 1).await;
        wait_until(&secrets, "child-1", false).await;
        new.end().await;
    }
}

fn makes_secrets(builder: ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap> {
    builder.makes::<Secret>()
}

/// What happens to the owner while the run holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Happens {
    Change,
    Deletion,
    Replacement,
    ItIsGone,
}

on_each_server!(owner_that_changes_during_the_run_keeps_its_children);
async fn owner_that_changes_during_the_run_keeps_its_children(cluster: TestServer) {
    use Happens::{Change, Deletion, ItIsGone, Replacement};
    for happens in [Change, Deletion, Replacement, ItIsGone] {
        let namespace = cluster.namespace("stale").await.expect("a namespace");
        let client = cluster.client().expect("a client");
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        let (pruned, is_left) = in_a_run(
            &cluster,
            &namespace,
            makes_secrets,
            move |owner: Arc<ConfigMap>, cx: &RunContext| {
                Box::pin(async move {
                    let children = cx.children(&owner).apply(secret("a")).apply(secret("b"));
                    children.prune().await?;
                    happen(happens, &maps).await?;
                    let pruned = cx.children(&owner).apply(secret("c")).prune().await;
                    Ok::<_, Error>((pruned, secrets.get_opt("a").await?.is_some()))
                })
            },
        )
        .await
        .expect("everything else goes");
        match pruned {
            // The cache may have seen the deletion before the child was made.
            Err(error) if happens == Deletion && OwnerDeleted::of(&error).is_some() => {}
            Err(error) => {
                assert!(error.source().is::<StaleRead>(), "{happens:?}: {error:?}");
                assert_eq!(error.class(), Class::StaleRead);
            }
            // The embedded server has collected them already.
            Ok(report) => assert!(report.deleted().is_empty(), "{happens:?}: {report}"),
        }
        let is_kept = matches!(happens, Change | Deletion);
        assert!(is_left || !is_kept, "{happens:?}");
    }
}

async fn happen(happens: Happens, maps: &Api<ConfigMap>) -> Result<(), Error> {
    let patch = |patch: Value| {
        let maps = maps.clone();
        async move { maps.patch("owner", &PatchParams::default(), &Patch::Merge(patch)).await }
    };
    let delete = DeleteParams::default();
    match happens {
        Happens::Change => drop(patch(json!({"data": {"theirs": "1"}})).await?),
        Happens::Deletion => {
            // With a finalizer, its deletion only begins.
            let held = patch(json!({"metadata": {"finalizers": ["example.com/held"]}})).await?;
            drop(held);
            maps.delete("owner", &delete).await?;
        }
        Happens::ItIsGone => drop(maps.delete("owner", &delete).await?),
        Happens::Replacement => {
            maps.delete("owner", &delete).await?;
            let mut again = crate::stage::config_map("owner");
            again.metadata.namespace = None;
            maps.create(&PostParams::default(), &again).await?;
        }
    }
    Ok(())
}

on_each_server!(own_writes_to_the_owner_are_no_change);
/// The run has written the owner itself, and nobody else has.
async fn own_writes_to_the_owner_are_no_change(cluster: TestServer) {
    let namespace = cluster.namespace("stale").await.expect("a namespace");
    let deleted =
        in_a_run(&cluster, &namespace, makes_secrets, |owner: Arc<ConfigMap>, cx: &RunContext| {
            Box::pin(async move {
                let mut before = ConfigMap::clone(&owner);
                cx.children(&owner).apply(secret("a")).apply(secret("b")).prune().await?;
                for step in ["1", "2"] {
                    let mut new = before.clone();
                    new.annotations_mut().insert("step".to_owned(), step.to_owned());
                    before = cx.live().update(&before, &new).await?;
                }
                let first = cx.children(&owner).apply(secret("a")).prune().await?;
                let second = cx.children(&before).prune().await?;
                Ok::<_, Error>([first.deleted().len(), second.deleted().len()])
            })
        })
        .await
        .expect("everything goes");
    assert_eq!(deleted, [1, 1]);
}

on_each_server!(owner_that_the_run_saw_being_deleted_may_prune);
/// A clean-up in a finalizer deletes children although the owner is being deleted: it knows that.
async fn owner_that_the_run_saw_being_deleted_may_prune(cluster: TestServer) {
    let namespace = cluster.namespace("stale").await.expect("a namespace");
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().expect("a client"), &namespace);
    let deleted = in_a_run(
        &cluster,
        &namespace,
        makes_secrets,
        move |owner: Arc<ConfigMap>, cx: &RunContext| {
            Box::pin(async move {
                cx.children(&owner).apply(secret("a")).prune().await?;
                happen(Happens::Deletion, &maps).await?;
                let deleted = maps.get("owner").await?;
                let pruned = cx.children(&deleted).prune().await?;
                let freed = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                maps.patch("owner", &PatchParams::default(), &freed).await?;
                Ok::<_, Error>(pruned.deleted().len())
            })
        },
    )
    .await
    .expect("everything goes");
    assert_eq!(deleted, 1);
}

/// A controller that gives the Secret `child`, which it owns, the value of the owner.
struct Copier {
    maps: Api<ConfigMap>,
    secrets: Api<Secret>,
    shown: Shown,
    outcomes: mpsc::Receiver<(String, Result<ChildrenReport, Error>)>,
    running: Running,
}

impl Copier {
    /// With an owner whose value is `1`. `watching` is the client of the caches, `writing` that of
    /// the runs.
    async fn start(client: &Client, namespace: &str, watching: Client, writing: Client) -> Self {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let owner = json!({"metadata": {"name": "owner"}, "data": {"value": "1"}});
        let owner = serde_json::from_value(owner).expect("an object");
        maps.create(&PostParams::default(), &owner).await.expect("created");
        let (shown, (said, outcomes)) = (Shown::default(), mpsc::channel(100));
        let (scope, its_scope) = (namespace.to_owned(), namespace.to_owned());
        let owners = Watch::<ConfigMap>::new()
            .options(|options| options.namespace(scope).field_selector("metadata.name=owner"));
        let children = Watch::<Secret>::new()
            .options(|options| options.namespace(its_scope))
            .when(shown.predicate());
        let reconciler = reconcile_fn(async move |owner: Arc<ConfigMap>, cx| {
            let mut child = secret("child");
            child.string_data.clone_from(&owner.data);
            let outcome = cx.children(&owner).apply(child).prune().await;
            let value = owner.data.clone().unwrap_or_default()["value"].clone();
            let _ = said.send((value, outcome)).await;
            Ok(Action::done())
        });
        let builder = Controller::named("shops", owners).owns(children).client(writing);
        let running = run_built(watching, builder, reconciler);
        let secrets = Api::namespaced(client.clone(), namespace);
        Self { maps, secrets, shown, outcomes, running }
    }

    async fn set(&self, value: &str) {
        let patch = Patch::Merge(json!({"data": {"value": value}}));
        self.maps.patch("owner", &PatchParams::default(), &patch).await.expect("patched");
    }

    /// How a run with this value ends.
    async fn outcome(&mut self, wanted: &str) -> Result<ChildrenReport, Error> {
        loop {
            let (value, outcome) = self.outcomes.recv().await.expect("a run");
            if value == wanted {
                return outcome;
            }
        }
    }
}

on_each_server!(child_that_was_let_go_is_not_taken_back_by_a_cache_that_lags);
/// The watch of children lags, and that of their owners does not.
async fn child_that_was_let_go_is_not_taken_back_by_a_cache_that_lags(cluster: TestServer) {
    let namespace = cluster.namespace("stale").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let (gate, is_open) = watch::channel(true);
    let held_up = gated(&client, "secrets", &is_open);
    let mut copier = Copier::start(&client, &namespace, held_up, client.clone()).await;
    copier.outcome("1").await.expect("it is made");
    let child = copier.secrets.get("child").await.expect("it is there");
    copier.shown.wait_for(child.resource_version()).await;

    gate.send(false).expect("a watch");
    let let_go = json!({"metadata": {"ownerReferences": null, "labels": null}});
    let let_go = Patch::Merge(let_go);
    let theirs = copier.secrets.patch("child", &PatchParams::default(), &let_go).await;
    copier.set("2").await;
    let refused = copier.outcome("2").await.expect_err("it is somebody else's");
    let taken = refused.source().downcast_ref::<OwnershipError>();
    assert!(matches!(taken, Some(OwnershipError::Taken { .. })), "{refused}");
    let left = copier.secrets.get("child").await.expect("it is there");
    assert_eq!(left.resource_version(), theirs.expect("patched").resource_version());
    gate.send(true).expect("a watch");
    copier.running.end().await.expect("it stops");
}

on_each_server!(child_that_others_write_all_the_time_is_applied);
/// Its version is never the one that the cache shows.
async fn child_that_others_write_all_the_time_is_applied(cluster: TestServer) {
    let namespace = cluster.namespace("stale").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let (inner, others) = (client.clone(), Api::<Secret>::namespaced(client.clone(), &namespace));
    let writes = Arc::<AtomicUsize>::default();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, others) = (inner.clone(), others.clone());
        let number = writes.fetch_add(1, Ordering::Relaxed);
        async move {
            if request.method() == "PATCH" && request.uri().path().ends_with("/child") {
                let note = json!({"metadata": {"annotations": {"number": number.to_string()}}});
                let note = Patch::Merge(note);
                // At first there is none.
                let _ = others.patch("child", &PatchParams::default(), &note).await;
            }
            inner.send(request).await
        }
    });
    let writing = Client::new(service, client.default_namespace());
    let mut copier = Copier::start(&client, &namespace, client.clone(), writing).await;
    for value in ["1", "2", "3"] {
        copier.set(value).await;
        copier.outcome(value).await.expect("it is ours");
        let child = copier.secrets.get("child").await.expect("it is there");
        assert_eq!(child.data.clone().unwrap_or_default()["value"].0, value.as_bytes());
        copier.shown.wait_for(child.resource_version()).await;
    }
    copier.running.end().await.expect("it stops");
}
