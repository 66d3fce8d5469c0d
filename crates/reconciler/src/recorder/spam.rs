//! How many writes an object may cause: one that is in trouble must not flood the server with events.
//!
//! New events and updates of series have a bucket each, so that an event that repeats takes nothing
//! from others.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::lru::Lru;

/// Writes of a sort about one object that go through at once, as in client-go.
pub(super) const BURST: u32 = 25;

/// After them, one in so much time, as in client-go.
pub(super) const REFILL: Duration = Duration::from_mins(5);

/// Objects that are kept apart; beyond that, the one that was quiet for longest starts anew.
const OBJECTS_MAX: usize = 4096;

/// Two token buckets for each object.
#[derive(Debug)]
pub(super) struct SpamFilter {
    buckets: Lru<Buckets>,
}

/// A sort of write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// The first of an event.
    New,
    /// A known event has happened again.
    Repeat,
}

#[derive(Debug)]
struct Buckets {
    new: Bucket,
    repeats: Bucket,
}

#[derive(Debug)]
struct Bucket {
    tokens: u32,
    /// When the last token came, or the bucket was full.
    since: Instant,
}

impl SpamFilter {
    pub(super) fn new() -> Self {
        Self { buckets: Lru::new(OBJECTS_MAX) }
    }

    /// Whether an object may cause one more write now. If so, it has.
    pub(super) fn admit(&mut self, object: &str, sort: Sort, now: Instant) -> bool {
        if let Some(buckets) = self.buckets.touch(object) {
            return buckets.of(sort).take(now);
        }
        let mut buckets = Buckets { new: Bucket::full(now), repeats: Bucket::full(now) };
        let is_admitted = buckets.of(sort).take(now);
        self.buckets.insert(Arc::from(object), buckets, |_| true);
        is_admitted
    }
}

impl Buckets {
    fn of(&mut self, sort: Sort) -> &mut Bucket {
        match sort {
            Sort::New => &mut self.new,
            Sort::Repeat => &mut self.repeats,
        }
    }
}

impl Bucket {
    fn full(now: Instant) -> Self {
        Self { tokens: BURST, since: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since).as_nanos();
        let come = u32::try_from(passed / REFILL.as_nanos()).unwrap_or(u32::MAX);
        if come >= BURST - self.tokens {
            (self.tokens, self.since) = (BURST, now);
        } else {
            self.tokens += come;
            self.since += REFILL * come;
        }
        let has_token = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        has_token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(filter: &mut SpamFilter, object: &str, now: Instant) -> usize {
        (0..100).filter(|_| filter.admit(object, Sort::New, now)).count()
    }

    #[test]
    fn burst_goes_through_and_then_one_in_five_minutes() {
        let (mut filter, start) = (SpamFilter::new(), Instant::now());
        assert_eq!(admitted(&mut filter, "a", start), 25);
        let almost = start + Duration::from_secs(299);
        assert_eq!(admitted(&mut filter, "a", almost), 0);
        assert_eq!(admitted(&mut filter, "a", start + REFILL), 1);
        // Part of a token is not lost when one is asked for too early.
        assert_eq!(admitted(&mut filter, "a", start + Duration::from_secs(599)), 0);
        assert_eq!(admitted(&mut filter, "a", start + 2 * REFILL), 1);
        assert_eq!(admitted(&mut filter, "a", start + 5 * REFILL), 3);
    }

    #[test]
    fn bucket_is_never_fuller_than_full() {
        let (mut filter, start) = (SpamFilter::new(), Instant::now());
        assert_eq!(admitted(&mut filter, "a", start), 25);
        let later = start + Duration::from_hours(24);
        assert_eq!(admitted(&mut filter, "a", later), 25);
        // A full bucket does not gather time either.
        assert_eq!(admitted(&mut filter, "a", later + Duration::from_secs(299)), 0);
    }

    #[test]
    fn objects_do_not_take_each_others_tokens() {
        let (mut filter, now) = (SpamFilter::new(), Instant::now());
        assert_eq!(admitted(&mut filter, "a", now), 25);
        assert_eq!(admitted(&mut filter, "b", now), 25);
    }

    #[test]
    fn objects_that_were_quiet_for_longest_are_forgotten() {
        let (mut filter, now) = (SpamFilter::new(), Instant::now());
        assert_eq!(admitted(&mut filter, "first", now), 25);
        for object in 0..OBJECTS_MAX {
            assert!(filter.admit(&object.to_string(), Sort::New, now));
        }
        assert!(filter.admit("first", Sort::New, now));
    }

    #[test]
    fn repeats_and_new_events_do_not_take_each_others_tokens() {
        let (mut filter, now) = (SpamFilter::new(), Instant::now());
        assert_eq!(admitted(&mut filter, "a", now), 25);
        let repeats = (0..100).filter(|_| filter.admit("a", Sort::Repeat, now)).count();
        assert_eq!(repeats, 25);
    }
}
