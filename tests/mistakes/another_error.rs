// The reconciler returns an error of its own.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::reconciler::{Action, RunContext, Reconcile};

struct Copy;

impl Reconcile<ConfigMap> for Copy {
    async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, std::io::Error> {
        Ok(Action::done())
    }
}

fn main() {}
