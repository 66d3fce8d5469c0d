//! How long a webhook may take.

use std::time::Duration;

/// The API server takes no timeout above this.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(30);

/// The API server's own default.
pub(crate) const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// How long the server waits for a conversion.
pub(crate) const CONVERSION_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that is kept back for the way to the server: a tenth of the timeout, within these.
const MARGIN_MIN: Duration = Duration::from_millis(50);
const MARGIN_MAX: Duration = Duration::from_secs(1);

/// How long the answer to a request may take: what the server says in `?timeout=`, or else
/// `fallback`, minus a margin. So the webhook answers before the server gives up on it.
pub(crate) fn bound(query: Option<&str>, fallback: Duration) -> Duration {
    let mut pairs = query.unwrap_or_default().split('&');
    let asked = pairs.find_map(|pair| parse(pair.strip_prefix("timeout=")?));
    let timeout = asked.filter(|asked| !asked.is_zero()).unwrap_or(fallback).min(TIMEOUT_MAX);
    timeout.saturating_sub((timeout / 10).clamp(MARGIN_MIN, MARGIN_MAX))
}

/// A duration as Go writes it: `10s`, `1m30s`, `500ms`, `1.5s`.
fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = tail;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_timeout_minus_a_margin_is_the_bound() {
        let of = |query| bound(Some(query), TIMEOUT_DEFAULT);
        assert_eq!(of("timeout=10s"), Duration::from_secs(9));
        assert_eq!(of("a=b&timeout=1s"), Duration::from_millis(900));
        assert_eq!(of("timeout=500ms"), Duration::from_millis(450));
        assert_eq!(of("timeout=1m0s"), Duration::from_secs(29));
    }

    #[test]
    fn without_a_valid_timeout_the_webhooks_own_counts() {
        for query in ["", "timeout=", "timeout=0s", "timeout=x", "timeout=9", "timeout=1e999s"] {
            assert_eq!(bound(Some(query), TIMEOUT_DEFAULT), Duration::from_secs(9), "{query}");
        }
        assert_eq!(bound(None, CONVERSION_TIMEOUT), Duration::from_secs(29));
    }
}
