//! The tables that a person reads: one for each kind of case, and how the targets stand.

use super::super::line::{Metric, Who};
use super::super::results::{Measure, Results};
use super::super::table::{Column, Table, grouped, number};
use super::super::targets::{self, Target};
use super::plan::{Case, Plan, Run};
use super::targets::PODS;

/// The cells of a run that come after its case and contestant.
type Row = fn(Run, &Results) -> Vec<String>;

/// The medians of everything that was run, with the ratios to client-go, and what they mean.
pub(super) fn medians(plan: &Plan, results: &Results, rounds: u32) -> String {
    let sync = table(plan, results, &[Case::Sync, Case::SyncRead], sync_table(), sync_row);
    let burst = table(plan, results, &[Case::Burst], burst_table(), burst_row);
    let relist = table(plan, results, &[Case::Relist], relist_table(), relist_row);
    let updates = grouped(plan.updates());
    let notes = [
        (sync, "a first list of all pods until the handler has seen them; read: it reads each. CPU: until the process\n\
         rests; settled: its memory then; resident: after Go's collector ran and Rust's allocator was trimmed.\n"
            .to_owned()),
        (burst, format!("{updates} updates, 200 a second; CPU of the contestant alone; latency from sending the update to the\n\
         handler, with what the server takes for it.\n")),
        (relist, "the watch is cut, 5 % of the pods change, and the server no longer knows the past; resident: before,\n\
         as above; peak: from then on.\n".to_owned()),
    ];
    let tables: String = notes
        .into_iter()
        .filter_map(|(table, note)| table.map(|table| format!("{table}{note}\n")))
        .collect();
    let times = if rounds == 1 { "one round" } else { &format!("{rounds} rounds") };
    format!(
        "{tables}Medians of {times}; every value is from a process of its own, and the contestants take turns.
ratio: to client-go, of what stands left of it, taken within each round; the median of those counts.
"
    )
}

/// The runs of these cases, or nothing if there are none.
fn table(
    plan: &Plan,
    results: &Results,
    cases: &[Case],
    mut table: Table,
    row: Row,
) -> Option<Table> {
    let mut case = None;
    for run in plan.runs().filter(|run| cases.contains(&run.case)) {
        let is_first = case.replace(run.case) != Some(run.case);
        if is_first {
            table.gap();
        }
        let name = if is_first { run.case.name() } else { "" };
        let mut cells = vec![name.to_owned(), run.who.to_string()];
        cells.extend(row(run, results));
        table.row(cells);
    }
    case.map(|_| table)
}

fn sync_table() -> Table {
    Table::new(&[
        Column::Left("case"),
        Column::Left("who"),
        Column::Right("CPU s"),
        Column::Right("ratio"),
        Column::Right("wall s"),
        Column::Right("ratio"),
        Column::Right("peak MiB"),
        Column::Right("ratio"),
        Column::Right("settled MiB"),
        Column::Right("resident MiB"),
        Column::Right("ratio"),
        Column::Right("bytes/pod"),
    ])
}

fn sync_row(run: Run, results: &Results) -> Vec<String> {
    let median = |metric| median(run, results, metric);
    vec![
        number(median(Metric::CpuS), 2),
        ratio(run, results, Measure::CpuPerKey),
        number(median(Metric::WallS), 2),
        ratio(run, results, Measure::Wall),
        number(median(Metric::PeakMb), 1),
        ratio(run, results, Measure::Peak),
        number(median(Metric::SettledMb), 1),
        number(median(Metric::ResidentMb), 1),
        ratio(run, results, Measure::Resident),
        number(median(Metric::BytesPerObject), 0),
    ]
}

fn burst_table() -> Table {
    Table::new(&[
        Column::Left("case"),
        Column::Left("who"),
        Column::Right("CPU µs/event"),
        Column::Right("ratio"),
        Column::Right("p50 ms"),
        Column::Right("p99 ms"),
        Column::Right("peak MiB"),
    ])
}

