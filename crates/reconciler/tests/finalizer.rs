//! Finalizers: there before the first side effect, gone only after the clean-up.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{Action, Context, Controller, Error, Finalize, Finalized, Watch};
use windlass_testkit::{TestCluster, on_each_cluster};

const FINALIZER: &str = "example.com/bucket";

/// Says what it does; its first clean-up fails.
struct Buckets {
    said: mpsc::Sender<String>,
    cleanups: Mutex<u32>,
}

impl Finalize<ConfigMap> for Buckets {
    async fn reconcile(&self, object: Arc<ConfigMap>, _: &Context) -> Result<Action, Error> {
        let has_finalizer = object.finalizers().iter().any(|name| name == FINALIZER);
        self.said.send(format!("reconcile {has_finalizer}")).await?;
        Ok(Action::Done)
    }

    async fn cleanup(&self, _: Arc<ConfigMap>, _: &Context) -> Result<Action, Error> {
        let is_first = {
            let mut cleanups = self.cleanups.lock().expect("not poisoned");
            *cleanups += 1;
            *cleanups == 1
        };
        self.said.send("cleanup".to_owned()).await?;
        if is_first { Err(Error::msg("the cloud is down")) } else { Ok(Action::Done) }
    }
}

#[tokio::test]
async fn object_goes_only_after_its_cleanup_succeeded() {
    on_each_cluster(async |cluster: TestCluster| {
        let namespace = cluster.namespace("finalizer").await.expect("a namespace");
        let client = cluster.client().expect("a client");
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let (said, mut heard) = mpsc::channel(100);
        let reconciler = Finalized::new(FINALIZER, Buckets { said, cleanups: Mutex::new(0) });
        let factory = SharedInformerFactory::new(client);
        let scope = namespace.clone();
        let watch = Watch::<ConfigMap>::new()
            .options(move |informer| informer.namespace(scope).field_selector("metadata.name=one"));
        let controller = Controller::of(watch).build(&factory, reconciler).expect("a controller");
        let stop = CancellationToken::new();
        let story = async {
            let object = json!({"metadata": {"name": "one"}});
            let object = serde_json::from_value(object).expect("an object");
            api.create(&PostParams::default(), &object).await.expect("created");
            assert_eq!(heard.recv().await.as_deref(), Some("reconcile true"));
            api.delete("one", &DeleteParams::default()).await.expect("deleted");
            // The finalizer itself was a change, which may have led to one more run.
            let mut next = heard.recv().await;
            while next.as_deref() == Some("reconcile true") {
                next = heard.recv().await;
            }
            assert_eq!(next.as_deref(), Some("cleanup"));
            assert_eq!(heard.recv().await.as_deref(), Some("cleanup"));
            while api.get_opt("one").await.expect("an answer").is_some() {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        let (ran, ()) = tokio::join!(controller.run(stop.clone()), story);
        ran.expect("it ran");
    })
    .await;
}
