//! The same cases on the embedded server with our controllers, and on a real kube-apiserver with
//! kube-controller-manager: both must end in the same picture.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::sync::OnceCell;
use windlass_testserver::{
    CLEANUP_CONTROLLERS, ControlPlane, ControlPlaneOptions, WORKLOAD_CONTROLLERS,
};

use crate::support::{Stage, cases};

/// Controllers that we replace as well, besides those that create pods.
const MORE_CONTROLLERS: [&str; 4] = [
    "disruption-controller",
    "endpointslice-controller",
    "persistentvolumeclaim-protection-controller",
    "ttl-after-finished-controller",
];

/// One real cluster for all cases. It ends with the process.
static REAL: OnceCell<Arc<ControlPlane>> = OnceCell::const_new();

async fn real() -> Stage {
    let start = || async {
        let controllers = CLEANUP_CONTROLLERS.into_iter().chain(WORKLOAD_CONTROLLERS);
        let controllers = controllers.chain(MORE_CONTROLLERS);
        ControlPlane::start(ControlPlaneOptions::new().controllers(controllers)).await.map(Arc::new)
    };
    let cluster = REAL.get_or_try_init(start).await;
    let cluster = cluster.expect("a real control plane");
    let client = cluster.client().expect("a client");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"metadata": {"generateName": "workloads-"}});
    let namespace = serde_json::from_value(namespace).expect("a namespace");
    let namespace = namespaces.create(&PostParams::default(), &namespace).await;
    Stage::real(client, namespace.expect("a namespace").name_any())
}

macro_rules! same_on_both {
    ($($case:ident),* $(,)?) => {$(
        #[tokio::test]
        #[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
        async fn $case() {
            let (embedded, real) = (Stage::embedded().await, real().await);
            cases::$case(&embedded).await;
            cases::$case(&real).await;
            assert_eq!(embedded.picture().await, real.picture().await, "embedded, then real");
            embedded.end().await;
            real.end().await;
        }
    )*};
}

with_all_cases!(same_on_both);
