//! A bound for log lines that clients can cause.
//!
//! Whoever reaches the port of a server can make requests that fail, without authentication. One
//! line for each would fill the disk, and hide all other lines. So of each kind there is one line a
//! minute, which says how many were left out since the last one.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a kind is silent after a line.
const PERIOD: Duration = Duration::from_mins(1);

/// Allows one log line a minute of each kind. For lines that clients cause, also those of handlers.
///
/// Its clock is tokio's.
///
/// ```
/// use windlass_serve::LogLimit;
///
/// let limit = LogLimit::new();
/// for name in ["a", "b", "c"] {
///     if let Some(line) = limit.line("unknown name") {
///         tracing::warn!(name, left_out = line.left_out, "refused: the name is unknown");
///     }
/// }
/// ```
#[derive(Debug, Default)]
pub struct LogLimit {
    /// By kind, of which there are as many as in the code.
    kinds: Mutex<BTreeMap<&'static str, Kind>>,
}

#[derive(Debug)]
struct Kind {
    silent_until: Instant,
    left_out: u64,
}

/// A line that may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// How many lines of the kind were left out since the last one, if any were: a field of the
    /// line.
    pub left_out: Option<u64>,
}

impl LogLimit {
    /// No line was written yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { kinds: Mutex::new(BTreeMap::new()) }
    }

    /// The line, if one of this kind may be written now. Otherwise, it is counted as left out.
    pub fn line(&self, kind: &'static str) -> Option<Line> {
        let now = Instant::now();
        let silent_until = now + PERIOD;
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = kinds.get_mut(kind) else {
            kinds.insert(kind, Kind { silent_until, left_out: 0 });
            return Some(Line { left_out: None });
        };
        if now < known.silent_until {
            known.left_out += 1;
            return None;
        }
        let left_out = std::mem::replace(known, Kind { silent_until, left_out: 0 }).left_out;
        Some(Line { left_out: (left_out > 0).then_some(left_out) })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn kind_has_one_line_a_minute_with_a_count_of_the_others() {
        let limit = LogLimit::new();
        assert_eq!(limit.line("a"), Some(Line { left_out: None }));
        for _ in 0..3 {
            advance(Duration::from_secs(15)).await;
            assert_eq!(limit.line("a"), None);
        }
        assert_eq!(limit.line("b"), Some(Line { left_out: None }));
        advance(Duration::from_secs(15)).await;
        assert_eq!(limit.line("a"), Some(Line { left_out: Some(3) }));
        advance(PERIOD).await;
        assert_eq!(limit.line("a"), Some(Line { left_out: None }));
    }
}
