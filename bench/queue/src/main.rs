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

use anyhow::Result;
use clap::{Parser, ValueEnum};
use serde_json::json;

use crate::case::{Case, Kind};
use crate::keys::{arc_str_keys, interned_keys};
use crate::meter::Meter;
use crate::run::{full, plain, run};

/// Runs one case of the queue benchmark once.
#[derive(Parser)]
struct Options {
    /// The queue to measure.
    #[arg(long)]
    who: Who,
    /// The case: backlog, distinct-wW, dup-wW or delay, each with an optional -pP; or intern.
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
    /// Interned keys; priorities, fairness over a hundred groups, and a cause with every add.
    WindlassFull,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let case: Case = options.case.parse()?;
    let count = case.distinct_keys(options.keys)?;
    let meter = match options.who {
        _ if case.kind == Kind::Intern => {
            let meter = Meter::start()?;
            let keys = interned_keys(count);
            let measured = meter.stop()?;
            drop(keys);
            measured
        }
        Who::Windlass => run(&case, &interned_keys(count), plain())?,
        Who::WindlassArcstr => run(&case, &arc_str_keys(count), plain())?,
        Who::WindlassFull => run(&case, &interned_keys(count), full()?)?,
    };
    let who = options.who.to_possible_value().map(|value| value.get_name().to_owned());
    #[expect(clippy::cast_precision_loss, reason = "key counts are far below 2^52")]
    let keys = options.keys as f64;
    for (metric, value) in [
        ("throughput", keys / meter.wall_s),
        ("cpu_s", meter.cpu_s),
        ("wall_s", meter.wall_s),
        ("peak_mb", meter.peak_mb),
    ] {
        let case = &options.case;
        println!(
            "{}",
            json!({"suite": "queue", "case": case, "who": who, "metric": metric, "value": value})
        );
    }
    Ok(())
}
