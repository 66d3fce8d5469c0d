//! Runs that read caches: the body of a run is the body of the test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use windlass_indexer::{Head, Index, List, ObjectKey};
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{
    Action, CacheView, Controller, ControllerBuilder, Error, ObjectType, RunContext, Watch,
};

use super::{Called, does, run_on};

/// Objects by an annotation.
#[derive(Clone, PartialEq)]
pub(crate) struct BySize;

#[derive(Deserialize)]
pub(crate) struct Annotated {
    metadata: Annotations,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Annotations {
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Index for BySize {
    type View = Annotated;
    type Value = String;

    fn values(&self, _: &Head, mut view: Annotated) -> impl IntoIterator<Item = String> {
        view.metadata.annotations.remove("size")
    }
}

pub(crate) fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}}))
        .expect("an object")
}

pub(crate) fn sized(name: &str, size: &str) -> Secret {
    let mut secret = secret(name);
    secret.annotations_mut().insert("size".to_owned(), size.to_owned());
    secret
}

pub(crate) fn secrets(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), "default")
}

pub(crate) async fn create_secret(client: &Client, name: &str) -> Secret {
    secrets(client).create(&PostParams::default(), &secret(name)).await.expect("created")
}

pub(crate) fn names<T>(list: &List<T>) -> Vec<String> {
    list.heads().map(|head| head.name().to_owned()).collect()
}

/// What the reads of a cache say of an object. All of them must agree; returns whether it is there.
pub(crate) fn is_there<T: ObjectType>(cache: &CacheView<'_, T>, key: &str) -> Result<bool, Error> {
    let is_there = cache.get(key)?.is_some();
    assert_eq!(cache.cached(key).is_some(), is_there, "cached {key}");
    let list = cache.list();
    let is_listed = list.heads().any(|head| head.key().to_string() == key);
    assert_eq!(is_listed, is_there, "listed {key}");
    assert_eq!(cache.len(), list.heads().count());
    Ok(is_there)
}

/// Runs `body` as the run of the `ConfigMap` `one`, again as long as it asks for it. A run that
/// fails or panics is a failure of the test.
pub(crate) async fn in_runs<F>(
    client: &Client,
    change: impl FnOnce(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap>,
    body: F,
) where
    F: for<'a> Fn(Arc<ConfigMap>, &'a RunContext) -> Called<'a> + Send + Sync + 'static,
{
    on_factory(SharedInformerFactory::new(client.clone()), change, body).await;
}

pub(crate) async fn on_factory<F>(
    factory: SharedInformerFactory,
    change: impl FnOnce(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap>,
    body: F,
) where
    F: for<'a> Fn(Arc<ConfigMap>, &'a RunContext) -> Called<'a> + Send + Sync + 'static,
{
    let (said, mut ran) = mpsc::channel(10);
    let body = Arc::new(body);
    let reconciler = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let (said, body) = (said.clone(), Arc::clone(&body));
        Box::pin(async move {
            if cx.key().name() != "one" {
                return Ok(Action::done());
            }
            assert_eq!(cx.attempt(), 1, "the last attempt panicked");
            let ended = body(object, cx).await.map_err(Error::terminal);
            said.send(ended.as_ref().copied().map_err(ToString::to_string)).await?;
            ended
        })
    });
    let watch = Watch::<ConfigMap>::new().options(|o| o.namespace("default"));
    let running = run_on(factory, change(Controller::named("configmap", watch)), reconciler);
    loop {
        let ended = tokio::time::timeout(Duration::from_mins(5), ran.recv()).await;
        match ended.expect("a run ends").expect("a run ends") {
            Ok(action) if action.is_done() => break,
            Ok(_) => {}
            Err(error) => panic!("the run failed: {error}"),
        }
    }
    running.end().await.expect("it stops");
}

pub(crate) const AGAIN: Result<Action, Error> = Ok(Action::requeue_after(Duration::ZERO));

/// The cache of Secrets, only to be read.
pub(crate) fn reads_secrets(builder: ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap> {
    builder.reads(Watch::<Secret>::new())
}

/// `ConfigMaps` by the Secret that they refer to.
#[derive(PartialEq)]
pub(crate) struct BySecret;

#[derive(Deserialize)]
pub(crate) struct Referring {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl Index for BySecret {
    type View = Referring;
    type Value = ObjectKey;

    fn values(&self, head: &Head, view: Referring) -> impl IntoIterator<Item = ObjectKey> {
        let secret = view.data.get("secret").cloned();
        secret.map(|name| ObjectKey::namespaced(head.namespace().unwrap_or_default(), &name))
    }
}
