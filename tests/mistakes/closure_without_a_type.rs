// The closure does not say what its object is.

use k8s_openapi::api::core::v1::ConfigMap;
use windlass::informer::SharedInformerFactory;
use windlass::reconciler::{Action, Controller, Watch, reconcile_fn};

fn build(factory: &SharedInformerFactory) {
    let reconciler = reconcile_fn(async |object, cx| {
        println!("{}: {:?}", cx.key(), object.data);
        Ok(Action::done())
    });
    let _ = Controller::named("configmap", Watch::<ConfigMap>::new()).build(factory, reconciler);
}

fn main() {}
