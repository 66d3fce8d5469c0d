//! Failing webhooks, and what users of kubectl see: the same on the embedded server and on a real
//! one, and as in `docs/webhook-failures.md`.
//!
//! Each row of that page is a webhook that is broken in one way, and a command. The test starts the
//! webhooks, runs the commands on both clusters, and compares the outputs. Webhooks that panic or
//! hang run on a server of `windlass-webhook`; other failures need a server of the test.

mod cluster;
mod hooks;
mod rows;
mod servers;

use std::fmt::Write as _;

use futures::StreamExt as _;
use futures::stream;
use windlass_testserver::TestServer;
use windlass_testserver::apiserver::ApiServer;

use cluster::Cluster;
use rows::{ADMISSION, CONVERSION, Row};
use servers::Servers;

/// The number of concurrent commands: most of them wait.
const AT_ONCE: usize = 6;

/// The output of kubectl if a webhook with the failure policy `Ignore` fails: the failure does not
/// show.
const IGNORED: &str = "configmap/settings created";

/// Returns the output of a command for each row.
async fn shown<F: Future<Output = String>>(
    rows: &'static [Row],
    command: impl Fn(&'static Row) -> F,
) -> Vec<String> {
    stream::iter(rows).map(command).buffered(AT_ONCE).collect().await
}

/// Returns all outputs on a cluster: admission, conversion.
async fn all(cluster: &Cluster, servers: &Servers) -> (Vec<String>, Vec<String>) {
    cluster.prepare(servers).await;
    let ignored = stream::iter(ADMISSION.iter().filter(|row| !row.is_own()))
        .map(async |row| (row.id, cluster.apply(&format!("{}-ignored", row.id)).await))
        .buffered(AT_ONCE)
        .collect::<Vec<_>>();
    let (admission, conversion, ignored) = futures::join!(
        shown(ADMISSION, |row| cluster.apply(row.id)),
        shown(CONVERSION, |row| cluster.get(row.id)),
        ignored
    );
    for (id, shown) in ignored {
        assert_eq!(shown, IGNORED, "{id} with the failure policy `Ignore`");
    }
    (admission, conversion)
}

fn table(rows: &[Row], shown: &[String]) -> String {
    let mut table =
        "| what happened | what kubectl shows | what to do |\n|---|---|---|\n".to_owned();
    for (row, shown) in rows.iter().zip(shown) {
        let shown: Vec<String> = shown.lines().map(|line| format!("`{line}`")).collect();
        let (what, shown, advice) = (row.what, shown.join("<br>"), row.advice);
        writeln!(table, "| {what} | {shown} | {advice} |").expect("a text takes all");
    }
    table
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn kubectl_shows_the_same_of_a_failing_webhook_on_both_clusters_and_as_documented() {
    let servers = Servers::start().await;
    let server = ApiServer::new();
    let listening = server.listen("127.0.0.1:0".parse().expect("an address")).await;
    let listening = listening.expect("a port");
    let kubeconfig = listening.temporary_kubeconfig(None).expect("a kubeconfig");
    let embedded = Cluster::new(&TestServer::on(server.clone()), kubeconfig.path());
    let real = TestServer::real().await.expect("a control plane");
    let kubeconfig = real.control_plane().expect("it is real").kubeconfig_path().to_owned();
    let real = Cluster::new(&real, &kubeconfig);

    let (ours, theirs) = futures::join!(all(&embedded, &servers), all(&real, &servers));
    let tables = |(admission, conversion): &(Vec<String>, Vec<String>)| {
        [table(ADMISSION, admission), table(CONVERSION, conversion)]
    };
    let (ours, theirs) = (tables(&ours), tables(&theirs));
    let difference = windlass_tests::diff::lines(&theirs.concat(), &ours.concat());
    assert!(ours == theirs, "- real, + embedded:\n{difference}");

    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/webhook-failures.md");
    let page = std::fs::read_to_string(page).unwrap_or_default();
    for table in theirs {
        assert!(page.contains(&table), "docs/webhook-failures.md lacks this table:\n{table}");
    }
}
