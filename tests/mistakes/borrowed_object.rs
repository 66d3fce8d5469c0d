// The object is taken by reference, as controllers elsewhere have it.

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::reconciler::{Action, RunContext, Error, Reconcile};

struct Copy;

impl Reconcile<ConfigMap> for Copy {
    async fn reconcile(&self, _: &ConfigMap, _: &RunContext) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

fn main() {}
