//! Finalizers: there before the first side effect, gone only after the clean-up.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use http::Request;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::service_fn;
use windlass_indexer::ObjectKey;
use windlass_informer::{Resource, SharedInformerFactory};
use windlass_reconciler::{
    Action, Cleanup, Controller, Error, Finalize, Finalized, RunContext, Watch,
};
use windlass_testserver::{TestServer, on_each_server};

const FINALIZER: &str = "example.com/bucket";

/// Says what it does; its first clean-up fails.
struct Buckets {
    said: mpsc::Sender<String>,
    cleanups: Mutex<u32>,
}

impl Finalize<ConfigMap> for Buckets {
    async fn reconcile(&self, object: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        let has_finalizer = object.finalizers().iter().any(|name| name == FINALIZER);
        self.said.send(format!("reconcile {has_finalizer}")).await?;
        Ok(Action::done())
    }

    async fn cleanup(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        let is_first = {
            let mut cleanups = self.cleanups.lock().expect("not poisoned");
            *cleanups += 1;
            *cleanups == 1
        };
        self.said.send("cleanup".to_owned()).await?;
        if is_first { Err(Error::msg("the cloud is down")) } else { Ok(Action::done()) }
    }
}

on_each_server!(object_goes_only_after_its_cleanup_succeeded);
async fn object_goes_only_after_its_cleanup_succeeded(cluster: TestServer) {
    let namespace = cluster.namespace("finalizer").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let (said, mut heard) = mpsc::channel(100);
    let reconciler = Finalized::new(FINALIZER, Buckets { said, cleanups: Mutex::new(0) });
    let factory = SharedInformerFactory::new(client);
    let scope = namespace.clone();
    let watch = Watch::<ConfigMap>::new()
        .options(move |informer| informer.namespace(scope).field_selector("metadata.name=one"));
    let controller =
        Controller::named("configmap", watch).build(&factory, reconciler).expect("a controller");
    let stop = CancellationToken::new();
    let story = async {
        let object = json!({"metadata": {"name": "one"}});
        let object = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object).await.expect("created");
        assert_eq!(heard.recv().await.as_deref(), Some("reconcile true"));
        api.delete("one", &DeleteParams::default()).await.expect("deleted");
        // The finalizer itself was a change, which may have led to one more run.
        let mut next = heard.recv().await;
        while next.as_deref() == Some("reconcile true") {
            next = heard.recv().await;
        }
        assert_eq!(next.as_deref(), Some("cleanup"));
        assert_eq!(heard.recv().await.as_deref(), Some("cleanup"));
        while api.get_opt("one").await.expect("an answer").is_some() {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(controller.run(stop.clone()), story);
    ran.expect("it ran");
}

/// Has a Secret for each object, and counts how often an object is cleaned up.
struct Children {
    cleanups: Arc<AtomicU32>,
    /// Somebody else's.
    client: Client,
}

impl Finalize<ConfigMap> for Children {
    async fn reconcile(&self, object: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        let mut child = Secret::default();
        child.metadata.name = Some("child".to_owned());
        child.metadata.namespace = object.namespace();
        cx.live().apply_owned(child, &*object).await?;
        Ok(Action::done())
    }

    async fn cleanup(&self, object: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        self.cleanups.fetch_add(1, Ordering::Relaxed);
        // Somebody touches the child, whose event runs the object again.
        let namespace = object.namespace().unwrap_or_default();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
        let touch = Patch::Merge(json!({"metadata": {"labels": {"touched": "yes"}}}));
        secrets.patch("child", &PatchParams::default(), &touch).await?;
        Ok(Action::done())
    }
}

/// A client whose watches of a resource show everything late.
fn late(inner: Client, plural: &'static str, by: Duration) -> Client {
    let service = service_fn(move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            let uri = request.uri();
            let is_watch = uri.query().is_some_and(|query| query.contains("watch="));
            let by = if is_watch && uri.path().ends_with(plural) { by } else { Duration::ZERO };
            let answer = inner.send(request).await?;
            Ok::<_, kube::Error>(answer.map(|body| {
                let chunks = body.into_data_stream().then(move |chunk| async move {
                    tokio::time::sleep(by).await;
                    chunk.map(Frame::data)
                });
                StreamBody::new(chunks)
            }))
        }
    });
    Client::new(service, "default")
}

