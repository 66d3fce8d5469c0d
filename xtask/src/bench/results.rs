//! The results of the rounds, and how two contestants are compared.
//!
//! Contestants are compared within a round, where they ran seconds apart, and the median of these
//! ratios counts. If the machine slows down for a minute, it slows both down. The ratio of two
//! medians could compare the good rounds of one with the bad rounds of the other.

use std::collections::{BTreeMap, BTreeSet};

use super::line::{Line, Measured};

/// How many keys, objects or events a run handled.
pub(super) const ITEMS: &str = "items";

/// CPU time per item.
pub(super) const CPU_NS_PER_ITEM: &str = "cpu_ns_per_item";

/// The peak memory as a multiple of the resident memory of the same process.
pub(super) const PEAK_TO_RESIDENT: &str = "peak_to_resident";

/// All rounds of a suite, by case and contestant.
#[derive(Debug, Default)]
pub(super) struct Results {
    rounds: BTreeMap<(&'static str, &'static str), Vec<Measured>>,
}

/// A summary of the values of all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
}

impl Results {
    /// Adds the metrics of a round, and those derived from them.
    pub(super) fn add(
        &mut self,
        case: &'static str,
        who: &'static str,
        items: u32,
        mut measured: Measured,
    ) {
        let items = f64::from(items);
        measured.insert(ITEMS.to_owned(), items);
        if let Some(seconds) = measured.get("cpu_s") {
            measured.insert(CPU_NS_PER_ITEM.to_owned(), seconds * 1e9 / items);
        }
        if let (Some(peak), Some(resident)) = (measured.get("peak_mb"), measured.get("resident_mb"))
        {
            measured.insert(PEAK_TO_RESIDENT.to_owned(), peak / resident);
        }
        self.rounds.entry((case, who)).or_default().push(measured);
    }

    /// Returns the values of a metric, or `None` if it was not measured in every round.
    pub(super) fn values(&self, case: &str, who: &str, metric: &str) -> Option<Spread> {
        Spread::of(&self.by_round(case, who, metric)?)
    }

    /// Returns the ratios of `who` to `other`, or `None` if the two cannot be compared.
    pub(super) fn ratios(
        &self,
        case: &str,
        who: &str,
        other: &str,
        metric: &str,
    ) -> Option<Spread> {
        let is_per_item = metric == "throughput" || metric == CPU_NS_PER_ITEM;
        let items = |who| self.values(case, who, ITEMS);
        if !is_per_item && items(who)? != items(other)? {
            return None;
        }
        let (ours, theirs) =
            (self.by_round(case, who, metric)?, self.by_round(case, other, metric)?);
        let ratios: Vec<_> = ours.iter().zip(&theirs).map(|(our, their)| our / their).collect();
        Spread::of(&ratios)
    }

    /// Returns the medians of everything as lines.
    pub(super) fn medians(&self, suite: &str) -> Vec<Line> {
        let mut lines = Vec::new();
        for ((case, who), rounds) in &self.rounds {
            for metric in rounds.iter().flat_map(BTreeMap::keys).collect::<BTreeSet<_>>() {
                let Some(spread) = self.values(case, who, metric) else { continue };
                lines.push(Line {
                    suite: suite.to_owned(),
                    case: (*case).to_owned(),
                    who: (*who).to_owned(),
                    metric: metric.clone(),
                    value: spread.median,
                });
            }
        }
        lines
    }

    fn by_round(&self, case: &str, who: &str, metric: &str) -> Option<Vec<f64>> {
        // The keys are `'static`, so they cannot be looked up with a shorter borrow.
        let mut all = self.rounds.iter();
        let (_, rounds) = all.find(|((c, w), _)| *c == case && *w == who)?;
        rounds.iter().map(|round| round.get(metric).copied()).collect()
    }
}

impl Spread {
    /// Returns `None` without values, or if one is not finite, as after a division by zero.
    fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (lowest, highest) = (*sorted.first()?, *sorted.last()?);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        (lowest.is_finite() && highest.is_finite()).then_some(Self { median, lowest, highest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds one round per number, with throughput, CPU seconds and peak memory of that number.
    fn add(results: &mut Results, who: &'static str, items: u32, rounds: &[f64]) {
        for &value in rounds {
            let metrics = ["throughput", "cpu_s", "peak_mb"];
            let measured = metrics.map(|metric| (metric.to_owned(), value)).into();
            results.add("case", who, items, measured);
        }
    }

    #[test]
    fn median_is_the_middle_or_the_mean_of_the_two_middle_values() {
        let median = |values: &[f64]| Spread::of(values).map(|spread| spread.median);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 4.0, 2.0]), Some(3.0));
    }

    #[test]
    fn ratio_compares_within_a_round() {
        let mut results = Results::default();
        // The machine was three times slower in the second round, for both.
        add(&mut results, "client-go", 10, &[30.0, 10.0, 32.0]);
        add(&mut results, "windlass", 10, &[60.0, 20.0, 128.0]);
        let ratios = results.ratios("case", "windlass", "client-go", "throughput");
        assert_eq!(ratios, Some(Spread { median: 2.0, lowest: 2.0, highest: 4.0 }));
    }

    #[test]
    fn cpu_is_compared_per_item_and_memory_only_at_equal_items() {
        let mut results = Results::default();
        add(&mut results, "client-go", 1000, &[8.0]);
        add(&mut results, "controller-runtime", 100, &[8.0]);
        let ratio = |metric| {
            let ratios = results.ratios("case", "controller-runtime", "client-go", metric);
            ratios.map(|ratios| ratios.median)
        };
        assert_eq!(ratio(CPU_NS_PER_ITEM), Some(10.0));
        assert_eq!(ratio("peak_mb"), None);
    }

    #[test]
    fn what_was_not_measured_or_measured_zero_has_no_ratio() {
        let mut results = Results::default();
        add(&mut results, "windlass", 10, &[1.0]);
        assert_eq!(results.ratios("case", "windlass", "client-go", "throughput"), None);
        add(&mut results, "client-go", 10, &[0.0]);
        assert_eq!(results.ratios("case", "windlass", "client-go", "throughput"), None);
        assert_eq!(results.ratios("other", "windlass", "client-go", "throughput"), None);
    }

    #[test]
    fn peak_is_compared_with_the_resident_memory_of_the_same_round() {
        let mut results = Results::default();
        for (peak, resident) in [(12.0, 10.0), (33.0, 30.0), (26.0, 20.0)] {
            let measured = [("peak_mb".to_owned(), peak), ("resident_mb".to_owned(), resident)];
            results.add("case", "windlass", 1, measured.into());
        }
        let values = results.values("case", "windlass", PEAK_TO_RESIDENT);
        assert_eq!(values, Some(Spread { median: 1.2, lowest: 1.1, highest: 1.3 }));
    }

    #[test]
    fn medians_become_lines() {
        let mut results = Results::default();
        add(&mut results, "windlass", 10, &[8.0, 4.0, 16.0]);
        let lines = results.medians("queue");
        let line = lines.iter().find(|line| line.metric == "peak_mb").expect("it was measured");
        assert_eq!(
            serde_json::to_string(line).expect("a line"),
            r#"{"suite":"queue","case":"case","who":"windlass","metric":"peak_mb","value":8.0}"#
        );
    }
}
