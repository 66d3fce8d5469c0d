//! The cases: what is done with contestants, and what is measured of them.
//!
//! Every run begins with a process that starts and reconciles every object, while the machine has nothing else to
//! do. It has settled when it takes no more CPU time, so what it puts off until after the last run counts as well.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::time::Instant;
use windlass_bench_stage::{Contestant, Entrant, Measured, count};

use super::objects::Objects;

/// The time between two changes that one contestant watches: 500 a second. A change takes server, etcd and writer
/// between one and two milliseconds of CPU time, so that at 1,000 a second two cores are full, the pace is not kept,
/// and a latency tells how long the contestant waited for a core.
const PACE: Duration = Duration::from_millis(2);

/// The time between two changes that all contestants watch, which together take as much again: 250 a second.
const PACE_FOR_ALL: Duration = Duration::from_millis(4);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// From the start of the process until every object has run.
    Storm,
    /// Changes at a steady pace, until each has led to a run.
    Changes,
    /// Changes that all contestants watch at the same time, so that whatever delays the server or the machine
    /// delays all of them.
    Latency,
}

impl Case {
    /// Runs the case once, with new processes.
    pub(crate) async fn measure(
        self,
        objects: &mut Objects,
        entrants: &[Entrant],
    ) -> Result<Vec<Measured>> {
        let mut measured = Vec::new();
        match self {
            Self::Storm => {
                for entrant in entrants {
                    measured.push(storm(objects, entrant).await?);
                }
            }
            Self::Changes => {
                for alone in entrants.chunks(1) {
                    measured.extend(changes(objects, alone, PACE).await?);
                }
            }
            Self::Latency => measured = changes(objects, entrants, PACE_FOR_ALL).await?,
        }
        Ok(measured)
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

/// Changes objects, one every `pace`, while these contestants watch.
async fn changes(
    objects: &mut Objects,
    entrants: &[Entrant],
    pace: Duration,
) -> Result<Vec<Measured>> {
    let mut contestants = Vec::new();
    for entrant in entrants {
        contestants.push(reconciled(objects, entrant).await?.0);
    }
    let turn = objects.turns.take(objects.changes);
    objects.server.quiet().await?;
    let mut before = Vec::new();
    for contestant in &mut contestants {
        contestant.expect(turn.len()).await?;
        contestant.settle().await?;
        contestant.forget_peak()?;
        before.push(contestant.cpu()?);
    }

    let began = Instant::now();
    objects.change(&turn, pace).await?;
    let mut seen = Vec::new();
    for (contestant, Entrant { who, .. }) in contestants.iter_mut().zip(entrants) {
        let latencies = contestant.seen().await;
        let latencies = latencies.with_context(|| format!("{who} missed changes"))?;
        seen.push((latencies, began.elapsed().as_secs_f64()));
    }

    let mut measured = Vec::new();
    for ((contestant, before), ([p50_us, p99_us], wall_s)) in
        contestants.into_iter().zip(before).zip(seen)
    {
        contestant.settle().await?;
        let cpu_s = contestant.cpu_since(before)?;
        let peak_mb = contestant.memory()?.peak_mb;
        contestant.end().await?;
        measured.push(vec![
            ("cpu_s", cpu_s),
            ("cpu_us_per_event", cpu_s * 1e6 / count(turn.len())),
            ("wall_s", wall_s),
            ("p50_us", p50_us),
            ("p99_us", p99_us),
            ("peak_mb", peak_mb),
        ]);
    }
    Ok(measured)
}

/// Starts a contestant, and waits until every object has run and it has settled. Returns also the seconds from the
/// start of the process until the last object ran.
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
