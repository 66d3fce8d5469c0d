// A closure is given to the builder as it is.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::informer::SharedInformerFactory;
use windlass::reconciler::{Action, Controller, Error, RunContext, Watch};

async fn reconcile(_: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
    Ok(Action::done())
}

fn build(factory: &SharedInformerFactory) {
    let _ = Controller::named("configmap", Watch::<ConfigMap>::new()).build(factory, reconcile);
}

fn main() {}
