//! What the rounds measured, and how two sides compare.
//!
//! Values are kept by round. Two sides are compared within the same round, where they ran seconds apart,
//! and the median of those ratios counts: a machine that slows down for a minute then slows both, while
//! the ratio of two medians could set one side's good rounds against the other's bad ones.

use std::collections::BTreeMap;

use super::line::{Line, Measured, Metric, Who};

/// All values of a suite, by case and by who.
#[derive(Debug, Default)]
pub(super) struct Results {
    series: BTreeMap<(&'static str, Who), Series>,
}

/// The rounds of one case for one queue or server.
#[derive(Debug)]
pub(super) struct Series {
    /// How many keys, objects or events each round ran with.
    pub(super) keys: u32,
    /// What each round measured, in the order of the rounds.
    rounds: Vec<Measured>,
}

/// What two sides are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Keys per second: compares also where one side had fewer keys.
    Throughput,
    /// CPU time per key: compares also where one side had fewer keys.
    CpuPerKey,
    /// Peak memory: compares only where both sides had the same number of keys.
    Peak,
    /// Wall time: compares only where both sides had the same number of keys.
    Wall,
    /// Resident memory: compares only where both sides had the same number of keys.
    Resident,
    /// Peak memory as a multiple of the resident memory of the same process.
    PeakToResident,
    /// CPU time per event, as the process told it.
    CpuPerEvent,
    /// The latency that 99 % do not exceed.
    P99,
    /// The first, cold start.
    FirstStart,
    /// The middle one of the starts in one process.
    MedianStart,
    /// The longest of the starts in one process.
    LongestStart,
}

/// How one side stands to the other over the rounds; or how a value of one side stands by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub(super) median: f64,
    /// The round with the lowest ratio.
    pub(super) lowest: f64,
    /// The round with the highest ratio.
    pub(super) highest: f64,
}

impl Results {
    /// Adds one round's values; rounds of both sides of a comparison must be added in the same order.
    pub(super) fn add(&mut self, case: &'static str, who: Who, keys: u32, measured: Measured) {
        let series =
            self.series.entry((case, who)).or_insert_with(|| Series { keys, rounds: Vec::new() });
        series.rounds.push(measured);
    }

    /// The rounds of this case for this queue, if it was measured.
    pub(super) fn series(&self, case: &str, who: Who) -> Option<&Series> {
        // The map's key borrows for the whole program, so it cannot be looked up by a shorter borrow.
        self.series.iter().find(|((c, w), _)| *c == case && *w == who).map(|(_, series)| series)
    }

    /// How `who` stands to `other`, or `None` if the two cannot be compared.
    pub(super) fn ratio(
        &self,
        measure: Measure,
        case: &str,
        who: Who,
        other: Who,
    ) -> Option<Ratio> {
        let (ours, theirs) = (self.series(case, who)?, self.series(case, other)?);
        let whole = matches!(measure, Measure::Peak | Measure::Wall | Measure::Resident);
        if whole && ours.keys != theirs.keys {
            return None;
        }
        let by_round = ours.values(measure)?.into_iter().zip(theirs.values(measure)?);
        let ratios: Vec<f64> = by_round.map(|(ours, theirs)| ours / theirs).collect();
        Ratio::of(&ratios)
    }

    /// The values of `who` as they are, or `None` if they were not measured.
    pub(super) fn spread(&self, measure: Measure, case: &str, who: Who) -> Option<Ratio> {
        Ratio::of(&self.series(case, who)?.values(measure)?)
    }

    /// The medians as lines, in the given order of cases and queues.
    pub(super) fn medians(
        &self,
        suite: &str,
        order: impl IntoIterator<Item = (&'static str, Who)>,
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        for (case, who) in order {
            let Some(series) = self.series(case, who) else { continue };
            for metric in series.metrics() {
                let Some(value) = series.median(metric) else { continue };
                lines.push(Line {
                    suite: suite.to_owned(),
                    case: case.to_owned(),
                    who,
                    metric,
                    value,
                });
            }
        }
        lines
    }
}

impl Series {
    /// The median over the rounds, if every round measured it.
    pub(super) fn median(&self, metric: Metric) -> Option<f64> {
        median(&self.metric(metric)?)
    }

