//! kube-runtime's Controller at its leanest with typed objects: the list is streamed, and managed
//! fields are cleared before the store sees them.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use anyhow::{Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt};
use kube_runtime::controller::{Action, Config, Controller};
use kube_runtime::watcher::{self, watcher};
use kube_runtime::{WatchStreamExt, reflector};
use windlass_bench_stage::STAMP;

use super::WORKERS;
use super::runs::Runs;

/// Reconciles all objects, for ever.
pub(crate) async fn run(config: kube::Config, runs: Arc<Runs>) -> Result<()> {
    let api = Api::<ConfigMap>::all(Client::try_from(config)?);
    let (store, writer) = reflector::store();
    let objects = watcher(api, watcher::Config::default().streaming_lists())
        .default_backoff()
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer)
        .applied_objects();
    let reconcile = |object: Arc<ConfigMap>, runs: Arc<Runs>| {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        runs.ran(name, object.labels().get(STAMP).map(String::as_str));
        ready(Ok::<_, Infallible>(Action::await_change()))
    };
    Controller::for_stream(objects, store)
        .with_config(Config::default().concurrency(WORKERS))
        .run(reconcile, |_, error, _| match *error {}, runs)
        .for_each(|ended| {
            if let Err(error) = ended {
                eprintln!("kube-runtime: {error}");
            }
            ready(())
        })
        .await;
    bail!("the controller has ended")
}
