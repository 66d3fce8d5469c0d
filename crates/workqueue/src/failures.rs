//! The failures of each key, kept no longer than they matter.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// How long a failure count is kept after the end of its backoff window, so that a long backlog or
/// a long run does not lose it. Also the time between two sweeps.
const RETENTION: Duration = Duration::from_hours(1);

/// Counts the failures of each key, at most one for each window.
///
/// A window is the time from a failure to the retry that follows it. Events may run the key
/// earlier. If that run fails too, it is not a second failure: the key waits for the end of the
/// same window. So an object that changes all the time is not pushed to the longest backoff by its
/// own events.
///
/// Unless it is forgotten, a record counts until an hour after the end of its window. At most once
/// an hour, a new failure drops all records that no longer count. So no record stays longer than
/// two hours after its window, as long as keys fail.
#[derive(Debug)]
pub(crate) struct Failures<K> {
    records: HashMap<K, Record, foldhash::fast::RandomState>,
    /// `None` before the first failure.
    next_sweep: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    failures: u32,
    window_end: Instant,
    source: DelaySource,
}

/// Who decided how long a window lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelaySource {
    Limiter,
    /// The caller of `retry_after`. The window applies to that failure alone: if the key fails
    /// earlier for another reason, the limiter decides.
    Caller,
}

impl<K: Eq + Hash + Clone> Failures<K> {
    pub(crate) fn new() -> Self {
        Self { records: HashMap::default(), next_sweep: None }
    }

    /// How long the limiter's window of a key still lasts; `None` if none is open.
    pub(crate) fn remaining_backoff(&self, key: &K, now: Instant) -> Option<Duration> {
        let record = self.records.get(key)?;
        let is_open = now < record.window_end && record.source == DelaySource::Limiter;
        is_open.then(|| record.window_end - now)
    }

    /// The failure count after a failure now. It does not rise while the window of the last failure
    /// is open.
    pub(crate) fn next_count(&self, key: &K, source: DelaySource, now: Instant) -> u32 {
        match self.records.get(key) {
            None => 1,
            Some(record)
                if now < record.window_end
                    && (record.source == DelaySource::Limiter || source == DelaySource::Caller) =>
            {
                record.failures
            }
            Some(record) if record.is_expired(now) => 1,
            Some(record) => record.failures.saturating_add(1),
        }
    }

    /// Records the failures of a key, with a window of `delay` from now. Returns keys that were
    /// forgotten, for the caller to drop.
    #[must_use = "drop the keys after unlocking"]
    pub(crate) fn record(
        &mut self,
        key: &K,
        failures: u32,
        source: DelaySource,
        now: Instant,
        delay: Duration,
    ) -> Vec<K> {
        let swept = self.sweep(now);
        let record = Record { failures, window_end: now + delay, source };
        match self.records.get_mut(key) {
            Some(known) => *known = record,
            None => drop(self.records.insert(key.clone(), record)),
        }
        swept
    }

    /// Forgets the failures of a key. Returns the copy of the key that was kept, for the caller to
    /// drop.
    #[must_use = "drop the keys after unlocking"]
    pub(crate) fn forget(&mut self, key: &K) -> Option<K> {
        self.records.remove_entry(key).map(|(key, _)| key)
    }

    /// How many keys have a record.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn count(&self, key: &K, now: Instant) -> u32 {
        let record = self.records.get(key).filter(|record| !record.is_expired(now));
        record.map_or(0, |record| record.failures)
    }

    /// Drops the records that no longer count, once an hour. Returns their keys.
    fn sweep(&mut self, now: Instant) -> Vec<K> {
        if self.next_sweep.is_some_and(|next_sweep| now < next_sweep) {
            return Vec::new();
        }
        self.next_sweep = Some(now + RETENTION);
        let idle = self.records.extract_if(|_, record| record.is_expired(now));
        let swept = idle.map(|(key, _)| key).collect();
        self.records.shrink_to(2 * self.records.len());
        swept
    }
}

impl Record {
    fn is_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.window_end) >= RETENTION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Counts a failure as [`Retries`](crate::retries::Retries) does; returns its number.
    fn fail<K: Eq + Hash + Clone>(failures: &mut Failures<K>, key: &K, now: Instant) -> u32 {
        let number = failures.next_count(key, DelaySource::Limiter, now);
        drop(failures.record(key, number, DelaySource::Limiter, now, SECOND));
        number
    }

    #[test]
    fn a_chatty_key_is_counted_once_a_window() {
        let mut failures = Failures::new();
        let start = Instant::now();
        assert_eq!(failures.remaining_backoff(&"key", start), None);
        drop(failures.record(&"key", 1, DelaySource::Limiter, start, 8 * SECOND));
        for second in 1..8 {
            let now = start + second * SECOND;
            assert_eq!(failures.remaining_backoff(&"key", now), Some((8 - second) * SECOND));
            assert_eq!(failures.next_count(&"key", DelaySource::Limiter, now), 1);
        }
        let end = start + 8 * SECOND;
        assert_eq!(failures.remaining_backoff(&"key", end), None);
        assert_eq!(fail(&mut failures, &"key", end), 2);
        assert_eq!(failures.count(&"key", end), 2);
    }

    #[test]
    fn own_delay_of_a_failure_does_not_bind_another() {
        let mut failures = Failures::new();
        let start = Instant::now();
        drop(failures.record(&"key", 1, DelaySource::Caller, start, 3_600 * SECOND));
        let soon = start + SECOND;
        assert_eq!(failures.remaining_backoff(&"key", soon), None, "the limiter is asked");
        assert_eq!(failures.next_count(&"key", DelaySource::Limiter, soon), 2);
        assert_eq!(
            failures.next_count(&"key", DelaySource::Caller, soon),
            1,
            "the same failure again"
        );
    }

    #[test]
    fn keys_that_nobody_forgets_do_not_pile_up() {
        let mut failures = Failures::new();
        let start = Instant::now();
        // A hundred thousand names, each failing once and never seen again, 360 an hour.
        for name in 0..100_000 {
            fail(&mut failures, &name, start + name * 10 * SECOND);
            assert!(failures.records.len() <= 2 * 361);
        }
    }

    #[test]
    fn one_failure_drops_the_records_of_a_flood_that_is_over() {
        let mut failures = Failures::new();
        let start = Instant::now();
        for name in 0..10_000 {
            fail(&mut failures, &name, start);
        }
        assert_eq!(failures.records.len(), 10_000);
        fail(&mut failures, &0, start + SECOND + RETENTION);
        assert_eq!(failures.records.len(), 1);
        assert!(failures.records.capacity() < 100);
    }

    #[test]
    fn an_idle_record_starts_over() {
        let mut failures = Failures::new();
        let start = Instant::now();
        fail(&mut failures, &"key", start);
        assert_eq!(fail(&mut failures, &"key", start + SECOND), 2);
        let later = start + 2 * SECOND + RETENTION;
        assert_eq!(failures.count(&"key", later), 0, "nobody is told of it any more");
        assert_eq!(fail(&mut failures, &"key", later), 1);
        assert_eq!(failures.count(&"key", later), 1);
    }
}
