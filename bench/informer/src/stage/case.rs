//! The cases: what is done with a contestant, and what is measured of it.
//!
//! Every run begins with a contestant that fills its cache, while the machine has nothing else to do. A
//! contestant has settled when it takes no more CPU time, so what it puts off until after the last event
//! counts as well. Resident memory is what remains when it was asked to give back what is free: Go's
//! collector is run for that, and Rust's allocator trimmed.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windlass_bench_informer::now_nanos;

use super::door::Door;
use super::process::{Contestant, Memory};
use super::server::Stage;
use super::write::change;

/// What a case measured: metrics by their names.
pub(crate) type Measured = Vec<(&'static str, f64)>;

/// One in so many pods is changed while a contestant cannot see it: five percent.
const CHANGED: usize = 20;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// A first list of all pods, until the handler has seen them.
    Sync,
    /// The same with a handler that reads every pod.
    SyncRead,
    /// Updates at a steady pace, until the handler has seen them.
    Burst,
    /// A list again, after a watch that was cut and cannot be resumed.
    Relist,
}

/// A contestant that has all pods, and what that took.
struct Synced {
    contestant: Contestant,
    /// Before it made an informer.
    before: Memory,
    /// After it has settled.
    settled: Memory,
    cpu_s: f64,
    wall_s: f64,
}

impl Case {
    /// Runs the case once with a new process.
    pub(crate) async fn measure(
        self,
        stage: &mut Stage,
        who: &str,
        program: &Path,
    ) -> Result<Measured> {
        match self {
            Self::Sync => sync(stage, who, program, false).await,
            Self::SyncRead => sync(stage, who, program, true).await,
            Self::Burst => burst(stage, who, program).await,
            Self::Relist => relist(stage, who, program).await,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync => "sync",
            Self::SyncRead => "sync-read",
            Self::Burst => "burst",
            Self::Relist => "relist",
        })
    }
}

async fn sync(stage: &Stage, who: &str, program: &Path, reads: bool) -> Result<Measured> {
    let kubeconfig = stage.cluster.kubeconfig_path();
    let mut synced = Synced::start(stage, who, program, kubeconfig, reads).await?;
    let resident = synced.trimmed().await?;
    let Synced { contestant, before, settled, cpu_s, wall_s } = synced;
    contestant.end().await?;
    let bytes = (resident.resident_mb - before.resident_mb).max(0.0) * 1024.0 * 1024.0;
    Ok(vec![
        ("cpu_s", cpu_s),
        ("wall_s", wall_s),
        ("peak_mb", settled.peak_mb),
        ("settled_mb", settled.resident_mb),
        ("resident_mb", resident.resident_mb),
        ("bytes_per_object", bytes / count(stage.pods)),
    ])
}

async fn burst(stage: &mut Stage, who: &str, program: &Path) -> Result<Measured> {
    let kubeconfig = stage.cluster.kubeconfig_path();
    let synced = Synced::start(stage, who, program, kubeconfig, false).await?;
    let Synced { mut contestant, .. } = synced;
    let turn = stage.turn(stage.updates);
    stage.quiet().await?;
    contestant.expect(turn.len()).await?;

    let before = contestant.cpu()?;
    change(stage, &turn, true).await?;
    let latencies = contestant.hear("seen").await?;
    contestant.settle().await?;
    let cpu_s = contestant.cpu_since(before)?;

    let peak_mb = contestant.memory()?.peak_mb;
    contestant.end().await?;
    let [p50_us, p99_us] = latencies[..] else {
        anyhow::bail!("it told {} instead of two latencies", latencies.len());
    };
    Ok(vec![
        ("cpu_s", cpu_s),
        ("cpu_us_per_event", cpu_s * 1e6 / count(turn.len())),
        ("p50_us", p50_us),
        ("p99_us", p99_us),
        ("peak_mb", peak_mb),
    ])
}

async fn relist(stage: &mut Stage, who: &str, program: &Path) -> Result<Measured> {
    let door = Door::new(stage.cluster.kubeconfig_path()).await?;
    let mut synced = Synced::start(stage, who, program, &door.kubeconfig, false).await?;
    let resident = synced.trimmed().await?;
    let mut contestant = synced.contestant;
    let turn = stage.turn(stage.pods / CHANGED);
    contestant.expect(turn.len()).await?;

    door.shut();
    change(stage, &turn, false).await?;
    stage.forget().await?;
    let lists = stage.lists().await?;
    contestant.forget_peak()?;
    let before = contestant.cpu()?;
    door.open();
    contestant.hear("seen").await?;
    contestant.settle().await?;
    let cpu_s = contestant.cpu_since(before)?;
    let peak_mb = contestant.memory()?.peak_mb;

    ensure!(stage.lists().await? > lists, "it did not list again, as far as the server knows");
    contestant.end().await?;
    Ok(vec![("cpu_s", cpu_s), ("peak_mb", peak_mb), ("resident_mb", resident.resident_mb)])
}

impl Synced {
    /// Starts a contestant and lets it fill its cache.
    async fn start(
        stage: &Stage,
        who: &str,
        program: &Path,
        kubeconfig: &Path,
        reads: bool,
    ) -> Result<Self> {
        stage.quiet().await?;
        let kubeconfig = kubeconfig.to_str().context("the kubeconfig's path must be text")?;
        let mut arguments: Vec<_> =
            ["--who", who, "--kubeconfig", kubeconfig, "--pods"].map(ToOwned::to_owned).into();
        arguments.push(stage.pods.to_string());
        arguments.extend(reads.then(|| "--read".to_owned()));
        let folder = stage.cluster.folder();
        let mut contestant = Contestant::start(program, &arguments, folder).await?;
        let before = contestant.memory()?;

        let (cpu, began) = (contestant.cpu()?, Instant::now());
        contestant.say("start").await?;
        let held = contestant.hear("synced").await?;
        let wall_s = began.elapsed().as_secs_f64();
        contestant.settle().await?;
        let cpu_s = contestant.cpu_since(cpu)?;

        ensure!(held == [count(stage.pods)], "it holds {held:?} of {} pods", stage.pods);
        let settled = contestant.memory()?;
        Ok(Self { contestant, before, settled, cpu_s, wall_s })
    }

    /// Its memory without what it has no use for.
    async fn trimmed(&mut self) -> Result<Memory> {
        self.contestant.say("trim").await?;
        self.contestant.hear("trimmed").await?;
        self.contestant.settle().await?;
        self.contestant.memory()
    }
}

impl Contestant {
    /// Makes it count so many changes that are sent from now on.
    async fn expect(&mut self, changes: usize) -> Result<()> {
        self.say(&format!("expect {changes} {}", now_nanos())).await?;
        self.hear("expecting").await?;
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are less than 2^52 pods")]
fn count(pods: usize) -> f64 {
    pods as f64
}
