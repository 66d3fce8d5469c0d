//! The work queue, compared with those of client-go and controller-runtime.

use anyhow::{Result, ensure};

use super::programs::Programs;
use super::results::{CPU_NS_PER_ITEM, ITEMS};
use super::suite::{Bound, Column, Driver, Section, Suite};
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

const SECTIONS: &[Section] = &[
    Section {
        cases: &["paced"],
        whos: WHOS,
        at_once: false,
        columns: &[
            Column::new("keys", ITEMS, 1.0, 0),
            Column::new("CPU µs/key", CPU_NS_PER_ITEM, 1e3, 2).with_ratio(),
            Column::new("p50 µs", "p50_us", 1.0, 0),
            Column::new("p99 µs", "p99_us", 1.0, 0).with_ratio(),
        ],
        note: "\
20,000 adds a second in a batch each millisecond; 80 workers, whose runs wait for 1 ms. CPU: of the
process, with the timers of the runs; latency: from an add to the start of its run.
",
    },
    Section {
        cases: &["storm"],
        whos: WHOS,
        at_once: false,
        columns: &[
            Column::new("keys", ITEMS, 1.0, 0),
            Column::new("overhead µs/key", "overhead_us", 1.0, 2).with_ratio(),
            Column::new("wall s", "wall_s", 1.0, 3).with_ratio(),
        ],
        note: "\
all keys are added at once, while 4 workers compute for 20 µs in each run. overhead: the other CPU time.
",
    },
    Section {
        cases: &["backlog", "dup"],
        whos: WHOS,
        at_once: false,
        columns: &[
            Column::new("adds", ITEMS, 1.0, 0),
            Column::new("CPU ns/add", CPU_NS_PER_ITEM, 1.0, 0).with_ratio(),
            Column::new("wall s", "wall_s", 1.0, 3),
            Column::new("peak MiB", "peak_mb", 1.0, 1).with_ratio(),
        ],
        note: "\
backlog: all keys are added, then drained by one worker; dup: the same, with ten adds of each key.
controller-runtime gets a tenth of the keys here and below, so its memory is not compared.
",
    },
    Section {
        cases: &["delay"],
        whos: WHOS,
        at_once: false,
        columns: COSTS,
        note: "every key is added with a delay, so only CPU and memory are compared.\n",
    },
    Section {
        cases: &["contention-w1", "contention-w4"],
        whos: WHOS,
        at_once: false,
        columns: &[
            Column::new("keys", ITEMS, 1.0, 0),
            Column::new("CPU ns/key", CPU_NS_PER_ITEM, 1.0, 0).with_ratio(),
            Column::new("M/s", "throughput", 1e6, 3).with_ratio(),
        ],
        note: "nothing but adds and empty runs, with one worker or four: who gets the lock.\n",
    },
    Section {
        cases: &["intern"],
        whos: &["windlass"],
        at_once: false,
        columns: COSTS,
        note: "the cost of interning the keys of `windlass`, which the other cases leave out.\n",
    },
];

/// The windlass variants: `Arc<str>` keys, interned keys, and these with priorities, groups, causes
/// and metrics.
const WHOS: &[&str] =
    &["client-go", "controller-runtime", "windlass-arcstr", "windlass", "windlass-full"];

const COSTS: &[Column] = &[
    Column::new("keys", ITEMS, 1.0, 0),
    Column::new("CPU s", "cpu_s", 1.0, 3),
    Column::new("CPU ns/key", CPU_NS_PER_ITEM, 1.0, 0).with_ratio(),
    Column::new("peak MiB", "peak_mb", 1.0, 1).with_ratio(),
];

const BOUNDS: &[Bound] = &[
    at_most("paced", "windlass", CPU_NS_PER_ITEM, CLIENT_GO, 0.9),
    at_most("paced", "windlass", "p99_us", CLIENT_GO, 1.0),
    at_most("paced", "windlass-full", CPU_NS_PER_ITEM, &["windlass"], 1.3),
    at_most("paced", "windlass-full", CPU_NS_PER_ITEM, &["controller-runtime"], 0.6),
    at_most("storm", "windlass", "overhead_us", CLIENT_GO, 1.1),
    at_most("storm", "windlass", "wall_s", CLIENT_GO, 1.05),
    at_most("backlog", "windlass", CPU_NS_PER_ITEM, CLIENT_GO, 0.75),
    at_most("backlog", "windlass", "peak_mb", CLIENT_GO, 0.8),
    at_most("delay", "windlass", CPU_NS_PER_ITEM, CLIENT_GO, 0.4),
];

const CLIENT_GO: &[&str] = &["client-go"];

const fn at_most(
    case: &'static str,
    who: &'static str,
    metric: &'static str,
    peers: &'static [&'static str],
    limit: f64,
) -> Bound {
    Bound { case, who, metric, peers, limit }
}

/// controller-runtime's queue is slow: with all keys it would take most of a run.
const FEWER_KEYS: u32 = 10;

/// With a million keys, the paced case takes five seconds, and the storm half a second.
const PACED_SHARE: u32 = 10;
const STORM_SHARE: u32 = 20;

/// The dup case adds a tenth of the keys ten times, also with the fewer keys of controller-runtime.
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

fn items(case: &str, who: &str, size: u32) -> u32 {
    match (case, who) {
        ("paced", _) => size / PACED_SHARE,
        ("storm", _) => size / STORM_SHARE,
        (_, "controller-runtime") => size / FEWER_KEYS,
        _ => size,
    }
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
        assert_eq!(items("paced", "controller-runtime", 1000), items("paced", "windlass", 1000));
    }
}
