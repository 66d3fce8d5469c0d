//! The work queue, compared with those of client-go and controller-runtime.

use anyhow::{Result, ensure};

use super::programs::Programs;
use super::results::{CPU_NS_PER_ITEM, ITEMS};
use super::suite::{Bound, Column, Driver, Limit, Section, Suite};
use crate::process::CommandLine;

pub(super) const SUITE: Suite = Suite {
    name: "queue",
    unit: "keys",
    size: 1_000_000,
    rounds: 5,
    base: "client-go",
    sections: SECTIONS,
    bounds: BOUNDS,
    items,
    packages: &["windlass-bench-queue"],
    start: |programs, size| Ok(Box::new(Queues { programs, size })),
};

/// `wN` is the number of workers; `p4` means four producers instead of one.
const SECTIONS: &[Section] = &[
    Section {
        cases: &[
            "backlog",
            "distinct-w1",
            "distinct-w4",
            "distinct-w64",
            "dup-w1",
            "dup-w4",
            "backlog-p4",
            "distinct-w1-p4",
            "distinct-w4-p4",
            "distinct-w64-p4",
            "dup-w1-p4",
            "dup-w4-p4",
        ],
        whos: WHOS,
        at_once: false,
        columns: &[
            Column::new("keys", ITEMS, 1.0, 0),
            Column::new("M/s", "throughput", 1e6, 3).with_ratio(),
            Column::new("CPU ns/key", CPU_NS_PER_ITEM, 1.0, 0).with_ratio(),
            Column::new("wall s", "wall_s", 1.0, 3),
            Column::new("peak MiB", "peak_mb", 1.0, 1).with_ratio(),
        ],
        note: "\
backlog: all keys are added, then drained; distinct, dup: producers and workers run at the same time, dup
adds every key ten times. controller-runtime gets a tenth of the keys, so its memory is not compared.
",
    },
    Section {
        cases: &["delay", "delay-p4"],
        whos: WHOS,
        at_once: false,
        columns: COSTS,
        note: "every key is added with a delay, so only CPU and memory are compared.\n",
    },
    Section {
        cases: &["intern"],
        whos: &["windlass"],
        at_once: false,
        columns: COSTS,
        note: "the cost of interning the keys of `windlass`, which the other cases leave out.\n",
    },
];

/// The Windlass variants: `Arc<str>` keys, interned keys, and interned keys with all features of
/// the queue.
const WHOS: &[&str] =
    &["client-go", "controller-runtime", "windlass-arcstr", "windlass", "windlass-full"];

const COSTS: &[Column] = &[
    Column::new("keys", ITEMS, 1.0, 0),
    Column::new("CPU s", "cpu_s", 1.0, 3),
    Column::new("CPU ns/key", CPU_NS_PER_ITEM, 1.0, 0).with_ratio(),
    Column::new("peak MiB", "peak_mb", 1.0, 1).with_ratio(),
];

const BOUNDS: &[Bound] = &[
    throughput("backlog", "windlass", CLIENT_GO, 3.0),
    throughput("distinct-w1", "windlass", CLIENT_GO, 1.5),
    throughput("dup-w1", "windlass", CLIENT_GO, 1.5),
    throughput("distinct-w1-p4", "windlass", CLIENT_GO, 1.5),
    throughput("dup-w1-p4", "windlass", CLIENT_GO, 1.5),
    throughput("distinct-w4", "windlass", CLIENT_GO, 1.2),
    throughput("dup-w4", "windlass", CLIENT_GO, 1.2),
    throughput("distinct-w4-p4", "windlass", CLIENT_GO, 1.2),
    throughput("dup-w4-p4", "windlass", CLIENT_GO, 1.2),
    throughput("distinct-w1", "windlass-full", CLIENT_GO, 1.0),
    throughput("distinct-w4", "windlass-full", CLIENT_GO, 1.0),
    throughput("distinct-w1", "windlass-full", CONTROLLER_RUNTIME, 5.0),
    throughput("distinct-w4", "windlass-full", CONTROLLER_RUNTIME, 5.0),
    Bound {
        case: "delay",
        who: "windlass",
        metric: CPU_NS_PER_ITEM,
        peers: CLIENT_GO,
        limit: Limit::AtMost(0.4),
    },
];

const CLIENT_GO: &[&str] = &["client-go"];
const CONTROLLER_RUNTIME: &[&str] = &["controller-runtime"];

const fn throughput(
    case: &'static str,
    who: &'static str,
    peers: &'static [&'static str],
    limit: f64,
) -> Bound {
    Bound { case, who, metric: "throughput", peers, limit: Limit::AtLeast(limit) }
}

/// controller-runtime's queue is slow: with all keys it would take most of a run.
const FEWER_KEYS: u32 = 10;

/// The dup cases add a tenth of the keys ten times, even with the fewer keys of controller-runtime.
const KEYS_STEP: u32 = 10 * FEWER_KEYS;

/// Parses the number of keys on the command line.
///
/// # Errors
/// If it is not a multiple of 100.
pub(super) fn keys(text: &str) -> Result<u32> {
    let keys = text.parse()?;
    ensure!(keys > 0 && keys % KEYS_STEP == 0, "it must be a multiple of {KEYS_STEP}");
    Ok(keys)
}

fn items(_case: &str, who: &str, size: u32) -> u32 {
    if who == "controller-runtime" { size / FEWER_KEYS } else { size }
}

/// Runs one process for each run.
#[derive(Debug)]
struct Queues {
    programs: Programs,
    size: u32,
}

impl Driver for Queues {
    fn run(&mut self, case: &str, whos: &[&str]) -> Result<String> {
        let one = |who: &&str| {
            let keys = items(case, who, self.size).to_string();
            let arguments = ["--who", who, "--case", case, "--keys", &keys];
            CommandLine::new(&self.programs.of(who, "bench"), &arguments).capture()
        };
        whos.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_must_suit_every_case() {
        assert_eq!(keys("1000000").expect("the default"), 1_000_000);
        for bad in ["0", "150", "1e6", "-100", "5000000000"] {
            assert!(keys(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn controller_runtime_gets_fewer_keys() {
        assert_eq!(items("backlog", "controller-runtime", 1000), 100);
        assert_eq!(items("backlog", "windlass", 1000), 1000);
    }
}
