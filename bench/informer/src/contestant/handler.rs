//! What the handler of every contestant does: it counts pods until all are there, and then the changes that
//! it was told to expect.

use std::sync::Mutex;

use windlass_bench_informer::now_nanos;

/// The handler. Its lock is never contended: every contestant calls it from one task.
#[derive(Debug)]
pub(crate) struct Handler {
    pods: usize,
    /// Whether every pod is to be read.
    reads: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    added: usize,
    touched: usize,
    /// How many changes are still to come that were sent after `since`.
    expected: usize,
    since: u64,
    /// In nanoseconds.
    latencies: Vec<u64>,
}

impl Handler {
    /// A handler for so many pods.
    pub(crate) fn new(pods: usize, reads: bool) -> Self {
        Self { pods, reads, state: Mutex::default() }
    }

    /// Makes it count so many pods that are stamped after `since`.
    pub(crate) fn expect(&self, count: usize, since: u64) {
        let mut state = self.state();
        state.expected = count;
        state.since = since;
        state.latencies = Vec::with_capacity(count);
    }

    /// A pod was added; returns whether it was the last.
    pub(crate) fn added(&self) -> bool {
        let mut state = self.state();
        state.added += 1;
        state.added == self.pods
    }

    /// A pod may have changed that has this stamp.
    pub(crate) fn changed(&self, stamp: Option<&str>) {
        let mut state = self.state();
        if state.expected == 0 {
            return;
        }
        let Some(sent) = stamp.and_then(|stamp| stamp.parse().ok()) else { return };
        if sent <= state.since {
            return;
        }
        state.latencies.push(now_nanos().saturating_sub(sent));
        state.expected -= 1;
        if state.expected == 0 {
            state.latencies.sort_unstable();
            let percentile = |percent| percentile_us(&state.latencies, percent);
            println!("seen {:.1} {:.1}", percentile(50), percentile(99));
        }
    }

    /// Reads a pod, if pods are to be read; what is returned makes that not to be for nothing.
    pub(crate) fn read(&self, look: impl FnOnce() -> usize) {
        if self.reads {
            let read = look();
            self.state().touched += read;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing must panic while it counts")
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
    fn last_pod_is_noticed_once() {
        let handler = Handler::new(2, false);
        assert_eq!([handler.added(), handler.added(), handler.added()], [false, true, false]);
    }

    #[test]
    fn only_changes_that_were_sent_later_count() {
        let handler = Handler::new(1, false);
        handler.changed(Some("500"));
        handler.expect(2, 100);
        for stamp in [None, Some("rubbish"), Some("100"), Some("101")] {
            handler.changed(stamp);
        }
        assert_eq!(handler.state().expected, 1);
        assert_eq!(handler.state().latencies.len(), 1);
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let sorted: Vec<u64> = (0..=100).map(|n| n * 1000).collect();
        let shown = |sorted: &[u64], percent| format!("{:.1}", percentile_us(sorted, percent));
        assert_eq!([50, 99].map(|percent| shown(&sorted, percent)), ["50.0", "99.0"]);
        assert_eq!(shown(&[], 50), "0.0");
    }
}
