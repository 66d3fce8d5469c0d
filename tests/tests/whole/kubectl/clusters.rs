//! The two clusters: each has a kubeconfig, and pods that become ready.

use std::path::Path;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass::informer::SharedInformerFactory;
use windlass_apiserver::{ApiServer, Authorization, User};
use windlass_testserver::{
    CLEANUP_CONTROLLERS, ControlPlane, ControlPlaneOptions, WORKLOAD_CONTROLLERS,
};
use windlass_workloads::{Workloads, WorkloadsError};

/// Enough nodes that the pods of a drained one fit on the others.
const NODES: u32 = 3;

/// The user of the kubeconfig, named as on the real cluster.
const ADMIN: &str = "windlass-admin";

/// Other controllers of kube-controller-manager that the embedded cluster also has.
const OTHER_CONTROLLERS: [&str; 3] =
    ["clusterrole-aggregation-controller", "endpointslice-controller", "serviceaccount-controller"];

pub(crate) enum Cluster {
    Embedded(Box<windlass_cluster::Cluster>),
    Real(Box<Real>),
}

/// A real control plane, and made-up nodes.
pub(crate) struct Real {
    server: ControlPlane,
    stop: CancellationToken,
    pods: JoinSet<Result<(), WorkloadsError>>,
}

impl Cluster {
    pub(crate) async fn embedded() -> Self {
        let admin = User::named(ADMIN).uid(ADMIN).group("system:masters");
        let server = ApiServer::builder().authorization(Authorization::Rbac);
        let cluster = windlass_cluster::Cluster::builder()
            .server(server.token(ADMIN, admin))
            .token(ADMIN)
            .nodes(NODES)
            .tls();
        Self::Embedded(Box::new(cluster.start().await.expect("a cluster")))
    }

    pub(crate) async fn real() -> Self {
        let controllers = CLEANUP_CONTROLLERS.into_iter().chain(WORKLOAD_CONTROLLERS);
        let options =
            ControlPlaneOptions::new().controllers(controllers).controllers(OTHER_CONTROLLERS);
        let server = ControlPlane::start(options).await.expect("a control plane");
        let factory = SharedInformerFactory::new(server.client().expect("a client"));
        let stop = CancellationToken::new();
        let workloads = Workloads::new(&factory).nodes(NODES).pods_only();
        let mut pods = JoinSet::new();
        pods.spawn(workloads.run(stop.clone()));
        Self::Real(Box::new(Real { server, stop, pods }))
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        match self {
            Self::Embedded(cluster) => cluster.kubeconfig().expect("it listens"),
            Self::Real(real) => real.server.kubeconfig_path(),
        }
    }

    /// Stops the server, and the controllers, which must still be running.
    pub(crate) async fn stop(self) {
        match self {
            Self::Embedded(cluster) => cluster.stop().await.expect("it has run"),
            Self::Real(mut real) => {
                real.stop.cancel();
                while let Some(ran) = real.pods.join_next().await {
                    ran.expect("no panic").expect("the controllers run");
                }
            }
        }
    }
}
