//! The failures of each key, kept no longer than they matter.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// Records below which a sweep is not worth its time.
const SWEEP_FROM: usize = 1_024;

/// How long a record outlives its window, so that a queue with a long backlog, or a run that takes
/// long, does not lose count of a key's failures.
const IDLE: Duration = Duration::from_hours(1);

/// Counts each key's failures, at most one for each window.
///
/// A window is the time from a failure to the retry that follows it. Events may run the key
/// earlier; if that run fails too, it is no second failure: the key still waits for the end of the
/// same window. So an object that changes all the time is not pushed to the longest backoff by its
/// own events.
///
/// A record that nobody forgot is dropped an hour after the end of its window. The table is swept
/// when it has doubled since the last sweep, so it stays in proportion to the keys that failed
/// lately.
#[derive(Debug)]
pub(crate) struct Failures<K> {
    records: HashMap<K, Record, foldhash::fast::RandomState>,
    sweep_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    failures: u32,
    window_end: Instant,
}

impl<K: Eq + Hash + Clone> Failures<K> {
    pub(crate) fn new() -> Self {
        Self { records: HashMap::default(), sweep_at: SWEEP_FROM }
    }

    /// Counts a failure of `key`, unless its window is open, and returns the time until the end of
    /// the window. `delay` gives the length of a new one by the number of the failure.
    pub(crate) fn charge(
        &mut self,
        key: &K,
        now: Instant,
        delay: impl FnOnce(u32) -> Duration,
    ) -> Duration {
        if self.records.len() >= self.sweep_at {
            self.sweep(now);
        }
        let Some(record) = self.records.get_mut(key) else {
            let length = delay(1);
            let record = Record { failures: 1, window_end: now + length };
            self.records.insert(key.clone(), record);
            return length;
        };
        if now < record.window_end {
            return record.window_end - now;
        }
        let before = if is_idle(record, now) { 0 } else { record.failures };
        let failures = before.saturating_add(1);
        let length = delay(failures);
        *record = Record { failures, window_end: now + length };
        length
    }

    /// As [`charge`](Self::charge), but the window ends after `delay` in any case.
    pub(crate) fn charge_for(&mut self, key: &K, now: Instant, delay: Duration) {
        self.charge(key, now, |_| delay);
        if let Some(record) = self.records.get_mut(key) {
            record.window_end = now + delay;
        }
    }

    pub(crate) fn forget(&mut self, key: &K) {
        self.records.remove(key);
    }

    pub(crate) fn count(&self, key: &K) -> u32 {
        self.records.get(key).map_or(0, |record| record.failures)
    }

    pub(crate) fn has_any(&self) -> bool {
        !self.records.is_empty()
    }

    fn sweep(&mut self, now: Instant) {
        self.records.retain(|_, record| !is_idle(record, now));
        self.sweep_at = (2 * self.records.len()).max(SWEEP_FROM);
        self.records.shrink_to(self.sweep_at);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.records.len()
    }
}

fn is_idle(record: &Record, now: Instant) -> bool {
    now.saturating_duration_since(record.window_end) >= IDLE
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_chatty_key_is_charged_once_a_window() {
        let mut failures = Failures::new();
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
        let mut failures = Failures::new();
        let start = Instant::now();
        // A hundred thousand names, each failing once and never seen again, one every ten seconds.
        for name in 0..100_000 {
            failures.charge(&name, start + name * 10 * SECOND, |_| SECOND);
            assert!(failures.len() <= 2 * SWEEP_FROM);
        }
    }

    #[test]
    fn an_idle_record_starts_over() {
        let mut failures = Failures::new();
        let start = Instant::now();
        failures.charge(&"key", start, |_| SECOND);
        failures.charge(&"key", start + SECOND, |_| SECOND);
        assert_eq!(failures.count(&"key"), 2);
        failures.charge(&"key", start + 2 * SECOND + IDLE, |failures| {
            assert_eq!(failures, 1);
            SECOND
        });
        assert_eq!(failures.count(&"key"), 1);
    }
}
