//! The tables of medians that a person reads: one for each kind of case.

use super::super::line::{Metric, Who};
use super::super::results::{Measure, Results};
use super::super::rounds;
use super::super::table::{Column, Table, number};
use super::plan::{Entry, Plan};

/// A table of some cases, and what its columns mean.
#[derive(Debug)]
pub(in super::super) struct Section {
    /// The names of its cases.
    pub(in super::super) cases: &'static [&'static str],
    /// What comes after a case and a contestant.
    pub(in super::super) cells: &'static [Cell],
    /// What is below it; `{changes}` in it is how many changes there were.
    pub(in super::super) note: &'static str,
}

/// One column of numbers.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Cell {
    /// The median of a metric, divided by a unit, with so many decimals.
    Median(&'static str, Metric, f64, usize),
    /// How it stands to the one that ratios are to.
    Ratio(Measure),
    /// The median of a measure that needs nobody else.
    Alone(&'static str, Measure),
}

/// The medians of everything that was run, with the ratios to `base`, and what they mean.
pub(super) fn medians(
    sections: &[Section],
    plan: &Plan,
    results: &Results,
    (base, rounds, changes): (Who, u32, &str),
) -> String {
    let tables: String = sections
        .iter()
        .filter_map(|section| {
            let table = table(section, plan, results, base)?;
            Some(format!("{table}{}\n", section.note.replace("{changes}", changes)))
        })
        .collect();
    let times = rounds::spoken(rounds);
    format!(
        "{tables}Medians of {times}; every value is from a process of its own.
ratio: to {base}, of what stands left of it, taken within each round; the median of those counts.
"
    )
}

/// The runs of a section's cases, or nothing if there are none.
fn table(section: &Section, plan: &Plan, results: &Results, base: Who) -> Option<Table> {
    let mut columns = vec![Column::Left("case"), Column::Left("who")];
    columns.extend(section.cells.iter().map(|cell| Column::Right(cell.heading())));
    let mut table = Table::new(&columns);
    let mut case = None;
    for entry in plan.entries().filter(|entry| section.cases.contains(&entry.case.name)) {
        let is_first = case.replace(entry.case.name) != Some(entry.case.name);
        if is_first {
            table.gap();
        }
        let name = if is_first { entry.case.name } else { "" };
        let mut cells = vec![name.to_owned(), entry.who.to_string()];
        cells.extend(section.cells.iter().map(|cell| cell.shown(entry, results, base)));
        table.row(cells);
    }
    case.map(|_| table)
}

impl Cell {
    fn heading(&self) -> &'static str {
        match self {
            Self::Median(heading, ..) | Self::Alone(heading, _) => heading,
            Self::Ratio(_) => "ratio",
        }
    }

    fn shown(&self, Entry { case, who }: Entry, results: &Results, base: Who) -> String {
        let case = case.name;
        match *self {
            Self::Median(_, metric, unit, decimals) => {
                let median = results.series(case, who).and_then(|series| series.median(metric));
                number(median.map(|value| value / unit), decimals)
            }
            Self::Ratio(measure) => {
                number(results.ratio(measure, case, who, base).map(|ratio| ratio.median), 2)
            }
            Self::Alone(_, measure) => {
                number(results.spread(measure, case, who).map(|value| value.median), 2)
            }
        }
    }
}

/// One round in which Windlass needs `share` of what the others need.
#[cfg(test)]
pub(in super::super) fn imagined(plan: &Plan, share: f64) -> Results {
    let mut results = Results::default();
    for Entry { case, who } in plan.entries() {
        let value = if who == Who::Windlass { 8.0 * share } else { 8.0 };
        let measured = case.metrics.iter().map(|&metric| (metric, value)).collect();
        results.add(case.name, who, 1000, measured);
    }
    results
}
