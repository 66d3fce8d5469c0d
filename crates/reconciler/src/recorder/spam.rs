//! How many writes an object may cause: one that is in trouble must not flood the server with events.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::lru::Lru;

/// Writes about one object that go through at once, as in client-go.
pub(super) const BURST: u32 = 25;

/// After them, one in so much time, as in client-go.
pub(super) const REFILL: Duration = Duration::from_mins(5);

/// Objects that are kept apart; beyond that, the one that was quiet for longest starts anew.
const OBJECTS_MAX: usize = 4096;

/// A token bucket for each object.
#[derive(Debug)]
pub(super) struct SpamFilter {
    buckets: Lru<Bucket>,
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
    pub(super) fn admit(&mut self, object: &str, now: Instant) -> bool {
        if let Some(bucket) = self.buckets.touch(object) {
            return bucket.take(now);
        }
        let bucket = Bucket { tokens: BURST - 1, since: now };
        self.buckets.insert(Arc::from(object), bucket, |_| true);
        true
    }
}

impl Bucket {
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
        (0..100).filter(|_| filter.admit(object, now)).count()
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
            assert!(filter.admit(&object.to_string(), now));
        }
        assert!(filter.admit("first", now));
    }
}
