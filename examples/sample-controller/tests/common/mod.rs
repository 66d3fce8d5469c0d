//! What the tests share: a cluster with the definition of Foo, the controller at work on it, and a
//! look at what it writes.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, PostParams};
use kube::client::Body;
use kube::{Client, Resource, ResourceExt as _};
use sample_controller::{Foo, FooSpec, controller, definition};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::util::MapRequestLayer;
use windlass::indexer::ObjectKey;
use windlass::informer::{ClientStack, SharedInformerFactory};
use windlass::reconciler::{Controller, Run, RunError, install_crd};
use windlass_apiserver::ApiServer;

pub(crate) const NAMESPACE: &str = "default";

/// What the controller wrote: method and path, in order. Events come in the background, and are not
/// among them.
#[derive(Clone, Default)]
pub(crate) struct Writes(Arc<Mutex<Vec<String>>>);

impl Writes {
    /// A client of `server` whose writes are remembered.
    pub(crate) fn client(&self, server: &ApiServer) -> Client {
        let writes = self.clone();
        let layer = MapRequestLayer::new(move |request: Request<Body>| {
            writes.remember(&request);
            request
        });
        ClientStack::new().layer(layer).around(server.service(), NAMESPACE)
    }

    fn remember(&self, request: &Request<Body>) {
        let path = request.uri().path();
        if request.method() != Method::GET && !path.contains("/events") {
            let short = path.rsplit_once("/namespaces/").map_or(path, |(_, rest)| rest);
            let line = format!("{} {short}", request.method());
            self.0.lock().expect("no panic").push(line);
        }
    }

    /// Those since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

/// The controller, at work on an embedded server.
pub(crate) struct Stage {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) factory: SharedInformerFactory,
    pub(crate) controller: Arc<Controller<Foo>>,
    pub(crate) writes: Writes,
    stop: CancellationToken,
    running: JoinSet<Result<(), RunError>>,
}

impl Stage {
    /// A server with the definition of Foo, and a client of it that is not the controller's.
    pub(crate) async fn server() -> (ApiServer, Client) {
        Self::on(ApiServer::new()).await
    }

    /// One that leaves objects where they are whose owners are gone, or never were.
    pub(crate) async fn server_without_garbage_collection() -> (ApiServer, Client) {
        Self::on(ApiServer::builder().garbage_collection(false).build()).await
    }

    async fn on(server: ApiServer) -> (ApiServer, Client) {
        let client = ClientStack::new().around(server.service(), NAMESPACE);
        install_crd(&client, &definition()).await.expect("the definition is taken");
        (server, client)
    }

    /// The controller begins.
    pub(crate) fn start(server: ApiServer, client: Client) -> Self {
        let writes = Writes::default();
        let factory = SharedInformerFactory::new(writes.client(&server));
        let controller = Arc::new(controller(&factory).expect("a controller"));
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        let (runs, token) = (Arc::clone(&controller), stop.clone());
        running.spawn(async move { runs.run(token).await });
        Self { server, client, factory, controller, writes, stop, running }
    }

    /// On an empty server.
    pub(crate) async fn empty() -> Self {
        let (server, client) = Self::server().await;
        Self::start(server, client)
    }

    /// Waits until the controller has nothing more to do. On the paused clock a second passes when
    /// that is so.
    pub(crate) async fn rest(&self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    pub(crate) fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
        &self,
    ) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn runs(&self, foo: &str) -> Vec<Run> {
        self.controller.runs(&ObjectKey::namespaced(NAMESPACE, foo))
    }

    pub(crate) async fn deployment(&self, name: &str) -> Deployment {
        self.api().get(name).await.expect("the Deployment is there")
    }

    /// Events of a Foo: type, reason and message, each once.
    pub(crate) async fn events(&self, foo: &str) -> Vec<(String, String, String)> {
        events(&self.client, NAMESPACE, foo).await
    }

    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended.expect("no panic").expect("it ends well");
        }
        self.factory.shut_down().await;
    }
}

/// Events of a Foo: type, reason and message, each once.
pub(crate) async fn events(
    client: &Client,
    namespace: &str,
    foo: &str,
) -> Vec<(String, String, String)> {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let events = events.list(&ListParams::default()).await.expect("a list");
    let of_foo = |event: &Event| {
        let about = &event.involved_object;
        about.kind.as_deref() == Some("Foo") && about.name.as_deref() == Some(foo)
    };
    let shown = |event: Event| {
        let text = Option::unwrap_or_default;
        (text(event.type_), text(event.reason), text(event.message))
    };
    let mut shown: Vec<_> = events.items.into_iter().filter(of_foo).map(shown).collect();
    shown.sort();
    shown.dedup();
    shown
}

pub(crate) async fn create<K>(api: &Api<K>, object: &K) -> K
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    api.create(&PostParams::default(), object).await.expect("created")
}

pub(crate) fn foo(name: &str, deployment: &str, replicas: Option<i32>) -> Foo {
    let mut foo = Foo::new(name, FooSpec { deployment_name: deployment.to_owned(), replicas });
    foo.metadata.namespace = Some(NAMESPACE.to_owned());
    foo
}

pub(crate) fn available(foo: &Foo) -> Option<i32> {
    foo.status.as_ref().map(|status| status.available_replicas)
}

pub(crate) fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.replicas
}

/// Whether a Deployment's only owner is this very Foo.
pub(crate) fn is_owned_by(deployment: &Deployment, foo: &Foo) -> bool {
    let [owner] = deployment.owner_references() else { return false };
    owner.api_version == "samplecontroller.k8s.io/v1alpha1"
        && owner.kind == "Foo"
        && owner.name == foo.name_any()
        && Some(&owner.uid) == foo.metadata.uid.as_ref()
        && owner.controller == Some(true)
        && owner.block_owner_deletion == Some(true)
}
