//! The greetings of the programs: people copy the lines into a shell, so each of them must work as
//! printed.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use windlass_apiserver::{ApiServer, program};

use crate::kubectl::script::{find_program, kubectl_alone};

/// Much longer than the lines take.
const PATIENCE: Duration = Duration::from_mins(2);

/// The lines for a shell, which are indented.
fn commands(greeting: &str) -> Vec<&str> {
    greeting.lines().filter_map(|line| line.strip_prefix("  ")).collect()
}

/// Runs the lines of a greeting one after the other; each must succeed. Background processes that
/// they start are ended.
async fn run(kubectl: &Path, greeting: &str) -> String {
    let commands = commands(greeting);
    assert!(commands.len() > 5 && commands[0].starts_with("export KUBECONFIG="), "{greeting}");
    let script = format!("set -ex\ntrap 'kill $! || true' EXIT\n{}\n", commands.join("\n"));
    let home = tempfile::tempdir().expect("a folder");
    let shell = Command::new("sh")
        .args(["-c", &script])
        .current_dir(home.path())
        .env_clear()
        .env("PATH", kubectl_alone(kubectl, home.path()))
        .env("HOME", home.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, shell).await.expect("it ends").expect("sh runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{}: {said}", kubectl.display());
    said
}

/// The kubectl of the real server's version, and that of the machine.
fn programs() -> Vec<std::path::PathBuf> {
    let built = windlass_testserver::kubectl().expect("kubectl");
    [Some(built), find_program("kubectl")].into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the kubectl of the real control plane: run `cargo xtask test --real`"]
async fn lines_of_the_api_servers_greeting_work_as_printed() {
    for kubectl in programs() {
        let address = "127.0.0.1:0".parse().expect("an address");
        let listening = ApiServer::new().listen(address).await.expect("a port");
        let kubeconfig = listening.temporary_kubeconfig(None).expect("a kubeconfig");
        let said = run(&kubectl, &program::greeting(&listening.url(), kubeconfig.path())).await;
        assert!(said.contains("configmap \"hello\" deleted"), "{said}");
        listening.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the kubectl of the real control plane: run `cargo xtask test --real`"]
async fn lines_of_the_clusters_greeting_work_as_printed() {
    for kubectl in programs() {
        let address = "127.0.0.1:0".parse().expect("an address");
        let cluster = windlass_cluster::Cluster::builder().nodes(3).listen(address).start().await;
        let cluster = cluster.expect("a cluster");
        let said = run(&kubectl, &windlass_cluster::greeting(&cluster, 3)).await;
        assert!(said.contains("node/node-1 drained"), "{said}");
        cluster.stop().await.expect("it has run");
    }
}

#[test]
fn commands_of_a_greeting_are_its_indented_lines() {
    assert_eq!(
        commands("Try:\n  export A=b\n  kubectl get x &\n\nEnd.\n"),
        ["export A=b", "kubectl get x &"]
    );
}