    /// The median CPU time per key in nanoseconds.
    pub(super) fn cpu_ns_per_key(&self) -> Option<f64> {
        median(&self.values(Measure::CpuPerKey)?).map(|seconds| seconds * 1e9)
    }

    /// The median wall time per key in nanoseconds.
    pub(super) fn wall_ns_per_key(&self) -> Option<f64> {
        self.median(Metric::WallS).map(|seconds| seconds * 1e9 / f64::from(self.keys))
    }

    fn metrics(&self) -> impl Iterator<Item = Metric> {
        self.rounds.first().into_iter().flat_map(|first| first.keys().copied())
    }

    fn metric(&self, metric: Metric) -> Option<Vec<f64>> {
        self.rounds.iter().map(|round| round.get(&metric).copied()).collect()
    }

    /// One value per round, in the order of the rounds.
    fn values(&self, measure: Measure) -> Option<Vec<f64>> {
        match measure {
            Measure::Throughput => self.metric(Metric::Throughput),
            Measure::Peak => self.metric(Metric::PeakMb),
            Measure::Wall => self.metric(Metric::WallS),
            Measure::Resident => self.metric(Metric::ResidentMb),
            Measure::PeakToResident => {
                let resident = self.metric(Metric::ResidentMb)?;
                let peak = self.metric(Metric::PeakMb)?;
                Some(peak.into_iter().zip(resident).map(|(peak, held)| peak / held).collect())
            }
            Measure::CpuPerEvent => self.metric(Metric::CpuUsPerEvent),
            Measure::P99 => self.metric(Metric::P99Us),
            Measure::FirstStart => self.metric(Metric::FirstMs),
            Measure::MedianStart => self.metric(Metric::MedianMs),
            Measure::LongestStart => self.metric(Metric::MaxMs),
            Measure::CpuPerKey => {
                let keys = f64::from(self.keys);
                Some(self.metric(Metric::CpuS)?.into_iter().map(|seconds| seconds / keys).collect())
            }
        }
    }
}

impl Measure {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::CpuPerKey => "CPU",
            Self::Peak => "peak memory",
            Self::Wall => "wall time",
            Self::Resident => "resident memory",
            Self::PeakToResident => "peak / resident",
            Self::CpuPerEvent => "CPU per event",
            Self::P99 => "p99 latency",
            Self::FirstStart => "first start, ms",
            Self::MedianStart => "median start, ms",
            Self::LongestStart => "longest start, ms",
        }
    }
}

impl Ratio {
    /// From the ratios of the rounds; `None` without rounds, or if a round measured zero.
    fn of(by_round: &[f64]) -> Option<Self> {
        if !by_round.iter().all(|ratio| ratio.is_finite()) {
            return None;
        }
        Some(Self {
            median: median(by_round)?,
            lowest: by_round.iter().copied().reduce(f64::min)?,
            highest: by_round.iter().copied().reduce(f64::max)?,
        })
    }
}

