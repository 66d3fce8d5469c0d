// A closure holds something while waiting that must not move to another thread.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::informer::SharedInformerFactory;
use windlass::reconciler::{Action, Controller, Watch, reconcile_fn};

fn build(factory: &SharedInformerFactory) {
    let count = Arc::new(Mutex::new(0));
    let reconciler = reconcile_fn(async move |object: Arc<ConfigMap>, cx| {
        let mut count = count.lock().unwrap();
        *count += 1;
        cx.live().update(&*object, &object).await?;
        Ok(Action::done())
    });
    let _ = Controller::named("configmap", Watch::<ConfigMap>::new()).build(factory, reconciler);
}

fn main() {}
