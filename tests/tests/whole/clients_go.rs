//! client-go and controller-runtime on the embedded server and on a real one: the program of
//! `tests/clients-go` must print the same lines.
//!
//! It needs Go, so it runs with the tests on a real control plane.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;
use windlass_apiserver::ApiServer;
use windlass_testserver::{ControlPlane, go_program};

/// Returns the lines that the program prints for a server.
async fn lines(kubeconfig: &Path) -> Vec<String> {
    let program = go_program("clients-go").unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubeconfig).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.expect("the Go program must start");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn go_clients_see_the_same_on_the_embedded_server_and_on_a_real_one() {
    let server = ApiServer::new();
    let listening = server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await;
    let listening = listening.expect("a socket");
    let kubeconfig = listening.temporary_kubeconfig(None).expect("a kubeconfig");
    let embedded = lines(kubeconfig.path()).await;

    let cluster = ControlPlane::shared().await.expect("a control plane");
    let real = lines(cluster.kubeconfig_path()).await;
    for (embedded, real) in embedded.iter().zip(&real) {
        assert_eq!(embedded, real, "the embedded server is on the left");
    }
    assert_eq!(embedded.len(), real.len());
    // The last step is there, so no step was skipped.
    assert_eq!(real.last().map(String::as_str), Some("webhooks stopped"));
}
