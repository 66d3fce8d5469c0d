// The reconciler is one of another type.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use windlass::informer::SharedInformerFactory;
use windlass::reconciler::{Action, RunContext, Controller, Error, Reconcile, Watch};

struct Rotate;

impl Reconcile<Secret> for Rotate {
    async fn reconcile(&self, _: Arc<Secret>, _: &RunContext) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

fn build(factory: &SharedInformerFactory) {
    let _ = Controller::named("configmap", Watch::<ConfigMap>::new()).build(factory, Rotate);
}

fn main() {}
