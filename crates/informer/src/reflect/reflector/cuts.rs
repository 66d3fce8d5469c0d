//! What stands between us and the server, and cuts connections that are silent for some time.
//!
//! Proxies and load balancers do that, many after less than the minute in which a server sends a bookmark. A quiet watch
//! that is cut each time before its bookmark is resumed, but from a position that only grows older, until the server
//! does not know it any more and everything is listed. So when watches are cut after the same silence, the
//! server is asked to end the next ones before it would come to that. Two seconds before its cache ends a watch, it sends
//! a bookmark.
//!
//! A single cut says nothing: a server that restarts cuts as well. And whoever has lived through a longer silence, as
//! every quiet watch does whose bookmark comes, was not cut for it: then all of it is forgotten. Otherwise it is tried again
//! after an hour.

use std::time::Duration;

use tokio::time::Instant;

use super::exchange::later;

/// What is cut after a shorter silence is not cut for its silence.
const SILENCE_MIN: Duration = Duration::from_secs(10);

/// How long it is known after the last cut.
const KNOWN_FOR: Duration = Duration::from_hours(1);

/// After what silence watches are cut.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// After so long, and that is believed until then.
    known: Option<(Duration, Instant)>,
    /// After so long the last one was cut.
    last: Option<Duration>,
}

impl Cuts {
    /// A watch has ended before its time, after so long a silence. Returns whether that is how watches are cut here.
    pub(super) fn cut(&mut self, silence: Duration, now: Instant) -> bool {
        if silence < SILENCE_MIN {
            return false;
        }
        let is_about = |other: &Duration| silence.abs_diff(*other) < silence.max(*other) / 5;
        let alike = self.last.replace(silence).into_iter().chain(self.silence()).filter(is_about);
        let Some(least) = alike.min() else { return false };
        self.known = Some((least.min(silence), later(now, KNOWN_FOR)));
        true
    }

    /// Something came after so long a silence.
    pub(super) fn survived(&mut self, silence: Duration) {
        let is_refuted = |cut: &Duration| *cut < silence;
        if self.last.as_ref().is_some_and(is_refuted) {
            self.last = None;
        }
        if self.silence().as_ref().is_some_and(is_refuted) {
            self.known = None;
        }
    }

    /// After what silence watches are cut, as was last known.
    pub(super) fn silence(&self) -> Option<Duration> {
        self.known.map(|(silence, _)| silence)
    }

    /// The longest that a watch should last; `None` for as long as it likes.
    pub(super) fn timeout_max(&self, now: Instant) -> Option<Duration> {
        let (silence, _) = self.known.filter(|&(_, until)| now < until)?;
        Some(silence / 10 * 9)
    }
}