on_each_server!(object_is_not_cleaned_up_again_after_its_cleanup_succeeded);
/// The patch that removes the last finalizer is answered with the version that the cache holds
/// already. The deletion that follows on it is what the next run has to wait for.
async fn object_is_not_cleaned_up_again_after_its_cleanup_succeeded(cluster: TestServer) {
    let namespace = cluster.namespace("finalizer").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let cleanups = Arc::new(AtomicU32::new(0));
    let children = Children { cleanups: Arc::clone(&cleanups), client: client.clone() };
    let reconciler = Finalized::new(FINALIZER, children);
    let client = late(client, "configmaps", Duration::from_millis(500));
    let factory = SharedInformerFactory::new(client);
    let scope = namespace.clone();
    let objects = Watch::<ConfigMap>::new()
        .options(move |informer| informer.namespace(scope).field_selector("metadata.name=one"));
    let scope = namespace.clone();
    let owned = Watch::<Secret>::new().options(move |informer| informer.namespace(scope));
    let controller =
        Controller::named("configmap", objects).owns(owned).build(&factory, reconciler);
    let controller = controller.expect("a controller");
    let stop = CancellationToken::new();
    let story = async {
        let object = json!({"metadata": {"name": "one"}});
        let object = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object).await.expect("created");
        while secrets.get_opt("child").await.expect("an answer").is_none() {
            tokio::task::yield_now().await;
        }
        api.delete("one", &DeleteParams::default()).await.expect("deleted");
        while cleanups.load(Ordering::Relaxed) == 0
            || controller.lister().list().heads().next().is_some()
        {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(controller.run(stop.clone()), story);
    ran.expect("it ran");
    assert_eq!(cleanups.load(Ordering::Relaxed), 1);
}

const DNS: &str = "example.com/dns";

/// The second thing to clean up. It says which finalizers the server still has.
struct Dns(mpsc::Sender<String>);

impl<K: kube::Resource + Send + Sync + 'static> Cleanup<K> for Dns {
    async fn cleanup(&self, object: Arc<K>, cx: &RunContext) -> Result<Action, Error> {
        let present = cx.live::<ConfigMap>().get(cx.key()).await?.expect("it is held");
        assert_eq!(present.uid(), object.meta().uid);
        self.0.send(format!("dns, held by {}", present.finalizers().join(", "))).await?;
        Ok(Action::done())
    }
}

/// A reconciler of objects whose kind is known at run time.
struct Anything(mpsc::Sender<String>);

impl Finalize<DynamicObject> for Anything {
    async fn reconcile(&self, object: Arc<DynamicObject>, _: &RunContext) -> Result<Action, Error> {
        self.0.send(format!("held by {}", object.finalizers().join(", "))).await?;
        Ok(Action::done())
    }

    async fn cleanup(&self, _: Arc<DynamicObject>, _: &RunContext) -> Result<Action, Error> {
        self.0.send("bucket".to_owned()).await?;
        Ok(Action::done())
    }
}

on_each_server!(each_finalizer_goes_after_its_own_cleanup);
async fn each_finalizer_goes_after_its_own_cleanup(cluster: TestServer) {
    let namespace = cluster.namespace("finalizer").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let (said, mut heard) = mpsc::channel(100);
    let reconciler = Finalized::new(FINALIZER, Anything(said.clone())).also(DNS, Dns(said));
    let factory = SharedInformerFactory::new(client);
    let watch = Watch::<DynamicObject>::of(Resource::of::<ConfigMap>())
        .options(move |informer| informer.namespace(namespace).field_selector("metadata.name=one"));
    let controller =
        Controller::named("configmap", watch).build(&factory, reconciler).expect("a controller");
    let stop = CancellationToken::new();
    let story = async {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("one".to_owned());
        api.create(&PostParams::default(), &object).await.expect("created");
        let held = format!("held by {FINALIZER}, {DNS}");
        assert_eq!(heard.recv().await.as_ref(), Some(&held), "both are added at once");
        api.delete("one", &DeleteParams::default()).await.expect("deleted");
        let mut last = heard.recv().await.expect("something");
        while last == held {
            last = heard.recv().await.expect("something");
        }
        assert_eq!(last, "bucket");
        assert_eq!(heard.recv().await, Some(format!("dns, held by {DNS}")));
        while api.get_opt("one").await.expect("an answer").is_some() {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(controller.run(stop.clone()), story);
    ended.expect("it stops");
    factory.shut_down().await;
}

/// Says when it is told of an object that is gone, or paused.
struct Told(mpsc::Sender<String>);

impl Finalize<ConfigMap> for Told {
    async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        Ok(Action::done())
    }

    async fn cleanup(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        Ok(Action::done())
    }

    async fn absent(&self, key: &ObjectKey, _: &RunContext) -> Result<Action, Error> {
        self.0.send(format!("{key} is absent")).await?;
        Ok(Action::done())
    }

    async fn paused(&self, object: Arc<ConfigMap>, _: &RunContext) -> Result<(), Error> {
        self.0.send(format!("{} is paused", object.name_any())).await?;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn reconciler_with_a_finalizer_is_told_of_objects_that_are_gone_or_paused() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let (said, mut heard) = mpsc::channel(100);
    let factory = SharedInformerFactory::new(client);
    let reconciler = Finalized::new(FINALIZER, Told(said));
    let watch = Watch::<ConfigMap>::new().options(|o| o.field_selector("metadata.name=one"));
    let controller = Controller::named("configmap", watch)
        .pausable()
        .build(&factory, reconciler)
        .expect("a controller");
    let stop = CancellationToken::new();
    let story = async {
        let object =
            json!({"metadata": {"name": "one", "annotations": {"windlass.dev/paused": "true"}}});
        let object = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object).await.expect("created");
        assert_eq!(heard.recv().await.as_deref(), Some("one is paused"));
        api.delete("one", &DeleteParams::default()).await.expect("deleted");
        assert_eq!(heard.recv().await.as_deref(), Some("default/one is absent"));
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(controller.run(stop.clone()), story);
    ran.expect("it stops");
    factory.shut_down().await;
}
