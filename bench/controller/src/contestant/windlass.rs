//! Our controller: as it comes, and with all metrics of the manager.

use std::sync::Arc;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio_util::sync::CancellationToken;
use windlass_bench_stage::STAMP;
use windlass_informer::{ClientStack, InformerOptions, SharedInformerFactory};
use windlass_manager::Metrics;
use windlass_reconciler::{Action, Controller, Error, Reconcile, RunContext, Watch};

use super::WORKERS;
use super::runs::Runs;

/// Counts objects.
struct Count(Arc<Runs>);

impl Reconcile<ConfigMap> for Count {
    async fn reconcile(&self, object: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let stamp = object.metadata.labels.as_ref().and_then(|labels| labels.get(STAMP));
        self.0.ran(name, stamp.map(String::as_str));
        Ok(Action::done())
    }
}

/// Reconciles all objects, for ever, and counts what the manager would count, if there are metrics.
pub(crate) async fn run(
    config: kube::Config,
    runs: Arc<Runs>,
    metrics: Option<Metrics>,
) -> Result<()> {
    let (mut stack, mut informers) = (ClientStack::new(), InformerOptions::new());
    let mut builder =
        Controller::named("configmap", Watch::<ConfigMap>::new()).workers(usize::from(WORKERS));
    if let Some(metrics) = &metrics {
        stack = stack.observer(Arc::new(metrics.requests().clone()));
        informers = informers.observer(metrics.informers().observer());
        builder = builder.metrics(metrics.controllers());
    }
    let factory =
        SharedInformerFactory::builder(stack.connect(config)?).defaults(informers).build();
    let controller = builder.build(&factory, Count(runs))?;
    controller.run(CancellationToken::new()).await?;
    bail!("the controller has ended")
}
