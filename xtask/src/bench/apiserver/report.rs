//! The tables that a person reads: one for each group of cases, and how the targets stand.

use super::super::line::{Metric, Who};
use super::super::results::{Measure, Results, Series};
use super::super::rounds;
use super::super::table::{Column, Table, grouped, number};
use super::super::targets::{self, Target};
use super::plan::{Group, Plan, Run};
use super::targets::OBJECTS;

/// The cells of a run that come after its case and server.
type Row = fn(&Run, &Results) -> Vec<String>;

/// The medians of everything that was run, with the ratios to the real server, and what they mean.
pub(super) fn medians(plan: &Plan, results: &Results, rounds: u32) -> String {
    let tables = Group::ALL.into_iter().map(|group| group_table(group, &plan.of(group), results));
    let text: String = tables.collect();
    let times = rounds::spoken(rounds);
    format!(
        "{text}Medians of {times}; every value is from a process of its own, and the servers take turns.
real: kube-apiserver with etcd, over TLS as it comes; embedded: the program `windlass-apiserver`.
  As the test kit starts it, the real one collects garbage late (GOGC=400): less CPU, more memory.
ratio: to the real server, of what stands left of it, taken within each round; the median of those counts.
"
    )
}

/// The table of a group with its note, or nothing if the group was not run.
fn group_table(group: Group, runs: &[Run], results: &Results) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let (mut table, row): (Table, Row) = match group {
        Group::Start => (start_table(), start_row),
        Group::List => (list_table(), list_row),
        Group::Fanout => (fanout_table(), fanout_row),
    };
    let mut case = "";
    for run in runs {
        let is_first = run.case != case;
        case = run.case;
        if is_first {
            table.gap();
        }
        let mut cells = vec![if is_first { run.case } else { "" }.to_owned(), run.who.to_string()];
        cells.extend(row(run, results));
        table.row(cells);
    }
    format!("{table}{}\n", note(group))
}

fn start_table() -> Table {
    Table::new(&[
        Column::Left("case"),
        Column::Left("who"),
        Column::Right("first ms"),
        Column::Right("median ms"),
        Column::Right("ratio"),
        Column::Right("longest ms"),
    ])
}

fn start_row(run: &Run, results: &Results) -> Vec<String> {
    let median = |metric| median(run, results, metric);
    vec![
        number(median(Metric::FirstMs), 1),
        number(median(Metric::MedianMs), 2),
        ratio(run, results, Measure::MedianStart, 4),
        number(median(Metric::MaxMs), 1),
    ]
}

fn list_table() -> Table {
    Table::new(&[
        Column::Left("case"),
        Column::Left("who"),
        Column::Right("objects"),
        Column::Right("wall s"),
        Column::Right("ratio"),
        Column::Right("client CPU s"),
        Column::Right("CPU s"),
        Column::Right("ratio"),
        Column::Right("with etcd"),
        Column::Right("peak MiB"),
        Column::Right("ratio"),
        Column::Right("with etcd"),
    ])
}

fn list_row(run: &Run, results: &Results) -> Vec<String> {
    let median = |metric| median(run, results, metric);
    vec![
        grouped(run.items),
        number(median(Metric::WallS), 3),
        ratio(run, results, Measure::Wall, 2),
        number(median(Metric::ClientCpuS), 3),
        number(median(Metric::CpuS), 3),
        ratio(run, results, Measure::CpuPerKey, 3),
        number(median(Metric::CpuAllS), 3),
        number(median(Metric::PeakMb), 1),
        ratio(run, results, Measure::Peak, 2),
        number(median(Metric::PeakAllMb), 1),
    ]
}

fn fanout_table() -> Table {
    Table::new(&[
        Column::Left("case"),
        Column::Left("who"),
        Column::Right("events"),
        Column::Right("wall s"),
        Column::Right("ratio"),
        Column::Right("lag ms"),
        Column::Right("client CPU s"),
        Column::Right("CPU s"),
        Column::Right("CPU µs/event"),
        Column::Right("ratio"),
        Column::Right("with etcd s"),
        Column::Right("peak MiB"),
        Column::Right("ratio"),
    ])
}

