//! kubectl, unmodified, runs the same commands on the embedded cluster and on a real one, and must
//! print the same.
//!
//! The commands are shell scripts in the folder `scripts`; the files that they apply are in
//! `files`. A step of a script is a block of lines up to the next empty one. Both clusters run all
//! steps, and the outputs are compared after [`normalise`] has replaced what differs between any
//! two clusters.
//!
//! The real cluster is a kube-apiserver with the controllers of kube-controller-manager; the
//! embedded one has those of `windlass-workloads`. Pods run on neither: on both, `Workloads` marks
//! them as running.

mod clusters;
mod greeting;
mod normalise;
mod script;

use std::path::Path;

use clusters::Cluster;
use script::{Script, Shell};

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        const SCRIPTS: &[Script] = &[$(
            Script::new(stringify!($name), include_str!(concat!("scripts/", stringify!($name), ".sh")))
        ),*];
    };
}

// In this order, one after the other: some of them list cluster-wide objects.
scripts! {
    create,
    apply,
    get,
    access,
    nodes,
    autoscale,
}

/// Only a real cluster of the version that the embedded one reports prints this.
const VERSION: Script = Script::new("version", include_str!("scripts/version.sh"));

/// kubectl before 1.33 sends `autoscaling/v1` here, which the embedded server does not have.
const ONLY_NEW: &str = "autoscale";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn kubectl_of_the_same_version_prints_the_same_on_both_clusters() {
    compare(&windlass_testserver::kubectl().expect("kubectl"), SCRIPTS.iter()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn both_clusters_have_the_same_version() {
    compare(&windlass_testserver::kubectl().expect("kubectl"), [VERSION].iter()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn kubectl_of_this_machine_prints_the_same_on_both_clusters() {
    let kubectl = script::find_program("kubectl").expect("kubectl must be on the PATH");
    compare(&kubectl, SCRIPTS.iter().filter(|script| script.name != ONLY_NEW)).await;
}

/// Output that the real cluster never leads to, unless the test itself is broken.
const BROKEN: [&str; 3] = ["exit status 126", "exit status 127", "did not end within"];

/// Runs all scripts on both clusters, and fails with all differences.
async fn compare(kubectl: &Path, scripts: impl Iterator<Item = &Script>) {
    let (real, embedded) = (Cluster::real().await, Cluster::embedded().await);
    let wanted = std::env::var("WINDLASS_KUBECTL_SCRIPT").unwrap_or_default();
    let (mut steps, mut differences) = (0, Vec::new());
    for script in scripts.filter(|script| script.name.contains(&wanted)) {
        let on = |cluster: &Cluster| Shell::new(kubectl, cluster.kubeconfig(), script.name);
        let (real, embedded) = (on(&real), on(&embedded));
        for step in script.steps() {
            let (expected, got) = tokio::join!(real.run(step), embedded.run(step));
            steps += 1;
            let is_broken = BROKEN.iter().any(|broken| expected.contains(broken));
            assert!(!is_broken, "this is no answer of a server: $ {step}\n{expected}");
            if expected != got {
                let diff = windlass_tests::diff::lines(&expected, &got);
                differences.push(format!("{}:\n$ {step}\n{diff}\n", script.name));
            }
        }
    }
    assert!(steps > 0, "no script is called {wanted:?}");
    println!("{steps} steps with {}", kubectl.display());
    real.stop().await;
    embedded.stop().await;
    assert!(
        differences.is_empty(),
        "{} of {steps} steps differ (- real, + embedded):\n\n{}",
        differences.len(),
        differences.join("\n")
    );
}
