//! The informers, compared with those of client-go, controller-runtime and kube-runtime, on a real
//! kube-apiserver. `bench/informer/README.md` describes the cases and the contestants.

use super::results::PEAK_TO_RESIDENT;
use super::stage::Stage;
use super::suite::{Bound, Column, Section, Suite};

pub(super) const SUITE: Suite = Suite {
    name: "informer",
    unit: "pods",
    size: 50_000,
    rounds: 3,
    base: "client-go",
    sections: SECTIONS,
    bounds: BOUNDS,
    items: |_, _, size| size,
    packages: &["windlass-bench-informer"],
    start: |programs, size| Ok(Box::new(Stage::start(programs, size, CHANGES_MAX)?)),
};

/// Enough for a 99th percentile.
const CHANGES_MAX: u32 = 2000;

const WHOS: &[&str] = &[
    "client-go",
    "controller-runtime",
    "kube-runtime",
    "windlass",
    "windlass-resident",
    "windlass-slim",
];

const SECTIONS: &[Section] = &[
    Section {
        cases: &["sync", "sync-read"],
        whos: WHOS,
        at_once: false,
        columns: &[
            Column::new("CPU s", "cpu_s", 1.0, 2).with_ratio(),
            Column::new("wall s", "wall_s", 1.0, 2).with_ratio(),
            Column::new("peak MiB", "peak_mb", 1.0, 1).with_ratio(),
            Column::new("settled MiB", "settled_mb", 1.0, 1),
            Column::new("resident MiB", "resident_mb", 1.0, 1).with_ratio(),
            Column::new("bytes/pod", "bytes_per_object", 1.0, 0),
        ],
        note: "\
the first list of all pods, until the handler has seen them; sync-read: the handler reads each pod.
CPU: until the process is idle; settled: its memory then; resident: its memory after Go's collector ran
and Rust's allocator was trimmed.
",
    },
    Section {
        cases: &["burst"],
        whos: WHOS,
        at_once: false,
        columns: &[
            Column::new("CPU µs/event", "cpu_us_per_event", 1.0, 1).with_ratio(),
            Column::new("p50 ms", "p50_us", 1e3, 2),
            Column::new("p99 ms", "p99_us", 1e3, 2),
            Column::new("peak MiB", "peak_mb", 1.0, 1),
        ],
        note: "\
up to 2,000 updates, 200 a second. CPU: of the contestant alone; latency: from sending the update to the
handler, including the server.
",
    },
    Section {
        cases: &["relist"],
        whos: WHOS,
        at_once: false,
        columns: &[
            Column::new("CPU s", "cpu_s", 1.0, 2).with_ratio(),
            Column::new("resident MiB", "resident_mb", 1.0, 1),
            Column::new("peak MiB", "peak_mb", 1.0, 1).with_ratio(),
            Column::new("peak/resident", PEAK_TO_RESIDENT, 1.0, 2),
        ],
        note: "\
the watch is cut, 5 % of the pods change, and the server cannot resume the watch. resident: before that;
peak: after it.
",
    },
];

const PEERS: &[&str] = &["client-go", "controller-runtime", "kube-runtime"];

const BOUNDS: &[Bound] = &[
    at_most("sync", "cpu_s", &["client-go"], 0.45),
    at_most("sync", "resident_mb", &["client-go"], 0.5),
    at_most("sync", PEAK_TO_RESIDENT, &[], 1.2),
    at_most("burst", "cpu_us_per_event", PEERS, 0.9),
    at_most("relist", PEAK_TO_RESIDENT, &[], 1.2),
];

const fn at_most(
    case: &'static str,
    metric: &'static str,
    peers: &'static [&'static str],
    limit: f64,
) -> Bound {
    Bound { case, who: "windlass", metric, peers, limit }
}
