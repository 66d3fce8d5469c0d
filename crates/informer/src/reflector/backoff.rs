//! How long a reflector waits after a failure: exponential, with full jitter. Each reflector has
//! its own, so that one failing watch slows no other.
//!
//! Invariant: a wait is never zero, whatever the settings and the random numbers are, so that no
//! failure becomes a busy loop.

use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

/// The shortest wait. Full jitter may be zero.
const WAIT_MIN: Duration = Duration::from_millis(10);

/// How a reflector backs off.
///
/// It waits for up to 800 ms after the first failure, and for up to twice as long after each
/// further one, at most 30 s. The failure count is reset after 30 s of health: from the opening of
/// the first watch after a failure to the next failure, however often the watch was closed and
/// resumed in between. A successful list does not count as health. Otherwise the waits would never
/// grow for a server whose lists succeed and whose watches fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffConfig {
    /// The longest wait after a first failure. Default: 800 ms, as in client-go.
    pub first: Duration,
    /// The factor by which the longest wait grows with each failure. Default: 2.
    pub factor: u32,
    /// The longest wait of all. Default: 30 s, as in client-go.
    pub max: Duration,
    /// After how much time of health the failure count is reset. Default: 30 s. Proxies in front
    /// of API servers often cut connections that are silent for 35 s, just above the interval of
    /// client-go's pings, and HTTP/1.1 has no pings. With client-go's 2 min, the waits of a quiet
    /// watch would keep growing there.
    pub reset_after: Duration,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(800),
            factor: 2,
            max: Duration::from_secs(30),
            reset_after: Duration::from_secs(30),
        }
    }
}

/// The waits of one reflector.
#[derive(Debug)]
pub(super) struct Backoff {
    config: BackoffConfig,
    /// Failures since the last reset.
    failures: u32,
    healthy_since: Option<Instant>,
}

impl Backoff {
    pub(super) fn new(config: BackoffConfig) -> Self {
        Self { config, failures: 0, healthy_since: None }
    }

    /// A watch is open.
    pub(super) fn note_healthy(&mut self, now: Instant) {
        self.healthy_since.get_or_insert(now);
    }

    /// Returns how long to wait after a failure that is noticed now.
    pub(super) fn next_wait(&mut self, now: Instant, random: &mut Rng) -> Duration {
        let healthy = self.healthy_since.take().map(|since| now.saturating_duration_since(since));
        if healthy.is_some_and(|healthy| healthy >= self.config.reset_after) {
            self.failures = 0;
        }
        let longest = self.longest();
        self.failures = self.failures.saturating_add(1);
        jitter(longest, random).max(WAIT_MIN)
    }

    fn longest(&self) -> Duration {
        let grown = self.config.factor.saturating_pow(self.failures);
        self.config.first.saturating_mul(grown).min(self.config.max)
    }
}

/// A random duration up to `longest`, uniformly distributed.
pub(super) fn jitter(longest: Duration, random: &mut Rng) -> Duration {
    let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(random.u64(0..=longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest_of(backoff: &mut Backoff, failures: usize, now: Instant) -> Vec<Duration> {
        let mut random = Rng::with_seed(1);
        let mut longest = Vec::new();
        for _ in 0..failures {
            longest.push(backoff.longest());
            backoff.next_wait(now, &mut random);
        }
        longest
    }

    #[test]
    fn waits_double_up_to_the_largest() {
        let mut backoff = Backoff::new(BackoffConfig::default());
        let longest = longest_of(&mut backoff, 8, Instant::now());
        let expected = [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000];
        assert_eq!(longest, expected.map(Duration::from_millis));
        backoff.failures = u32::MAX;
        assert_eq!(backoff.longest(), Duration::from_secs(30));
    }

    #[test]
    fn jitter_is_full_and_never_nothing() {
        let now = Instant::now();
        let mut random = Rng::with_seed(7);
        let waits: Vec<_> = (0..1_000)
            .map(|_| Backoff::new(BackoffConfig::default()).next_wait(now, &mut random))
            .collect();
        assert!(waits.iter().all(|wait| (WAIT_MIN..=Duration::from_millis(800)).contains(wait)));
        assert!(waits.iter().any(|&wait| wait < Duration::from_millis(80)));
        assert!(waits.iter().any(|&wait| wait > Duration::from_millis(720)));
        let none = BackoffConfig { first: Duration::ZERO, ..BackoffConfig::default() };
        assert_eq!(Backoff::new(none).next_wait(now, &mut random), WAIT_MIN);
        let first = Duration::MAX;
        let max = Duration::MAX;
        let endless = BackoffConfig { first, max, ..BackoffConfig::default() };
        Backoff::new(endless).next_wait(now, &mut random);
    }

    #[test]
    fn half_a_minute_of_health_begins_the_count_anew() {
        let now = Instant::now();
        let mut random = Rng::with_seed(1);
        let mut backoff = Backoff::new(BackoffConfig::default());
        longest_of(&mut backoff, 4, now);
        backoff.note_healthy(now);
        let soon = now + Duration::from_secs(29);
        backoff.next_wait(soon, &mut random);
        assert_eq!(backoff.longest(), Duration::from_millis(25_600));
        backoff.note_healthy(soon);
        // A watch that was resumed in between is still the same time of health.
        backoff.note_healthy(soon + Duration::from_secs(15));
        backoff.next_wait(soon + Duration::from_secs(30), &mut random);
        assert_eq!(backoff.longest(), Duration::from_millis(1_600));
    }
}
