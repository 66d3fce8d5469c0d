//! The controllers, compared with those of controller-runtime and kube-runtime, on a real
//! kube-apiserver. `bench/controller/README.md` describes the cases and the contestants.

use super::stage::Stage;
use super::suite::{Bound, Column, Section, Suite};

pub(super) const SUITE: Suite = Suite {
    name: "controller",
    unit: "objects",
    size: 50_000,
    rounds: 3,
    base: "controller-runtime",
    sections: SECTIONS,
    bounds: BOUNDS,
    items: |_, _, size| size,
    packages: &["windlass-bench-controller"],
    start: |programs, size| Ok(Box::new(Stage::start(programs, size, CHANGES_MAX)?)),
};

/// Twenty seconds of changes.
const CHANGES_MAX: u32 = 10_000;

const PEERS: &[&str] = &["controller-runtime", "kube-runtime"];

const WHOS: &[&str] = &["controller-runtime", "kube-runtime", "windlass"];

/// The contestants, and ours with all metrics of the manager.
const WHOS_MEASURED: &[&str] =
    &["controller-runtime", "kube-runtime", "windlass", "windlass-metrics"];

const SECTIONS: &[Section] = &[
    Section {
        cases: &["storm"],
        whos: WHOS_MEASURED,
        at_once: false,
        columns: &[
            Column::new("CPU s", "cpu_s", 1.0, 2).with_ratio(),
            Column::new("wall s", "wall_s", 1.0, 2).with_ratio(),
            Column::new("peak MiB", "peak_mb", 1.0, 1).with_ratio(),
            Column::new("settled MiB", "settled_mb", 1.0, 1),
            Column::new("resident MiB", "resident_mb", 1.0, 1).with_ratio(),
        ],
        note: "\
from the start of the process until every object was reconciled. CPU: until the process is idle; settled:
its memory then; resident: its memory after Go's collector ran and Rust's allocator was trimmed.
",
    },
    Section {
        cases: &["changes"],
        whos: WHOS_MEASURED,
        at_once: false,
        columns: &[
            Column::new("CPU µs/event", "cpu_us_per_event", 1.0, 1).with_ratio(),
            Column::new("p50 ms", "p50_us", 1e3, 2),
            Column::new("p99 ms", "p99_us", 1e3, 2).with_ratio(),
            Column::new("peak MiB", "peak_mb", 1.0, 1).with_ratio(),
            Column::new("wall s", "wall_s", 1.0, 1),
        ],
        note: "\
up to 10,000 changes, 500 a second. CPU: of the contestant alone; latency: from sending the change to its
reconciliation, including the server; peak: from the first change on.
",
    },
    Section {
        cases: &["side-by-side"],
        whos: WHOS,
        at_once: true,
        columns: &[
            Column::new("p50 ms", "p50_us", 1e3, 2),
            Column::new("p99 ms", "p99_us", 1e3, 2).with_ratio(),
            Column::new("CPU µs/event", "cpu_us_per_event", 1.0, 1).with_ratio(),
            Column::new("wall s", "wall_s", 1.0, 1),
        ],
        note: "\
the same changes with all contestants at the same time: what delays the server or the machine delays all
of them. Only these latencies are comparable.
",
    },
];

const BOUNDS: &[Bound] = &[
    at_most("storm", "cpu_s", 0.7),
    at_most("storm", "peak_mb", 0.6),
    at_most("changes", "cpu_us_per_event", 0.9),
    at_most("side-by-side", "p99_us", 1.1),
    metrics_at_most("storm", "cpu_s", 1.1),
    metrics_at_most("changes", "cpu_us_per_event", 1.1),
];

const fn at_most(case: &'static str, metric: &'static str, limit: f64) -> Bound {
    Bound { case, who: "windlass", metric, peers: PEERS, limit }
}

/// The limit for the cost of metrics, relative to ours without them.
const fn metrics_at_most(case: &'static str, metric: &'static str, limit: f64) -> Bound {
    let peers = &["windlass"];
    Bound { case, who: "windlass-metrics", metric, peers, limit }
}