fn fanout_row(run: &Run, results: &Results) -> Vec<String> {
    let median = |metric| median(run, results, metric);
    let per_event = results.series(run.case, run.who).and_then(Series::cpu_ns_per_key);
    vec![
        grouped(run.items),
        number(median(Metric::WallS), 3),
        ratio(run, results, Measure::Wall, 2),
        number(median(Metric::LagS).map(|seconds| seconds * 1e3), 1),
        number(median(Metric::ClientCpuS), 3),
        number(median(Metric::CpuS), 3),
        number(per_event.map(|nanoseconds| nanoseconds / 1e3), 2),
        ratio(run, results, Measure::CpuPerKey, 2),
        number(median(Metric::CpuAllS), 3),
        number(median(Metric::PeakMb), 1),
        ratio(run, results, Measure::Peak, 2),
    ]
}

fn median(run: &Run, results: &Results, metric: Metric) -> Option<f64> {
    results.series(run.case, run.who)?.median(metric)
}

fn ratio(run: &Run, results: &Results, measure: Measure, decimals: usize) -> String {
    let ratio = results.ratio(measure, run.case, run.who, Who::Real);
    number(ratio.map(|ratio| ratio.median), decimals)
}

fn note(group: Group) -> &'static str {
    match group {
        Group::Start => {
            "from nothing to the first answered list; first: the first of its process.\n"
        }
        Group::List => {
            "all ConfigMaps through kube, at once and in pages of 500; wall: with the client's decoding; CPU and\n\
             peak: of the API server's process alone, while it answers (what it holds is in the peak).\n"
        }
        Group::Fanout => {
            "changes by 4 writers, each delivered to every watcher; wall: from the first write until all have seen\n\
             the last; lag: from the last write on; CPU: of the API server's process alone, with the writing.\n"
        }
    }
}

/// How the targets stand that a run with `objects` objects measured.
pub(super) fn targets(all: &[Target], results: &Results, objects: u32) -> String {
    let is_sized = all.iter().any(|target| target.case == "list");
    let other_size = is_sized && objects != OBJECTS;
    targets::explained(all, results, other_size.then_some((OBJECTS, objects, "objects")))
}

#[cfg(test)]
mod tests {
    use super::super::super::line::Measured;
    use super::super::super::table::line;
    use super::super::targets::all;
    use super::*;

    /// One round in which the embedded server takes `share` of what the real one takes.
    fn results(plan: &Plan, share: f64) -> Results {
        let mut results = Results::default();
        for run in plan.runs() {
            let value = if run.who == Who::Real { 8.0 } else { 8.0 * share };
            let measured: Measured =
                run.part.metrics().iter().map(|&metric| (metric, value)).collect();
            results.add(run.case, run.who, run.items, measured);
        }
        results
    }

    #[test]
    fn medians_and_ratios_stand_in_their_columns() {
        let plan = Plan::new(1000, &[]).expect("everything");
        let shown = medians(&plan, &results(&plan, 0.25), 1);
        assert_eq!(line(&shown, &["in-process"]), "in-process 2.0 2.00 0.2500 2.0");
        assert_eq!(
            line(&shown, &["embedded", "1,000", "0.250"]),
            "embedded 1,000 2.000 0.25 2.000 2.000 0.250 2.000 2.0 0.25 2.0"
        );
        assert_eq!(
            line(&shown, &["embedded", "100,000"]),
            "embedded 100,000 2.000 0.25 2000.0 2.000 2.000 20.00 0.25 2.000 2.0 0.25"
        );
    }

    #[test]
    fn groups_that_were_not_run_are_not_shown() {
        let plan = Plan::new(1000, &["start".to_owned()]).expect("a case");
        let shown = medians(&plan, &results(&plan, 0.5), 2);
        assert!(!shown.contains("fanout") && !shown.contains("objects"), "{shown}");
        assert!(shown.contains("Medians of 2 rounds"), "{shown}");
    }

    #[test]
    fn targets_show_value_and_verdict() {
        let plan = Plan::new(1000, &[]).expect("everything");
        let shown = targets(&all(), &results(&plan, 1.5), 1000);
        assert!(shown.contains("meant for 100,000 objects; this run had 1,000."), "{shown}");
        assert!(
            line(&shown, &["longest"]).ends_with("- <= 20.00 12.00 12.00 to 12.00 held"),
            "{shown}"
        );
        assert_eq!(
            line(&shown, &["CPU", "list"]),
            "CPU list embedded real <= 1.00 1.50 1.50 to 1.50 missed by 50.0 %"
        );
        assert!(line(&shown, &["CPU", "fanout-w100"]).ends_with("(for information)"), "{shown}");
    }
}
