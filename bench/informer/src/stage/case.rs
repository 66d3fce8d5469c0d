//! The cases: what is done with a contestant, and what is measured of it.
//!
//! Every run begins with a contestant that fills its cache, while the machine has nothing else to
//! do. A contestant has settled when it takes no more CPU time, so what it puts off until after the
//! last event counts as well. Resident memory is what remains when it was asked to give back what
//! is free: Go's collector is run for that, and Rust's allocator trimmed.

use std::path::Path;

use anyhow::{Result, ensure};
use serde::Deserialize;
use tokio::time::Instant;
use windlass_bench_stage::{Contestant, Entrant, Measured, Memory, Stage, count};

use super::door::Door;
use super::pods::Pods;
use super::write::change;

/// One in so many pods is changed while a contestant cannot see it: five percent.
const CHANGED: usize = 20;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
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

impl Stage for Pods {
    const SUITE: &'static str = "informer";

    type Case = Case;

    async fn start(count: usize, updates: usize) -> Result<Self> {
        Self::start(count, updates).await
    }

    async fn measure(&mut self, case: Case, entrants: &[Entrant]) -> Result<Vec<Measured>> {
        let mut measured = Vec::new();
        for entrant in entrants {
            measured.push(case.measure(self, entrant).await?);
        }
        Ok(measured)
    }
}

impl Case {
    /// Runs the case once with a new process.
    pub(crate) async fn measure(self, pods: &mut Pods, entrant: &Entrant) -> Result<Measured> {
        match self {
            Self::Sync => sync(pods, entrant, false).await,
            Self::SyncRead => sync(pods, entrant, true).await,
            Self::Burst => burst(pods, entrant).await,
            Self::Relist => relist(pods, entrant).await,
        }
    }
}

async fn sync(pods: &Pods, entrant: &Entrant, reads: bool) -> Result<Measured> {
    let kubeconfig = pods.server.cluster.kubeconfig_path();
    let mut synced = Synced::start(pods, entrant, kubeconfig, reads).await?;
    let resident = synced.contestant.trimmed().await?;
    let Synced { contestant, before, settled, cpu_s, wall_s } = synced;
    contestant.end().await?;
    let bytes = (resident.resident_mb - before.resident_mb).max(0.0) * 1024.0 * 1024.0;
    Ok(vec![
        ("cpu_s", cpu_s),
        ("wall_s", wall_s),
        ("peak_mb", settled.peak_mb),
        ("settled_mb", settled.resident_mb),
        ("resident_mb", resident.resident_mb),
        ("bytes_per_object", bytes / count(pods.count)),
    ])
}

async fn burst(pods: &mut Pods, entrant: &Entrant) -> Result<Measured> {
    let kubeconfig = pods.server.cluster.kubeconfig_path();
    let synced = Synced::start(pods, entrant, kubeconfig, false).await?;
    let Synced { mut contestant, .. } = synced;
    let turn = pods.turns.take(pods.updates);
    pods.server.quiet().await?;
    contestant.expect(turn.len()).await?;

    let before = contestant.cpu()?;
    change(pods, &turn, true).await?;
    let [p50_us, p99_us] = contestant.seen().await?;
    contestant.settle().await?;
    let cpu_s = contestant.cpu_since(before)?;

    let peak_mb = contestant.memory()?.peak_mb;
    contestant.end().await?;
    Ok(vec![
        ("cpu_s", cpu_s),
        ("cpu_us_per_event", cpu_s * 1e6 / count(turn.len())),
        ("p50_us", p50_us),
        ("p99_us", p99_us),
        ("peak_mb", peak_mb),
    ])
}

async fn relist(pods: &mut Pods, entrant: &Entrant) -> Result<Measured> {
    let door = Door::new(pods.server.cluster.kubeconfig_path()).await?;
    let mut synced = Synced::start(pods, entrant, &door.kubeconfig, false).await?;
    let resident = synced.contestant.trimmed().await?;
    let mut contestant = synced.contestant;
    let turn = pods.turns.take(pods.count / CHANGED);
    contestant.expect(turn.len()).await?;

    door.shut();
    change(pods, &turn, false).await?;
    pods.forget().await?;
    let lists = pods.lists().await?;
    contestant.forget_peak()?;
    let before = contestant.cpu()?;
    door.open();
    contestant.seen().await?;
    contestant.settle().await?;
    let cpu_s = contestant.cpu_since(before)?;
    let peak_mb = contestant.memory()?.peak_mb;

    ensure!(pods.lists().await? > lists, "it did not list again, as far as the server knows");
    contestant.end().await?;
    Ok(vec![("cpu_s", cpu_s), ("peak_mb", peak_mb), ("resident_mb", resident.resident_mb)])
}

impl Synced {
    /// Starts a contestant and lets it fill its cache.
    async fn start(pods: &Pods, entrant: &Entrant, kubeconfig: &Path, reads: bool) -> Result<Self> {
        let flags: &[&str] = if reads { &["--read"] } else { &[] };
        let mut contestant = pods.server.contestant(entrant, kubeconfig, pods.count, flags).await?;
        let before = contestant.memory()?;

        let (cpu, began) = (contestant.cpu()?, Instant::now());
        contestant.say("start").await?;
        let held = contestant.hear("synced").await?;
        let wall_s = began.elapsed().as_secs_f64();
        contestant.settle().await?;
        let cpu_s = contestant.cpu_since(cpu)?;

        ensure!(held == [count(pods.count)], "it holds {held:?} of {} pods", pods.count);
        let settled = contestant.memory()?;
        Ok(Self { contestant, before, settled, cpu_s, wall_s })
    }
}
