// The reconciler ends without saying what is to follow.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::reconciler::{RunContext, Error, Reconcile};

struct Copy;

impl Reconcile<ConfigMap> for Copy {
    async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<(), Error> {
        Ok(())
    }
}

fn main() {}
