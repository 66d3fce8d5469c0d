//! One case of the queue benchmark, run once.
//!
//! A process runs one case, so that CPU time and peak memory belong to it alone, and prints one
//! JSON line for each metric. `bench/queue-go` is its counterpart for the Go queues: the cases are
//! described there and here by the same words, and `cargo xtask bench queue` runs both and
//! compares.

mod case;
mod keys;
mod meter;
mod run;

use std::time::Duration;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use serde_json::json;

use crate::case::Case;
use crate::keys::{arc_str_keys, interned_keys};
use crate::meter::Meter;
use crate::run::{Outcome, full, plain, run};

/// Runs one case of the queue benchmark once.
#[derive(Parser)]
struct Options {
    /// The queue to measure.
    #[arg(long)]
    who: Who,
    /// The case: paced, storm, backlog, dup, delay, contention-wW or intern.
    #[arg(long)]
    case: String,
    /// The number of keys, or of adds in the dup case.
    #[arg(long)]
    keys: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Who {
    /// Interned keys, four bytes each.
    Windlass,
    /// `Arc<str>` keys.
    WindlassArcstr,
    /// Interned keys; priorities, fairness over a hundred groups, a cause with every add, metrics.
    WindlassFull,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let case: Case = options.case.parse()?;
    let count = case.distinct_keys(options.keys)?;
    let outcome = match options.who {
        _ if case == Case::Intern => intern(count)?,
        Who::Windlass => run(case, &interned_keys(count), plain())?,
        Who::WindlassArcstr => run(case, &arc_str_keys(count), plain())?,
        Who::WindlassFull => run(case, &interned_keys(count), full()?)?,
    };
    let who = options.who.to_possible_value().map(|value| value.get_name().to_owned());
    for (metric, value) in metrics(&outcome, options.keys) {
        let case = &options.case;
        println!(
            "{}",
            json!({"suite": "queue", "case": case, "who": who, "metric": metric, "value": value})
        );
    }
    Ok(())
}

fn intern(count: usize) -> Result<Outcome> {
    let meter = Meter::start()?;
    let keys = interned_keys(count);
    let measured = meter.stop()?;
    drop(keys);
    Ok(Outcome { measured, latencies: Vec::new(), work: Duration::ZERO })
}

#[expect(clippy::cast_precision_loss, reason = "keys and nanoseconds are far below 2^52")]
fn metrics(outcome: &Outcome, keys: usize) -> Vec<(&'static str, f64)> {
    let Outcome { measured, latencies, work } = outcome;
    let overhead_s = (measured.cpu_s - work.as_secs_f64()).max(0.0);
    let mut metrics = vec![
        ("throughput", keys as f64 / measured.wall_s),
        ("cpu_s", measured.cpu_s),
        ("wall_s", measured.wall_s),
        ("peak_mb", measured.peak_mb),
        ("overhead_us", overhead_s * 1e6 / keys as f64),
    ];
    if !latencies.is_empty() {
        let percentile = |percent| latencies[(latencies.len() - 1) * percent / 100] as f64 / 1e3;
        metrics.extend([("p50_us", percentile(50)), ("p99_us", percentile(99))]);
    }
    metrics
}
