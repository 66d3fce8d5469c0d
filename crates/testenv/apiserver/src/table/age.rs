//! Ages, in the short form of `kubectl get`.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The time of writing a table: ages are relative to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now(pub(crate) Timestamp);

impl Now {
    /// Returns the age of the object.
    pub(super) fn age(self, object: &Value) -> String {
        self.since(&object["metadata"]["creationTimestamp"])
    }

    /// Returns the time since a stored time.
    pub(super) fn since(self, time: &Value) -> String {
        parse(time).map_or_else(|| "<unknown>".to_owned(), |time| self.since_moment(time))
    }

    pub(super) fn since_moment(self, time: Timestamp) -> String {
        human_duration(self.0.duration_since(time))
    }
}

/// Parses a stored time, if there is one.
pub(super) fn parse(time: &Value) -> Option<Timestamp> {
    time.as_str()?.parse().ok()
}

/// Formats a duration with two or three significant digits, as Kubernetes does: a longer duration
/// has a coarser unit. A duration slightly below zero counts as zero, because clocks differ. Below
/// that it is invalid.
pub(super) fn human_duration(duration: SignedDuration) -> String {
    // Fractions are truncated, as in Go.
    let seconds = duration.as_secs();
    let in_units = |large: i64, large_name: &str, small: i64, small_name: &str| {
        let rest = seconds % large / small;
        if rest == 0 {
            format!("{}{large_name}", seconds / large)
        } else {
            format!("{}{large_name}{rest}{small_name}", seconds / large)
        }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => in_units(MINUTE, "m", 1, "s"),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => in_units(HOUR, "h", MINUTE, "m"),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => in_units(DAY, "d", HOUR, "h"),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => in_units(YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_get_coarser_as_they_get_longer() {
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (601, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 61, "3h1m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR, "8y"),
            (100 * YEAR, "100y"),
        ] {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), text, "{seconds}");
        }
    }

    #[test]
    fn fractions_of_a_second_are_truncated() {
        assert_eq!(human_duration(SignedDuration::from_millis(1999)), "1s");
        assert_eq!(human_duration(SignedDuration::from_millis(-1999)), "0s");
        assert_eq!(human_duration(SignedDuration::from_millis(-2000)), "<invalid>");
    }

    #[test]
    fn missing_time_is_unknown() {
        let now = Now("2026-01-02T00:00:00Z".parse().expect("a time"));
        assert_eq!(now.since(&json!("2026-01-01T00:00:00Z")), "24h");
        assert_eq!(now.since(&json!("2026-01-02T00:59:50.5+01:00")), "9s");
        assert_eq!(now.since(&Value::Null), "<unknown>");
        assert_eq!(now.age(&json!({"metadata": {}})), "<unknown>");
    }
}
