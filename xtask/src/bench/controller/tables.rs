//! The tables of the controllers.

use super::super::line::Metric;
use super::super::results::Measure;
use super::super::staged::{Cell, Section};

/// One for each case.
pub(super) const SECTIONS: &[Section] = &[
    Section {
        cases: &["storm"],
        cells: &[
            Cell::Median("CPU s", Metric::CpuS, 1.0, 2),
            Cell::Ratio(Measure::CpuPerKey),
            Cell::Median("wall s", Metric::WallS, 1.0, 2),
            Cell::Ratio(Measure::Wall),
            Cell::Median("peak MiB", Metric::PeakMb, 1.0, 1),
            Cell::Ratio(Measure::Peak),
            Cell::Median("settled MiB", Metric::SettledMb, 1.0, 1),
            Cell::Median("resident MiB", Metric::ResidentMb, 1.0, 1),
            Cell::Ratio(Measure::Resident),
        ],
        note: "\
from the start of the process until every object has run; CPU: until the process rests; settled: its memory
then; resident: after Go's collector ran and Rust's allocator was trimmed.
",
    },
    Section {
        cases: &["changes"],
        cells: &[
            Cell::Median("CPU µs/event", Metric::CpuUsPerEvent, 1.0, 1),
            Cell::Ratio(Measure::CpuPerEvent),
            Cell::Median("p50 ms", Metric::P50Us, 1e3, 2),
            Cell::Median("p99 ms", Metric::P99Us, 1e3, 2),
            Cell::Ratio(Measure::P99),
            Cell::Median("peak MiB", Metric::PeakMb, 1.0, 1),
            Cell::Ratio(Measure::Peak),
            Cell::Median("wall s", Metric::WallS, 1.0, 1),
        ],
        note: "\
{changes} changes, 500 a second; CPU of the contestant alone; latency from sending the change to the run of
the reconciler, with what the server takes for it; peak: from the first change on.
",
    },
    Section {
        cases: &["side-by-side"],
        cells: &[
            Cell::Median("p50 ms", Metric::P50Us, 1e3, 2),
            Cell::Median("p99 ms", Metric::P99Us, 1e3, 2),
            Cell::Ratio(Measure::P99),
            Cell::Median("CPU µs/event", Metric::CpuUsPerEvent, 1.0, 1),
            Cell::Ratio(Measure::CpuPerEvent),
            Cell::Median("wall s", Metric::WallS, 1.0, 1),
        ],
        note: "\
{changes} changes, 500 a second, with all contestants at the same time, each in its process: what delays the
server or the machine delays all of them.
",
    },
];

#[cfg(test)]
mod tests {
    use super::super::super::staged::imagined;
    use super::super::super::table::line;
    use super::super::SUITE;

    #[test]
    fn medians_and_ratios_stand_in_their_columns() {
        let plan = SUITE.plan(1000, &[], &[]).expect("everything");
        let shown = SUITE.medians(&plan, &imagined(&plan, 0.25), 1, 1000);
        assert_eq!(
            line(&shown, &["windlass", "2.00"]),
            "windlass 2.00 0.25 2.00 0.25 2.0 0.25 2.0 2.0 0.25"
        );
        assert_eq!(
            line(&shown, &["windlass", "0.00"]),
            "windlass 2.0 0.25 0.00 0.00 0.25 2.0 0.25 2.0"
        );
        assert!(shown.contains("ratio: to controller-runtime"), "{shown}");
        assert!(shown.contains("\n500 changes, 500 a second"), "{shown}");
    }

    #[test]
    fn targets_show_value_and_verdict() {
        let plan = SUITE.plan(1000, &[], &[]).expect("everything");
        let shown = SUITE.judged(&(SUITE.targets)(), &imagined(&plan, 0.5), 1000);
        assert!(shown.contains("meant for 50,000 objects; this run had 1,000."), "{shown}");
        assert_eq!(
            line(&shown, &["latency", "kube-runtime", "held"]),
            "p99 latency side-by-side windlass kube-runtime <= 1.00 0.50 0.50 to 0.50 held"
        );
        assert!(line(&shown, &["wall", "kube-runtime"]).ends_with("(for information)"), "{shown}");
    }
}
