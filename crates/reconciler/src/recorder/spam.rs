//! How many writes an object may cause, so that an object in trouble does not flood the server with
//! events.

use std::time::Duration;

use hashlink::LruCache;
use tokio::time::Instant;

/// Writes about one object that pass at once. As in client-go.
pub(super) const BURST: u32 = 25;

/// After them, one write passes in this time. As in client-go.
pub(super) const REFILL: Duration = Duration::from_mins(5);

/// Objects that are remembered. Beyond that, the least recently used one starts with a full bucket.
const OBJECTS_MAX: usize = 4096;

/// A token bucket for each object.
///
/// Tokens come back at a constant rate. So the time at which a bucket is full again says how many
/// tokens are missing, and is all that has to be stored.
pub(super) struct SpamFilter {
    full_at: LruCache<String, Instant>,
}

impl SpamFilter {
    pub(super) fn new() -> Self {
        Self { full_at: LruCache::new(OBJECTS_MAX) }
    }

    /// Takes a token from the bucket of an object. Returns whether there was one.
    pub(super) fn take(&mut self, object: &str, now: Instant) -> bool {
        let full_at = self.full_at.get(object).copied().unwrap_or(now).max(now) + REFILL;
        let has_token = full_at - now <= REFILL * BURST;
        if has_token {
            self.full_at.insert(object.to_owned(), full_at);
        }
        has_token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(filter: &mut SpamFilter, object: &str, now: Instant) -> usize {
        (0..100).filter(|_| filter.take(object, now)).count()
    }

    #[test]
    fn burst_goes_through_and_then_one_in_five_minutes() {
        let (mut filter, start) = (SpamFilter::new(), Instant::now());
        assert_eq!(taken(&mut filter, "a", start), 25);
        let almost = start + Duration::from_secs(299);
        assert_eq!(taken(&mut filter, "a", almost), 0);
        assert_eq!(taken(&mut filter, "a", start + REFILL), 1);
        assert_eq!(taken(&mut filter, "a", start + Duration::from_secs(599)), 0);
        assert_eq!(taken(&mut filter, "a", start + 2 * REFILL), 1);
        assert_eq!(taken(&mut filter, "a", start + 5 * REFILL), 3);
    }

    #[test]
    fn bucket_is_never_fuller_than_full() {
        let (mut filter, start) = (SpamFilter::new(), Instant::now());
        assert_eq!(taken(&mut filter, "a", start), 25);
        let later = start + Duration::from_hours(24);
        assert_eq!(taken(&mut filter, "a", later), 25);
        // A full bucket does not gather time either.
        assert_eq!(taken(&mut filter, "a", later + Duration::from_secs(299)), 0);
    }

    #[test]
    fn objects_do_not_take_each_others_tokens() {
        let (mut filter, now) = (SpamFilter::new(), Instant::now());
        assert_eq!(taken(&mut filter, "a", now), 25);
        assert_eq!(taken(&mut filter, "b", now), 25);
    }

    #[test]
    fn objects_that_were_quiet_for_longest_are_forgotten() {
        let (mut filter, now) = (SpamFilter::new(), Instant::now());
        assert_eq!(taken(&mut filter, "first", now), 25);
        for object in 0..OBJECTS_MAX {
            assert!(filter.take(&object.to_string(), now));
        }
        assert!(filter.take("first", now));
    }
}
