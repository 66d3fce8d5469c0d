//! Our informers, in each layout of the cache. The list is streamed and managed fields are cut,
//! both by default.

use std::sync::Arc;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Pod;
use serde::de::DeserializeOwned;
use windlass_bench_stage::STAMP;
use windlass_informer::{ClientStack, Event, InformerOptions, Resource, SharedInformerFactory};

use super::handler::Handler;
use super::pod::{Look, SlimPod};

/// As it comes.
pub(crate) async fn compact(config: kube::Config, handler: Arc<Handler>) -> Result<()> {
    run::<Pod>(config, handler, |options| options).await
}

/// With decoded pods.
pub(crate) async fn resident(config: kube::Config, handler: Arc<Handler>) -> Result<()> {
    run::<Pod>(config, handler, InformerOptions::resident::<Pod>).await
}

/// With a type that has only what its user needs.
pub(crate) async fn slim(config: kube::Config, handler: Arc<Handler>) -> Result<()> {
    run::<SlimPod>(config, handler, InformerOptions::resident::<SlimPod>).await
}

/// Informs of all pods, for ever.
async fn run<K>(
    config: kube::Config,
    handler: Arc<Handler>,
    options: fn(InformerOptions) -> InformerOptions,
) -> Result<()>
where
    K: Look + DeserializeOwned + Send + Sync + 'static,
{
    let factory = SharedInformerFactory::new(ClientStack::new().connect(config)?);
    let pods = factory.informer_of::<K>(&Resource::of::<Pod>(), options)?;
    let lister = pods.lister().clone();
    pods.add_handler(move |event: Event<K>| {
        // A pod that does not decode would be read for nothing, so it must not pass for a quick
        // one.
        handler.read(|| event.object().get().expect("every pod must decode").look());
        match event {
            Event::Added { .. } => {
                if handler.added() {
                    println!("synced {}", lister.reader().len());
                }
            }
            Event::Updated { new, .. } => handler.changed(new.head().labels().get(STAMP)),
            Event::Deleted { .. } => {}
        }
    })?;
    factory.start();
    let failure = factory.wait_for_failure().await;
    bail!("the informer has failed: {failure:?}")
}
