//! Detects proxies that close idle connections.
//!
//! Many proxies and load balancers close idle connections in less than a minute, before the
//! server's next bookmark. A quiet watch that is always closed before its bookmark resumes from the
//! same position each time, until the server no longer has that version and everything is listed.
//! So when watches are cut after the same silence, the next ones are requested with a shorter
//! timeout: the server sends a bookmark two seconds before the timeout of a watch.
//!
//! A single cut proves nothing: a server that restarts also cuts its watches. If a watch survives a
//! longer silence, the assumption is dropped. Timeouts stay short for an hour after the last cut.
//! Then long ones are tried again. The silence is still remembered, so one more cut makes timeouts
//! short again, and is not reported as a new finding.

use std::time::Duration;

use tokio::time::Instant;

use super::active_request::saturating_add;

/// Watches that are cut after a shorter silence are not cut because they are idle.
const IDLE_CUT_MIN: Duration = Duration::from_secs(10);

/// How long timeouts stay short after the last cut.
const SHORT_TIMEOUTS_FOR: Duration = Duration::from_hours(1);

/// The silence after which a proxy cuts watches, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// The silence after which watches are cut, and until when timeouts are short because of it.
    known: Option<(Duration, Instant)>,
    /// The silence after which the last watch was cut.
    last: Option<Duration>,
}

impl Cuts {
    /// A watch ended before its time, after `silence`. Returns whether watches are known to be
    /// cut after that silence.
    pub(super) fn note_cut(&mut self, silence: Duration, now: Instant) -> bool {
        if silence < IDLE_CUT_MIN {
            return false;
        }
        let is_about = |other: &Duration| silence.abs_diff(*other) < silence.max(*other) / 5;
        let similar = self.last.replace(silence).into_iter().chain(self.silence()).filter(is_about);
        let Some(least) = similar.min() else { return false };
        self.known = Some((least.min(silence), saturating_add(now, SHORT_TIMEOUTS_FOR)));
        true
    }

    /// Something arrived after `silence`.
    pub(super) fn note_survived(&mut self, silence: Duration) {
        let is_disproved = |cut: &Duration| *cut < silence;
        if self.last.as_ref().is_some_and(is_disproved) {
            self.last = None;
        }
        if self.silence().as_ref().is_some_and(is_disproved) {
            self.known = None;
        }
    }

    /// The silence after which watches are cut, if it is known. Does not expire.
    pub(super) fn silence(&self) -> Option<Duration> {
        self.known.map(|(silence, _)| silence)
    }

    /// The longest timeout that ends a watch before it is cut; `None` if there is no limit.
    pub(super) fn timeout_max(&self, now: Instant) -> Option<Duration> {
        let (silence, _) = self.known.filter(|&(_, until)| now < until)?;
        Some(silence / 10 * 9)
    }
}