fn burst_row(run: Run, results: &Results) -> Vec<String> {
    let median = |metric| median(run, results, metric);
    vec![
        number(median(Metric::CpuUsPerEvent), 1),
        ratio(run, results, Measure::CpuPerEvent),
        number(median(Metric::P50Us).map(|us| us / 1e3), 2),
        number(median(Metric::P99Us).map(|us| us / 1e3), 2),
        number(median(Metric::PeakMb), 1),
    ]
}

fn relist_table() -> Table {
    Table::new(&[
        Column::Left("case"),
        Column::Left("who"),
        Column::Right("CPU s"),
        Column::Right("ratio"),
        Column::Right("resident MiB"),
        Column::Right("peak MiB"),
        Column::Right("ratio"),
        Column::Right("peak/resident"),
    ])
}

fn relist_row(run: Run, results: &Results) -> Vec<String> {
    let median = |metric| median(run, results, metric);
    let growth = results.spread(Measure::PeakToResident, run.case.name(), run.who);
    vec![
        number(median(Metric::CpuS), 2),
        ratio(run, results, Measure::CpuPerKey),
        number(median(Metric::ResidentMb), 1),
        number(median(Metric::PeakMb), 1),
        ratio(run, results, Measure::Peak),
        number(growth.map(|growth| growth.median), 2),
    ]
}

fn median(run: Run, results: &Results, metric: Metric) -> Option<f64> {
    results.series(run.case.name(), run.who)?.median(metric)
}

fn ratio(run: Run, results: &Results, measure: Measure) -> String {
    let ratio = results.ratio(measure, run.case.name(), run.who, Who::ClientGo);
    number(ratio.map(|ratio| ratio.median), 2)
}

/// How the targets stand that a run with `pods` pods measured.
pub(super) fn targets(all: &[Target], results: &Results, pods: u32) -> String {
    targets::explained(all, results, (pods != PODS).then_some((PODS, pods, "pods")))
}

#[cfg(test)]
mod tests {
    use super::super::super::line::Measured;
    use super::super::targets::all;
    use super::*;

    /// One round in which Windlass needs `share` of what the others need.
    fn results(plan: &Plan, share: f64) -> Results {
        let mut results = Results::default();
        for run in plan.runs() {
            let value = if run.who == Who::Windlass { 8.0 * share } else { 8.0 };
            let measured: Measured =
                run.case.metrics().iter().map(|&metric| (metric, value)).collect();
            results.add(run.case.name(), run.who, 1000, measured);
        }
        results
    }

    fn line(text: &str, words: &[&str]) -> String {
        let has_all =
            |line: &&str| words.iter().all(|word| line.split_whitespace().any(|w| w == *word));
        let line = text.lines().find(has_all).expect("the line must be there");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn medians_and_ratios_stand_in_their_columns() {
        let whos = [Who::ClientGo, Who::Windlass];
        let shown = |case: &str| {
            let plan = Plan::new(1000, &[case.to_owned()], &whos).expect("a case");
            medians(&plan, &results(&plan, 0.25), 1)
        };
        assert_eq!(
            line(&shown("sync"), &["windlass"]),
            "windlass 2.00 0.25 2.00 0.25 2.0 0.25 2.0 2.0 0.25 2"
        );
        assert_eq!(line(&shown("burst"), &["windlass"]), "windlass 2.0 0.25 0.00 0.00 2.0");
        assert_eq!(line(&shown("relist"), &["windlass"]), "windlass 2.00 0.25 2.0 2.0 0.25 1.00");
        assert!(!shown("relist").contains("settled"), "cases that were not run must not be shown");
    }

    #[test]
    fn targets_show_value_and_verdict() {
        let plan = Plan::new(1000, &[], &[]).expect("everything");
        let shown = targets(&all(), &results(&plan, 0.5), 1000);
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
        let plan = Plan::new(1000, &["sync".to_owned()], &[Who::ClientGo]).expect("a case");
        let shown = targets(&all(), &results(&plan, 1.0), 1000);
        assert_eq!(shown, "No target is about what was measured.\n");
    }
}
