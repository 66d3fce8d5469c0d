//! How long changes were under way that a contestant was told to expect.

use crate::now_nanos;

/// The changes that are still to come, and how long those took that have come.
#[derive(Debug, Default)]
pub struct Latencies {
    /// How many are still to come that were sent after `since`.
    expected: usize,
    since: u64,
    nanos: Vec<u64>,
}

impl Latencies {
    /// Counts so many changes from now on that are stamped after `since`.
    pub fn expect(&mut self, count: usize, since: u64) {
        *self = Self { expected: count, since, nanos: Vec::with_capacity(count) };
    }

    /// An object may have changed that has this stamp; returns whether it counts. The last one that
    /// does makes it say so.
    pub fn changed(&mut self, stamp: Option<&str>) -> bool {
        if self.expected == 0 {
            return false;
        }
        let Some(sent) = stamp.and_then(|stamp| stamp.parse().ok()) else { return false };
        if sent <= self.since {
            return false;
        }
        self.nanos.push(now_nanos().saturating_sub(sent));
        self.expected -= 1;
        if self.expected == 0 {
            self.nanos.sort_unstable();
            let percentile = |percent| percentile_us(&self.nanos, percent);
            println!("seen {:.1} {:.1}", percentile(50), percentile(99));
        }
        true
    }
}

/// A percentile of sorted latencies, in microseconds.
#[expect(clippy::cast_precision_loss, reason = "latencies are less than 2^52 nanoseconds")]
fn percentile_us(sorted: &[u64], percent: usize) -> f64 {
    let index = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(index).map_or(0.0, |&nanos| nanos as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_that_were_sent_later_count() {
        let mut latencies = Latencies::default();
        assert!(!latencies.changed(Some("500")), "nothing is expected");
        latencies.expect(2, 100);
        let counted =
            [None, Some("rubbish"), Some("100"), Some("101")].map(|stamp| latencies.changed(stamp));
        assert_eq!(counted, [false, false, false, true]);
        assert_eq!((latencies.expected, latencies.nanos.len()), (1, 1));
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let sorted: Vec<u64> = (0..=100).map(|n| n * 1000).collect();
        let shown = |sorted: &[u64], percent| format!("{:.1}", percentile_us(sorted, percent));
        assert_eq!([50, 99].map(|percent| shown(&sorted, percent)), ["50.0", "99.0"]);
        assert_eq!(shown(&[], 50), "0.0");
    }
}
