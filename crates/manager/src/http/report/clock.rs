//! Converts times of the monotonic clock to the wall clock.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use tokio::time::Instant;

/// A time of the wall clock. In JSON it is an RFC 3339 string, in UTC, with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.3}", self.0))
    }
}

/// The same moment on both clocks. All times of a report are converted with one pair, so a jump of
/// the wall clock moves them together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    instant: Instant,
    time: Timestamp,
}

impl Clock {
    pub(crate) fn now() -> Self {
        Self { instant: Instant::now(), time: windlass_environment::now() }
    }

    pub(crate) fn now_as_time(self) -> Time {
        Time(self.time)
    }

    pub(crate) fn time(self, instant: Instant) -> Time {
        let (ahead, ago) = (
            instant.saturating_duration_since(self.instant),
            self.instant.saturating_duration_since(instant),
        );
        let time = if ago.is_zero() {
            self.time.checked_add(ahead).unwrap_or(Timestamp::MAX)
        } else {
            self.time.checked_sub(ago).unwrap_or(Timestamp::MIN)
        };
        Time(time)
    }

    /// The time when something began that has taken this long so far.
    pub(crate) fn ago(self, elapsed: Duration) -> Time {
        Time(self.time.checked_sub(elapsed).unwrap_or(Timestamp::MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_become_times_before_and_after_the_pair() {
        let instant = Instant::now() + Duration::from_hours(1);
        let clock = Clock { instant, time: "2026-02-03T04:05:06.789Z".parse().expect("a time") };
        let shown = |time: Time| serde_json::to_value(time).expect("a text");
        let minute = Duration::from_mins(1);
        assert_eq!(shown(clock.time(instant)), "2026-02-03T04:05:06.789Z");
        assert_eq!(shown(clock.time(instant + minute)), "2026-02-03T04:06:06.789Z");
        assert_eq!(shown(clock.time(instant - minute)), "2026-02-03T04:04:06.789Z");
        assert_eq!(clock.ago(minute), clock.time(instant - minute));
    }

    #[test]
    fn times_that_cannot_be_shown_are_cut() {
        let clock = Clock { instant: Instant::now(), time: Timestamp::MAX };
        assert_eq!(clock.time(clock.instant + Duration::from_secs(1)), Time(Timestamp::MAX));
    }
}
