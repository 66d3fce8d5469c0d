//! The failures of each key, kept no longer than they matter.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// Records below which a sweep is not worth its time.
const SWEEP_FROM: usize = 1_024;

/// A record outlives its window by this at least, so that a queue with a long backlog, or a run that takes
/// long, does not lose count of a key's failures.
const IDLE_MIN: Duration = Duration::from_hours(1);

/// Counts each key's failures, at most one a window.
///
/// A window is the time from a failure to the retry it asked for. Something may run the key earlier; if
/// that run fails too, it is no second failure: the key still waits for the end of the same window. So
/// an object that changes all the time is not pushed to the longest backoff by its own chatter.
///
/// A record that nobody forgot is dropped once its window has been over for the idle period; the table
/// is swept when it has doubled since the last sweep, so it stays in proportion to the keys that failed
/// lately.
#[derive(Debug)]
pub(super) struct Failures<K> {
    records: HashMap<K, Record, foldhash::fast::RandomState>,
    idle: Duration,
    sweep_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    failures: u32,
    window_end: Instant,
}

impl<K: Eq + Hash + Clone> Failures<K> {
    /// Records are kept for an hour after the end of their window, or for `delay_max` if that is longer.
    pub(super) fn new(delay_max: Duration) -> Self {
        let idle = delay_max.max(IDLE_MIN);
        Self { records: HashMap::default(), idle, sweep_at: SWEEP_FROM }
    }

    /// Charges `key` with a failure, unless a window is open, and returns the time until the end of
    /// its window; `delay` gives the length of a new one from the failures before it.
    pub(super) fn charge(
        &mut self,
        key: &K,
        now: Instant,
        delay: impl FnOnce(u32) -> Duration,
    ) -> Duration {
        if self.records.len() >= self.sweep_at {
            self.sweep(now);
        }
        let Some(record) = self.records.get_mut(key) else {
            let length = delay(0);
            let record = Record { failures: 1, window_end: now + length };
            self.records.insert(key.clone(), record);
            return length;
        };
        if now < record.window_end {
            return record.window_end - now;
        }
        if is_idle(record, now, self.idle) {
            record.failures = 0;
        }
        let length = delay(record.failures);
        record.failures = record.failures.saturating_add(1);
        record.window_end = now + length;
        length
    }

    /// The window of `key` ends at `until`, whatever was asked for.
    pub(super) fn grant(&mut self, key: &K, until: Instant) {
        if let Some(record) = self.records.get_mut(key) {
            record.window_end = until;
        }
    }

    pub(super) fn forget(&mut self, key: &K) {
        self.records.remove(key);
    }

    pub(super) fn count(&self, key: &K) -> u32 {
        self.records.get(key).map_or(0, |record| record.failures)
    }

    pub(super) fn has_any(&self) -> bool {
        !self.records.is_empty()
    }

    fn sweep(&mut self, now: Instant) {
        let idle = self.idle;
        self.records.retain(|_, record| !is_idle(record, now, idle));
        self.sweep_at = (2 * self.records.len()).max(SWEEP_FROM);
        self.records.shrink_to(self.sweep_at);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }
}

fn is_idle(record: &Record, now: Instant, idle: Duration) -> bool {
    now.saturating_duration_since(record.window_end) >= idle
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_chatty_key_is_charged_once_a_window() {
        let mut failures = Failures::new(SECOND);
        let start = Instant::now();
        assert_eq!(failures.charge(&"key", start, |_| 8 * SECOND), 8 * SECOND);
        for second in 1..8 {
            let now = start + second * SECOND;
            assert_eq!(failures.charge(&"key", now, |_| 99 * SECOND), (8 - second) * SECOND);
        }
        assert_eq!(failures.count(&"key"), 1);
        assert_eq!(failures.charge(&"key", start + 8 * SECOND, |_| 16 * SECOND), 16 * SECOND);
        assert_eq!(failures.count(&"key"), 2);
    }

    #[test]
    fn keys_that_nobody_forgets_do_not_pile_up() {
        let mut failures = Failures::new(SECOND);
        let start = Instant::now();
        // A hundred thousand names, each failing once and never seen again, one every ten seconds.
        for name in 0..100_000 {
            failures.charge(&name, start + name * 10 * SECOND, |_| SECOND);
            assert!(failures.len() <= 2 * SWEEP_FROM);
        }
    }

    #[test]
    fn an_idle_record_starts_over() {
        let mut failures = Failures::new(SECOND);
        let start = Instant::now();
        failures.charge(&"key", start, |_| SECOND);
        failures.charge(&"key", start + SECOND, |_| SECOND);
        assert_eq!(failures.count(&"key"), 2);
        failures.charge(&"key", start + 2 * SECOND + IDLE_MIN, |before| {
            assert_eq!(before, 0);
            SECOND
        });
        assert_eq!(failures.count(&"key"), 1);
    }
}
