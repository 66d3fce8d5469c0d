// Something is held while waiting that must not move to another thread.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::reconciler::{Action, RunContext, Error, Reconcile};

struct Counter(Mutex<u64>);

impl Reconcile<ConfigMap> for Counter {
    async fn reconcile(&self, object: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        let mut count = self.0.lock().unwrap();
        *count += 1;
        cx.live().update(&*object, &object).await?;
        Ok(Action::done())
    }
}

fn main() {}
