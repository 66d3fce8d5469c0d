//! Processes that something keeps from ending: they end by force, with the status that says so.
//!
//! Each test starts this program again, as a process of its own that runs only [`process`].

#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::runtime::Builder;
use windlass_manager::{Manager, Options, TaskContext};
use windlass_reconciler::{Action, Controller, Error, Reconcile, RunContext, Watch};
use windlass_testserver::apiserver::ApiServer;

/// Set in the process, to what it does.
const CASE: &str = "WINDLASS_STUCK_CASE";
/// What the process prints when it is as the test wants it.
const READY: &str = "ready to be stuck";
const LEASE: &str = "operator";
/// How long a process may take to end: more than any machine needs.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process that runs a manager.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it, and waits until it is ready.
    fn start(case: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["stuck::process", "--exact", "--nocapture"]).env(CASE, case);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("the output is piped"));
        let mut process = Self { child, output };
        let mut line = String::new();
        while !line.contains(READY) {
            line.clear();
            let read = process.output.read_line(&mut line).expect("text");
            assert!(read > 0, "it has ended");
        }
        process
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().expect("a signal is sent");
        assert!(sent.success());
    }

    /// The status with which it ends.
    #[expect(clippy::disallowed_methods, reason = "a process is waited for, and it has no event")]
    fn status(mut self) -> Option<i32> {
        for _ in 0..PATIENCE.as_millis() / LOOK_EVERY.as_millis() {
            if let Some(status) = self.child.try_wait().expect("it was started") {
                return status.code();
            }
            thread::sleep(LOOK_EVERY);
        }
        panic!("it does not end");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Blocks its thread for ever.
struct Blocks;

impl Reconcile<ConfigMap> for Blocks {
    async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        println!("{READY}");
        loop {
            thread::park();
        }
    }
}

/// Takes the Lease away from its holder, as soon as there is one.
async fn take_lease(cx: TaskContext) -> Result<(), kube::Error> {
    let leases = Api::<Lease>::default_namespaced(cx.client);
    let stolen = Patch::Merge(json!({"spec": {"holderIdentity": "another"}}));
    leases.patch(LEASE, &PatchParams::default(), &stolen).await.map(drop)
}

/// Not a test: what the processes run.
#[test]
fn process() {
    let Ok(case) = std::env::var(CASE) else { return };
    // A runtime of one thread is what a pod with one CPU has.
    let mut runtime = match case.as_str() {
        "blocks its only thread" => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let server = ApiServer::new();
        let maps =
            Api::<ConfigMap>::default_namespaced(kube::Client::new(server.service(), "default"));
        let mut map = ConfigMap::default();
        map.metadata.name = Some("one".to_owned());
        maps.create(&PostParams::default(), &map).await.expect("created");
        let mut options = Options::default().without_http();
        options.grace_period = Duration::from_secs(if case == "waits" { 3_600 } else { 1 });
        options.lease_duration = Duration::from_secs(3);
        options.renew_deadline = Duration::from_secs(2);
        options.retry_period = Duration::from_millis(200);
        let mut manager = Manager::new(options)
            .without_logs()
            .connect(move |stack| Ok(stack.around(server.service(), "default")))
            .leader_election(LEASE)
            .controller(Controller::named("configmap", Watch::<ConfigMap>::new()), Blocks);
        if case == "loses the Lease" {
            manager = manager.leader_task("takes the Lease", take_lease);
        }
        if let Err(error) = Box::pin(manager.run()).await {
            println!("{error}");
        }
    });
    // Not reached: the runtime cannot end either.
}

#[test]
fn process_whose_run_blocks_its_thread_ends_by_force_after_the_grace_period() {
    let process = Process::start("blocks");
    process.signal("-TERM");
    assert_eq!(process.status(), Some(1));
}

#[test]
fn process_that_has_lost_its_lease_ends_by_force_if_a_run_blocks_its_thread() {
    let process = Process::start("loses the Lease");
    assert_eq!(process.status(), Some(1));
}

#[test]
fn process_whose_only_thread_is_blocked_ends_by_force_when_its_lease_has_expired() {
    let process = Process::start("blocks its only thread");
    assert_eq!(process.status(), Some(1));
}

#[test]
fn second_signal_ends_a_process_at_once() {
    for case in ["waits", "blocks its only thread"] {
        let process = Process::start(case);
        // Two of the same could arrive as one.
        process.signal("-TERM");
        process.signal("-INT");
        assert_eq!(process.status(), Some(130), "{case}");
    }
}
