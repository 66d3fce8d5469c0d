//! The output of the program when it is ready.

use std::path::Path;

use crate::cluster::Cluster;

/// Returns the text that `windlass-cluster` prints for a listening cluster with this many nodes.
/// Lines that begin with two spaces are shell commands; each of them succeeds.
pub fn greeting(cluster: &Cluster, nodes: u32) -> String {
    let url = cluster.url().unwrap_or_default();
    let kubeconfig = cluster.kubeconfig().unwrap_or(Path::new("")).display();
    let noun = if nodes == 1 { "node" } else { "nodes" };
    format!(
        "A Kubernetes cluster is at {url}, with {nodes} made-up {noun}, on which nothing really runs.\n\
         Its kubeconfig: {kubeconfig}\n\n\
         Try, in another terminal:\n\
         \x20 export KUBECONFIG={kubeconfig}\n\
         \x20 kubectl get nodes\n\
         \x20 kubectl create deployment web --image=web:1 --replicas=3\n\
         \x20 kubectl rollout status deployment web\n\
         \x20 kubectl expose deployment web --port=80\n\
         \x20 kubectl get services,endpointslices\n\
         \x20 kubectl scale deployment web --replicas=6\n\
         \x20 kubectl get pods -o wide --watch &\n\
         \x20 kubectl drain node-1\n\
         \x20 kubectl uncordon node-1\n\
         \x20 kubectl delete deployment,service web\n\n\
         Ctrl-C ends it, and everything in it.\n"
    )
}
