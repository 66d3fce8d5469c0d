//! The cases: what is done with contestants, and what is measured of them.
//!
//! Every run begins with processes that start and reconcile every object, one after the other,
//! while nothing changes. A contestant has settled when it takes no more CPU time, so what it puts
//! off until after the last run counts as well.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::time::Instant;
use windlass_bench_stage::{Contestant, Entrant, Measured, Stage, count};

use super::objects::Objects;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// From the start of the process until every object has run.
    Storm,
    /// Changes at a steady pace, until each has led to a run.
    Changes,
    /// The same changes for all contestants at the same time.
    SideBySide,
}

impl Stage for Objects {
    const SUITE: &'static str = "controller";

    type Case = Case;

    async fn start(count: usize, changes: usize) -> Result<Self> {
        Self::start(count, changes).await
    }

    async fn measure(&mut self, case: Case, entrants: &[Entrant]) -> Result<Vec<Measured>> {
        case.measure(self, entrants).await
    }
}

impl Case {
    /// Runs the case once, with new processes.
    pub(crate) async fn measure(
        self,
        objects: &mut Objects,
        entrants: &[Entrant],
    ) -> Result<Vec<Measured>> {
        match self {
            Self::Storm => {
                let mut measured = Vec::new();
                for entrant in entrants {
                    measured.push(storm(objects, entrant).await?);
                }
                Ok(measured)
            }
            Self::Changes => {
                ensure!(entrants.len() == 1, "contestants of this case take turns");
                changes(objects, entrants).await
            }
            Self::SideBySide => changes(objects, entrants).await,
        }
    }
}

async fn storm(objects: &Objects, entrant: &Entrant) -> Result<Measured> {
    let (mut contestant, wall_s) = reconciled(objects, entrant).await?;
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

/// Changes objects while all of these contestants watch.
async fn changes(objects: &mut Objects, entrants: &[Entrant]) -> Result<Vec<Measured>> {
    let mut contestants = Vec::new();
    for entrant in entrants {
        contestants.push(reconciled(objects, entrant).await?.0);
    }
    let turn = objects.turns.take(objects.changes);
    objects.server.quiet().await?;
    for contestant in &mut contestants {
        contestant.expect(turn.len()).await?;
    }
    let before = settled(&contestants).await?;
    contestants.iter().try_for_each(Contestant::forget_peak)?;

    let began = Instant::now();
    objects.change(&turn).await?;
    let mut seen = Vec::new();
    for (contestant, Entrant { who, .. }) in contestants.iter_mut().zip(entrants) {
        let latencies = contestant.seen().await;
        seen.push(latencies.with_context(|| format!("{who} missed changes"))?);
    }
    let wall_s = began.elapsed().as_secs_f64();
    let after = settled(&contestants).await?;

    let mut measured = Vec::new();
    for (index, [p50_us, p99_us]) in seen.into_iter().enumerate() {
        let cpu_s = after[index].saturating_sub(before[index]).as_secs_f64();
        measured.push(vec![
            ("cpu_s", cpu_s),
            ("cpu_us_per_event", cpu_s * 1e6 / count(turn.len())),
            ("wall_s", wall_s),
            ("p50_us", p50_us),
            ("p99_us", p99_us),
            ("peak_mb", contestants[index].memory()?.peak_mb),
        ]);
    }
    for contestant in contestants {
        contestant.end().await?;
    }
    Ok(measured)
}

/// The CPU times of contestants at one moment, when all of them have settled.
async fn settled(contestants: &[Contestant]) -> Result<Vec<Duration>> {
    for contestant in contestants {
        contestant.settle().await?;
    }
    contestants.iter().map(Contestant::cpu).collect()
}

/// Starts a contestant, and waits until every object has run and it has settled. Returns also the
/// seconds from the start of the process until the last object ran.
async fn reconciled(objects: &Objects, entrant: &Entrant) -> Result<(Contestant, f64)> {
    let kubeconfig = objects.server.cluster.kubeconfig_path();
    let mut contestant = objects.server.contestant(entrant, kubeconfig, objects.count, &[]).await?;
    contestant.say("start").await?;
    let runs = contestant.hear("reconciled").await?;
    let wall_s = contestant.age_s();
    contestant.settle().await?;
    ensure!(
        runs.first().is_some_and(|&runs| runs >= count(objects.count)),
        "{} ran {runs:?} times for {} objects",
        entrant.who,
        objects.count
    );
    Ok((contestant, wall_s))
}
