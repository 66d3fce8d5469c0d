//! The cases: what is done with a contestant, and what is measured of it.
//!
//! Every run begins with a process that starts and reconciles every object, while the machine has nothing else to
//! do. It has settled when it takes no more CPU time, so what it puts off until after the last run counts as well.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Deserialize;
use tokio::time::Instant;
use windlass_bench_stage::{Contestant, Measured, count};

use super::objects::Objects;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// From the start of the process until every object has run.
    Storm,
    /// Changes at a steady pace, until each has led to a run.
    Changes,
}

impl Case {
    /// Runs the case once with a new process.
    pub(crate) async fn measure(
        self,
        objects: &mut Objects,
        who: &str,
        program: &Path,
    ) -> Result<Measured> {
        match self {
            Self::Storm => storm(objects, who, program).await,
            Self::Changes => changes(objects, who, program).await,
        }
    }
}

async fn storm(objects: &Objects, who: &str, program: &Path) -> Result<Measured> {
    let (mut contestant, wall_s) = reconciled(objects, who, program).await?;
    let cpu_s = contestant.cpu_since(Duration::ZERO)?;
    let settled = contestant.memory()?;
    let resident_mb = contestant.trimmed().await?.resident_mb;
    contestant.end().await?;
    Ok(vec![
        ("cpu_s", cpu_s),
        ("wall_s", wall_s),
        ("peak_mb", settled.peak_mb),
        ("settled_mb", settled.resident_mb),
        ("resident_mb", resident_mb),
    ])
}

async fn changes(objects: &mut Objects, who: &str, program: &Path) -> Result<Measured> {
    let (mut contestant, _) = reconciled(objects, who, program).await?;
    let turn = objects.turns.take(objects.changes);
    objects.server.quiet().await?;
    contestant.expect(turn.len()).await?;
    contestant.settle().await?;

    contestant.forget_peak()?;
    let (before, began) = (contestant.cpu()?, Instant::now());
    objects.change(&turn).await?;
    let [p50_us, p99_us] = contestant.seen().await?;
    let wall_s = began.elapsed().as_secs_f64();
    contestant.settle().await?;
    let cpu_s = contestant.cpu_since(before)?;

    let peak_mb = contestant.memory()?.peak_mb;
    contestant.end().await?;
    Ok(vec![
        ("cpu_s", cpu_s),
        ("cpu_us_per_event", cpu_s * 1e6 / count(turn.len())),
        ("wall_s", wall_s),
        ("p50_us", p50_us),
        ("p99_us", p99_us),
        ("peak_mb", peak_mb),
    ])
}

/// Starts a contestant, and waits until every object has run and it has settled. Returns also the seconds from the
/// start of the process until the last object ran.
async fn reconciled(objects: &Objects, who: &str, program: &Path) -> Result<(Contestant, f64)> {
    let kubeconfig = objects.server.cluster.kubeconfig_path();
    let mut contestant =
        objects.server.contestant(program, who, kubeconfig, objects.count, &[]).await?;
    contestant.say("start").await?;
    let runs = contestant.hear("reconciled").await?;
    let wall_s = contestant.age_s();
    contestant.settle().await?;
    ensure!(
        runs.first().is_some_and(|&runs| runs >= count(objects.count)),
        "it ran {runs:?} times for {} objects",
        objects.count
    );
    Ok((contestant, wall_s))
}
