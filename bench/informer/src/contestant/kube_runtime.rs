//! kube-runtime at its leanest with typed pods: the list is streamed, and managed fields are
//! cleared before the store sees them.

use std::sync::Arc;

use anyhow::{Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt};
use kube_runtime::watcher::{self, Event, watcher};
use kube_runtime::{WatchStreamExt, reflector};
use windlass_bench_stage::STAMP;

use super::handler::Handler;
use super::pod::Look as _;

/// Reflects all pods, for ever.
pub(crate) async fn run(config: kube::Config, handler: Arc<Handler>) -> Result<()> {
    let api = Api::<Pod>::all(Client::try_from(config)?);
    let (store, writer) = reflector::store();
    let events = watcher(api, watcher::Config::default().streaming_lists())
        .default_backoff()
        .modify(|pod| pod.managed_fields_mut().clear())
        .reflect(writer);
    let mut events = std::pin::pin!(events);
    let mut is_synced = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::InitApply(pod)) if !is_synced => {
                handler.read(|| pod.look());
                handler.added();
            }
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                handler.read(|| pod.look());
                handler.changed(pod.labels().get(STAMP).map(String::as_str));
            }
            // Only now the store has what was listed.
            Ok(Event::InitDone) if !is_synced => {
                is_synced = true;
                println!("synced {}", store.len());
            }
            Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {}
            Err(error) => eprintln!("kube-runtime: {error}"),
        }
    }
    bail!("the stream of events has ended")
}
