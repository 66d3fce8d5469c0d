//! The printed tables: the medians of every section, and the bounds.

use super::results::{Results, Spread};
use super::suite::{Bound, Chosen, Suite};
use super::table::{Align, Table, grouped, number};

/// Returns the medians of a section, with the ratios to the base of the suite.
pub(super) fn medians(suite: &Suite, chosen: &Chosen, results: &Results) -> String {
    let section = chosen.section;
    let mut headings = vec![(Align::Left, "case"), (Align::Left, "who")];
    for column in section.columns {
        headings.push((Align::Right, column.heading));
        if column.has_ratio {
            headings.push((Align::Right, "ratio"));
        }
    }
    let mut table = Table::new(&headings);
    for case in &chosen.cases {
        table.gap();
        for who in &chosen.whos {
            let mut cells = vec![(*case).to_owned(), (*who).to_owned()];
            for column in section.columns {
                let values = results.values(case, who, column.metric);
                let median = values.map(|values| values.median / column.unit);
                cells.push(number(median, column.decimals));
                if column.has_ratio {
                    let ratios = results.ratios(case, who, suite.base, column.metric);
                    cells.push(number(ratios.map(|ratios| ratios.median), 3));
                }
            }
            table.row(cells);
        }
    }
    format!("{table}{}", section.note)
}

/// Explains how to read the medians.
pub(super) fn explanation(suite: &Suite, rounds: u32) -> String {
    format!(
        "Medians of {rounds} rounds; every value is from a process of its own.\n\
         ratio: the column to its left compared with {}, within each round; the median counts.\n",
        suite.base
    )
}

/// Returns the measured bounds, each with its value and by how much it was missed.
pub(super) fn bounds(suite: &Suite, results: &Results, size: u32) -> String {
    let headings = ["case", "who", "metric", "compared with"].map(|text| (Align::Left, text));
    let numbers = ["bound", "is", "rounds"].map(|text| (Align::Right, text));
    let mut table = Table::new(&[&headings[..], &numbers, &[(Align::Left, "")]].concat());
    for bound in suite.bounds {
        let Some((peer, value)) = bound.measured(results) else { continue };
        table.row(vec![
            bound.case.to_owned(),
            bound.who.to_owned(),
            bound.metric.to_owned(),
            peer.unwrap_or("-").to_owned(),
            format!("<= {:.2}", bound.limit),
            number(Some(value.median), 2),
            format!("{:.2} to {:.2}", value.lowest, value.highest),
            match missed_by(bound.limit, value.median) {
                None => "held".to_owned(),
                Some(share) => format!("missed by {:.1} %", share * 100.0),
            },
        ]);
    }
    let note = if size == suite.size {
        String::new()
    } else {
        let (meant, size) = (grouped(suite.size), grouped(size));
        format!("The bounds are meant for {meant} {0}; this run had {size}.\n", suite.unit)
    };
    format!("{table}{note}")
}

/// Returns how many bounds were held and how many were missed. The rest were not measured.
pub(super) fn score(suite: &Suite, results: &Results) -> (usize, usize) {
    let measured = suite.bounds.iter().filter_map(|bound| Some((bound, bound.measured(results)?)));
    let (held, missed): (Vec<_>, Vec<_>) =
        measured.partition(|(bound, (_, value))| missed_by(bound.limit, value.median).is_none());
    (held.len(), missed.len())
}

impl Bound {
    /// Returns the value to judge, and the best peer if it is a ratio. `None` if it was not
    /// measured.
    fn measured(&self, results: &Results) -> Option<(Option<&'static str>, Spread)> {
        if self.peers.is_empty() {
            return Some((None, results.values(self.case, self.who, self.metric)?));
        }
        let ratio = |peer| results.ratios(self.case, self.who, peer, self.metric);
        let ratios = self.peers.iter().filter_map(|&peer| Some((Some(peer), ratio(peer)?)));
        // The best peer is the one that makes the bound hardest to hold.
        ratios.max_by(|(_, a), (_, b)| a.median.total_cmp(&b.median))
    }
}

/// By which share of the limit the value misses it; `None` if it holds.
fn missed_by(limit: f64, value: f64) -> Option<f64> {
    let share = (value - limit) / limit;
    (share > 0.0).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::super::controller::SUITE;
    use super::*;

    /// One round in which each contestant uses this much of everything.
    fn results(needs: &[(&'static str, f64)]) -> Results {
        let mut results = Results::default();
        for section in SUITE.sections {
            for &case in section.cases {
                for &(who, value) in needs {
                    let metrics = section.columns.iter().map(|c| (c.metric.to_owned(), value));
                    results.add(case, who, 1000, metrics.collect());
                }
            }
        }
        results
    }

    /// Returns the first line that contains all these words, with its whitespace reduced to single
    /// spaces.
    fn line(text: &str, words: &[&str]) -> String {
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|line| words.iter().all(|word| line.contains(word)));
        line.expect("the line must be there").join(" ")
    }

    #[test]
    fn medians_and_ratios_are_in_their_columns() {
        let chosen = SUITE.choose(&["storm".to_owned()], &[]).expect("a case");
        let results = results(&[("controller-runtime", 8.0), ("windlass", 2.0)]);
        let shown = medians(&SUITE, &chosen[0], &results);
        let expected = "storm windlass 2.00 0.250 2.00 0.250 2.0 0.250 2.0 2.0 0.250";
        assert_eq!(line(&shown, &["windlass"]), expected);
        assert_eq!(line(&shown, &["kube-runtime"]), "storm kube-runtime - - - - - - - - -");
    }

    #[test]
    fn bound_is_judged_beside_the_best_peer() {
        let results =
            results(&[("controller-runtime", 8.0), ("kube-runtime", 4.0), ("windlass", 3.0)]);
        let shown = bounds(&SUITE, &results, 1000);
        let storm = line(&shown, &["storm", "cpu_s"]);
        assert!(
            storm.contains("kube-runtime <= 0.70 0.75 0.75 to 0.75 missed by 7.1 %"),
            "{storm}"
        );
        assert!(line(&shown, &["changes"]).ends_with("held"), "{shown}");
        assert!(shown.contains("meant for 50,000 objects; this run had 1,000."), "{shown}");
        assert_eq!(score(&SUITE, &results), (2, 2));
    }

    #[test]
    fn bound_without_a_peer_is_not_measured() {
        assert_eq!(score(&SUITE, &results(&[("windlass", 3.0)])), (0, 0));
    }

    #[test]
    fn limits_hold_at_their_value() {
        assert_eq!(missed_by(0.25, 0.25), None);
        assert_eq!(missed_by(0.25, 0.375), Some(0.5));
    }
}
