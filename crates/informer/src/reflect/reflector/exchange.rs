//! A request that is under way: when it was sent, when something came, and how long it may last.

use std::time::Duration;

use tokio::time::Instant;

use crate::decode::frames::Change;

/// Half a lifetime: what is added to a clock instead of a duration that would overflow it.
const FAR: Duration = Duration::from_hours(24 * 365 * 30);

/// How many times the largest gap between bookmarks a watch may be silent.
const GAPS: u32 = 3;

/// The least silence that gives a watch up before its time. Bookmarks of a real server come every minute.
const SILENCE_MIN: Duration = Duration::from_mins(2);

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// When the answer began.
    pub(super) opened: Option<Instant>,
    /// When something came last; when it was asked, before that.
    pub(super) heard: Instant,
    /// When the server is to end it, from when it has opened. Of watches only.
    pub(super) timeout: Duration,
    /// Whether the position has moved.
    pub(super) brought: bool,
    /// Since when changes come, and nothing that belongs to a list. Of streamed lists only.
    pub(super) live_since: Option<Instant>,
}

impl Exchange {
    pub(super) fn new(now: Instant, timeout: Duration) -> Self {
        Self { opened: None, heard: now, timeout, brought: false, live_since: None }
    }

    pub(super) fn opened(&mut self, now: Instant) {
        self.opened.get_or_insert(now);
        self.heard(now);
    }

    /// Something came. A body cannot come before its answer, so that is there as well.
    pub(super) fn heard(&mut self, now: Instant) {
        self.opened.get_or_insert(now);
        self.heard = self.heard.max(now);
    }

    /// A part of a list has come, or a change before its end.
    pub(super) fn listed(&mut self, change: Change, now: Instant) {
        self.live_since = match change {
            Change::Added => None,
            Change::Modified | Change::Deleted => self.live_since.or(Some(now)),
        };
    }

    /// How long nothing has come.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.heard)
    }

    /// How long it was open.
    pub(super) fn lasted(&self, now: Instant) -> Duration {
        self.opened.map_or(Duration::ZERO, |opened| now.saturating_duration_since(opened))
    }
}

/// How often bookmarks come, over all watches of a reflector.
///
/// A server sends one about every minute, but only if its version has moved, so on an idle cluster some are left
/// out. Hence the largest gap is what counts, and gaps reach over watches that were given up as silent: a
/// reflector that was too impatient learns to wait longer.
#[derive(Debug, Default)]
pub(super) struct Cadence {
    last: Option<Instant>,
    gap_max: Option<Duration>,
}

impl Cadence {
    /// A bookmark came.
    pub(super) fn bookmark(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.gap_max = self.gap_max.max(Some(now.saturating_duration_since(last)));
        }
    }

    /// The server is not to blame for the gap that follows.
    pub(super) fn interrupt(&mut self) {
        self.last = None;
    }

    /// How long a watch may be silent; `None` while too little is known.
    pub(super) fn silence_max(&self) -> Option<Duration> {
        self.gap_max.map(|gap| gap.saturating_mul(GAPS).max(SILENCE_MIN))
    }
}

/// A time after another. Durations that are too long for a clock are decades.
pub(super) fn later(time: Instant, duration: Duration) -> Instant {
    time.checked_add(duration).unwrap_or_else(|| time + FAR)
}
