//! Nothing of the real control plane is left after a test process dies, however it dies.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use windlass_testserver::{CLEANUP_CONTROLLERS, ControlPlane, ControlPlaneOptions};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Set for the process to be killed: another run of this test program.
const VICTIM: &str = "WINDLASS_TEST_VICTIM";

/// The prefix of the line in which the victim prints what must be gone.
const TELLS: &str = "victim tells: ";

/// Starts a cluster, prints its processes and folder, and waits to be killed.
async fn be_the_victim() -> TestResult {
    let cluster =
        ControlPlane::start(ControlPlaneOptions::new().controllers(CLEANUP_CONTROLLERS)).await?;
    let pids = cluster.pids();
    let pids = [pids.etcd, pids.apiserver, pids.controller_manager].into_iter().flatten();
    let pids: Vec<_> = pids.map(|pid| pid.to_string()).collect();
    // A paused server must be ended as well.
    cluster.pause_apiserver()?;
    // On a line of its own, after the output of the test harness.
    println!("\n{TELLS}{} {}", pids.join(","), cluster.folder().display());
    std::future::pending().await
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn nothing_is_left_after_the_process_was_killed() -> TestResult {
    if env::var_os(VICTIM).is_some() {
        return be_the_victim().await;
    }
    let mut victim = Command::new(env::current_exe()?)
        .args([
            "--exact",
            "real_supervision::nothing_is_left_after_the_process_was_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(victim.stdout.take().ok_or("the output must be piped")?);
    let told = output.lines().map_while(Result::ok).find_map(|line| {
        let (pids, folder) = line.strip_prefix(TELLS)?.split_once(' ')?;
        let pids: Result<Vec<i32>, _> = pids.split(',').map(str::parse).collect();
        Some((pids.ok()?, PathBuf::from(folder)))
    });
    let (pids, folder) = told.ok_or("the victim must tell")?;
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|&pid| is_alive(pid)) && folder.exists());

    victim.kill()?;
    victim.wait()?;
    // The test runner sets the time limit; here it takes milliseconds.
    while pids.iter().any(|&pid| is_alive(pid)) || folder.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn is_alive(pid: i32) -> bool {
    signal::kill(Pid::from_raw(pid), None::<Signal>).is_ok()
}
