//! The kind that all of them work for, and what they share.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{CustomResource, Resource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::manager::{Manager, Options};
use windlass::prelude::*;

/// A store of data, with replicas. Its volumes and sets are `ConfigMap`s here.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "zoo.example.com",
    version = "v1",
    kind = "Store",
    namespaced,
    status = "StoreStatus"
)]
pub struct StoreSpec {
    /// How many replicas it has.
    #[serde(default)]
    pub replicas: u32,
    /// How big its volumes are.
    #[serde(default)]
    pub size: String,
    /// What it consists of.
    #[serde(default)]
    pub parts: Vec<String>,
}

/// What is known of a store.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct StoreStatus {
    /// What was seen last.
    pub seen: Option<String>,
}

/// A store with this specification.
pub fn store(spec: StoreSpec) -> Store {
    Store::new("main", spec)
}

/// The manager of a reconciler of stores that own `ConfigMap`s.
pub fn manager(options: Options, reconciler: impl Reconcile<Store>) -> Manager {
    let controller =
        Controller::named("store", Watch::<Store>::new()).owns(Watch::<ConfigMap>::new());
    Manager::new(options).controller(controller, reconciler)
}

pub(crate) fn stores(cx: &RunContext) -> Api<Store> {
    Api::default_namespaced(cx.client().clone())
}

pub(crate) fn maps(cx: &RunContext) -> Api<ConfigMap> {
    Api::default_namespaced(cx.client().clone())
}

/// A `ConfigMap` with one value, which the store owns.
pub(crate) fn map(store: &Store, name: &str, value: &str) -> ConfigMap {
    let data = [("value".to_owned(), value.to_owned())].into();
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some(name.to_owned());
    map.metadata.namespace = store.namespace();
    map.metadata.owner_references = store.controller_owner_ref(&()).map(|owner| vec![owner]);
    map
}

pub(crate) fn value(map: &ConfigMap) -> Option<&str> {
    map.data.as_ref()?.get("value").map(String::as_str)
}

/// Creates it, unless it is there.
pub(crate) async fn ensure(cx: &RunContext, map: &ConfigMap) -> Result<(), Error> {
    match maps(cx).create(&PostParams::default(), map).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => Ok(made.map(drop)?),
    }
}

/// Deletes it, unless it is gone.
pub(crate) async fn remove(cx: &RunContext, name: &str) -> Result<(), Error> {
    match maps(cx).delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => Ok(deleted.map(drop)?),
    }
}