/// The middle value, or the mean of the two middle ones; `None` without values.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One round per number: throughput, an eighth of it as CPU seconds, a quarter of it as peak memory.
    fn add(results: &mut Results, who: Who, keys: u32, rounds: &[f64]) {
        for &value in rounds {
            let measured = Measured::from([
                (Metric::Throughput, value),
                (Metric::CpuS, value / 8.0),
                (Metric::PeakMb, value / 4.0),
            ]);
            results.add("case", who, keys, measured);
        }
    }

    #[test]
    fn median_is_the_middle_or_the_mean_of_the_two_middle_values() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 4.0, 2.0]), Some(3.0));
    }

    #[test]
    fn ratio_compares_within_a_round() {
        let mut results = Results::default();
        // The machine was three times slower in the second round, for both sides.
        add(&mut results, Who::ClientGo, 10, &[30.0, 10.0, 32.0]);
        add(&mut results, Who::Windlass, 10, &[60.0, 20.0, 128.0]);
        let ratio = results.ratio(Measure::Throughput, "case", Who::Windlass, Who::ClientGo);
        assert_eq!(ratio, Some(Ratio { median: 2.0, lowest: 2.0, highest: 4.0 }));
    }

    #[test]
    fn cpu_is_compared_per_key_and_memory_only_at_equal_keys() {
        let mut results = Results::default();
        add(&mut results, Who::ClientGo, 1000, &[8.0]);
        add(&mut results, Who::ControllerRuntime, 100, &[8.0]);
        add(&mut results, Who::Windlass, 1000, &[4.0]);
        let ratio = |measure, who| {
            results.ratio(measure, "case", who, Who::ClientGo).map(|ratio| ratio.median)
        };
        assert_eq!(ratio(Measure::CpuPerKey, Who::ControllerRuntime), Some(10.0));
        assert_eq!(ratio(Measure::Peak, Who::ControllerRuntime), None);
        assert_eq!(ratio(Measure::CpuPerKey, Who::Windlass), Some(0.5));
        assert_eq!(ratio(Measure::Peak, Who::Windlass), Some(0.5));
    }

    #[test]
    fn what_was_not_measured_or_measured_zero_has_no_ratio() {
        let mut results = Results::default();
        add(&mut results, Who::Windlass, 10, &[1.0]);
        let ratio = |results: &Results, case| {
            results.ratio(Measure::Throughput, case, Who::Windlass, Who::ClientGo)
        };
        assert_eq!(ratio(&results, "case"), None);
        add(&mut results, Who::ClientGo, 10, &[0.0]);
        assert_eq!(ratio(&results, "case"), None);
        assert_eq!(ratio(&results, "other"), None);
    }

    #[test]
    fn values_can_stand_by_themselves() {
        let mut results = Results::default();
        add(&mut results, Who::InProcess, 1, &[3.0, 1.0, 2.0]);
        let spread = |who| results.spread(Measure::Throughput, "case", who);
        let expected = Ratio { median: 2.0, lowest: 1.0, highest: 3.0 };
        assert_eq!(spread(Who::InProcess), Some(expected));
        assert_eq!(spread(Who::Real), None);
    }

    #[test]
    fn peak_is_compared_with_what_was_resident_in_the_same_round() {
        let mut results = Results::default();
        for (peak, resident) in [(12.0, 10.0), (33.0, 30.0), (26.0, 20.0)] {
            let measured = Measured::from([(Metric::PeakMb, peak), (Metric::ResidentMb, resident)]);
            results.add("case", Who::Windlass, 1, measured);
        }
        let spread = results.spread(Measure::PeakToResident, "case", Who::Windlass);
        assert_eq!(spread, Some(Ratio { median: 1.2, lowest: 1.1, highest: 1.3 }));
    }

    #[test]
    fn medians_are_written_in_the_order_asked_for() {
        let mut results = Results::default();
        add(&mut results, Who::ClientGo, 10, &[1.0, 2.0, 9.0]);
        add(&mut results, Who::Windlass, 10, &[8.0, 4.0, 16.0]);
        let order = [("case", Who::Windlass), ("other", Who::Windlass), ("case", Who::ClientGo)];
        let lines = results.medians("queue", order);
        let shown: Vec<_> = lines.iter().map(|line| (line.who, line.metric, line.value)).collect();
        assert_eq!(shown[0], (Who::Windlass, Metric::Throughput, 8.0));
        assert_eq!(shown[1], (Who::Windlass, Metric::CpuS, 1.0));
        assert_eq!(shown[3], (Who::ClientGo, Metric::Throughput, 2.0));
        assert_eq!(shown.len(), 6);
    }

    #[test]
    fn times_per_key_are_in_nanoseconds() {
        let mut results = Results::default();
        let measured = Measured::from([(Metric::CpuS, 2.0), (Metric::WallS, 0.5)]);
        results.add("case", Who::Windlass, 1_000_000, measured);
        let series = results.series("case", Who::Windlass).expect("just added");
        assert_eq!(series.cpu_ns_per_key().map(f64::round), Some(2000.0));
        assert_eq!(series.wall_ns_per_key(), Some(500.0));
        assert_eq!(series.median(Metric::PeakMb), None);
    }
}
