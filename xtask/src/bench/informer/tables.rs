//! The tables of the informers.

use super::super::line::Metric;
use super::super::results::Measure;
use super::super::staged::{Cell, Section};

/// One for each kind of case.
pub(super) const SECTIONS: &[Section] = &[
    Section {
        cases: &["sync", "sync-read"],
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
            Cell::Median("bytes/pod", Metric::BytesPerObject, 1.0, 0),
        ],
        note: "\
a first list of all pods until the handler has seen them; read: it reads each. CPU: until the process
rests; settled: its memory then; resident: after Go's collector ran and Rust's allocator was trimmed.
",
    },
    Section {
        cases: &["burst"],
        cells: &[
            Cell::Median("CPU µs/event", Metric::CpuUsPerEvent, 1.0, 1),
            Cell::Ratio(Measure::CpuPerEvent),
            Cell::Median("p50 ms", Metric::P50Us, 1e3, 2),
            Cell::Median("p99 ms", Metric::P99Us, 1e3, 2),
            Cell::Median("peak MiB", Metric::PeakMb, 1.0, 1),
        ],
        note: "\
{changes} updates, 200 a second; CPU of the contestant alone; latency from sending the update to the
handler, with what the server takes for it.
",
    },
    Section {
        cases: &["relist"],
        cells: &[
            Cell::Median("CPU s", Metric::CpuS, 1.0, 2),
            Cell::Ratio(Measure::CpuPerKey),
            Cell::Median("resident MiB", Metric::ResidentMb, 1.0, 1),
            Cell::Median("peak MiB", Metric::PeakMb, 1.0, 1),
            Cell::Ratio(Measure::Peak),
            Cell::Alone("peak/resident", Measure::PeakToResident),
        ],
        note: "\
the watch is cut, 5 % of the pods change, and the server no longer knows the past; resident: before,
as above; peak: from then on.
",
    },
];

#[cfg(test)]
mod tests {
    use super::super::super::staged::imagined;
    use super::super::super::table::line;
    use super::super::SUITE;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn medians_and_ratios_stand_in_their_columns() {
        let shown = |case: &str| {
            let plan = SUITE.plan(1000, &names(&[case]), &names(&["client-go", "windlass"]));
            let plan = plan.expect("a case");
            SUITE.medians(&plan, &imagined(&plan, 0.25), 1, 1000)
        };
        assert_eq!(
            line(&shown("sync"), &["windlass"]),
            "windlass 2.00 0.25 2.00 0.25 2.0 0.25 2.0 2.0 0.25 2"
        );
        assert_eq!(line(&shown("burst"), &["windlass"]), "windlass 2.0 0.25 0.00 0.00 2.0");
        assert!(shown("burst").contains("\n500 updates, 200 a second"));
        assert_eq!(line(&shown("relist"), &["windlass"]), "windlass 2.00 0.25 2.0 2.0 0.25 1.00");
        assert!(!shown("relist").contains("settled"), "cases that were not run must not be shown");
    }

    #[test]
    fn targets_show_value_and_verdict() {
        let plan = SUITE.plan(1000, &[], &[]).expect("everything");
        let shown = SUITE.judged(&(SUITE.targets)(), &imagined(&plan, 0.5), 1000);
        assert!(shown.contains("meant for 50,000 pods; this run had 1,000."), "{shown}");
        assert_eq!(
            line(&shown, &["CPU", "sync"]),
            "CPU sync windlass client-go <= 0.45 0.50 0.50 to 0.50 missed by 11.1 %"
        );
        assert!(
            line(&shown, &["relist", "windlass"]).ends_with("- <= 1.20 1.00 1.00 to 1.00 held")
        );
        assert!(line(&shown, &["relist", "kube-runtime"]).ends_with("(for information)"));
    }

    #[test]
    fn nothing_is_said_of_targets_that_were_not_measured() {
        let plan = SUITE.plan(1000, &names(&["sync"]), &names(&["client-go"])).expect("a case");
        let shown = SUITE.judged(&(SUITE.targets)(), &imagined(&plan, 1.0), 1000);
        assert_eq!(shown, "No target is about what was measured.\n");
    }

    #[test]
    fn targets_of_others_are_not_measured() {
        let count = |parts: &[&str], whos: &[&str]| {
            let plan = SUITE.plan(1000, &names(parts), &names(whos)).expect("a plan");
            (SUITE.targets)().iter().filter(|target| plan.measures(target)).count()
        };
        assert_eq!(count(&[], &[]), 11);
        assert_eq!(count(&["relist"], &["windlass"]), 1);
        assert_eq!(count(&["burst"], &["windlass"]), 0);
    }
}
