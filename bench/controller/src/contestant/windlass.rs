//! Our controller, as it comes.

use std::sync::Arc;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio_util::sync::CancellationToken;
use windlass_bench_stage::STAMP;
use windlass_informer::{ClientStack, SharedInformerFactory};
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
        Ok(Action::Done)
    }
}

/// Reconciles all objects, for ever.
pub(crate) async fn run(config: kube::Config, runs: Arc<Runs>) -> Result<()> {
    let factory = SharedInformerFactory::new(ClientStack::new().connect(config)?);
    let controller = Controller::of(Watch::<ConfigMap>::new())
        .workers(usize::from(WORKERS))
        .build(&factory, Count(runs))?;
    controller.run(CancellationToken::new()).await?;
    bail!("the controller has ended")
}
