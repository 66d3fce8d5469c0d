//! Detects proxies that cut connections which are silent for some time.
//!
//! Many proxies and load balancers close idle connections in less than a minute, before the
//! server's next bookmark. A quiet watch that is cut each time before its bookmark is resumed, but
//! from a position that only grows older, until the server no longer has it and everything is
//! listed. So when watches are cut after the same silence, the server is asked to end the next ones
//! earlier: it sends a bookmark two seconds before the timeout of a watch.
//!
//! A single cut says nothing, because a server that restarts cuts as well. If a watch
//! survives a longer silence, the assumption is dropped. Otherwise it is kept for an hour.

use std::time::Duration;

use tokio::time::Instant;

use super::exchange::later;

/// A cut after a shorter silence has another reason.
const SILENCE_MIN: Duration = Duration::from_secs(10);

/// How long cuts are expected after the last one.
const KNOWN_FOR: Duration = Duration::from_hours(1);

/// After what silence watches are cut.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// The silence after which watches are cut, and until when that is believed.
    known: Option<(Duration, Instant)>,
    /// The silence after which the last watch was cut.
    last: Option<Duration>,
}

impl Cuts {
    /// A watch ended before its time, after `silence`. Returns whether watches are known to be
    /// cut after that silence.
    pub(super) fn note_cut(&mut self, silence: Duration, now: Instant) -> bool {
        if silence < SILENCE_MIN {
            return false;
        }
        let is_about = |other: &Duration| silence.abs_diff(*other) < silence.max(*other) / 5;
        let similar = self.last.replace(silence).into_iter().chain(self.silence()).filter(is_about);
        let Some(least) = similar.min() else { return false };
        self.known = Some((least.min(silence), later(now, KNOWN_FOR)));
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

    /// The silence after which watches are cut, as far as known.
    pub(super) fn silence(&self) -> Option<Duration> {
        self.known.map(|(silence, _)| silence)
    }

    /// The longest timeout of a watch that is not cut; `None` for any.
    pub(super) fn timeout_max(&self, now: Instant) -> Option<Duration> {
        let (silence, _) = self.known.filter(|&(_, until)| now < until)?;
        Some(silence / 10 * 9)
    }
}
