//! A request that is under way: when it was sent, when something arrived, and how long it may last.

use std::time::Duration;

use tokio::time::Instant;

use crate::decode::frames::EventType;

/// Replaces a duration that is too long to be added to a time.
const FAR: Duration = Duration::from_hours(24 * 365 * 30);

/// A watch may be silent for this many times the largest gap between bookmarks.
const GAPS: u32 = 3;

/// The shortest silence after which a watch is given up before its timeout. A real server sends a
/// bookmark every minute.
const GIVE_UP_SILENCE_MIN: Duration = Duration::from_mins(2);

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActiveRequest {
    /// When the answer began.
    pub(super) opened: Option<Instant>,
    /// When something last arrived, or when the request was sent.
    pub(super) last_received: Instant,
    /// The `timeoutSeconds` of a watch, also of one that begins with a list; zero for a page.
    pub(super) timeout: Duration,
    /// Whether the position has moved.
    pub(super) has_advanced: bool,
    /// Since when only modifications and deletions arrive, and no items. Only for streamed lists.
    pub(super) live_since: Option<Instant>,
}

impl ActiveRequest {
    pub(super) fn new(now: Instant, timeout: Duration) -> Self {
        Self { opened: None, last_received: now, timeout, has_advanced: false, live_since: None }
    }

    pub(super) fn on_opened(&mut self, now: Instant) {
        self.opened.get_or_insert(now);
        self.on_received(now);
    }

    /// Something arrived. That implies that the answer has begun.
    pub(super) fn on_received(&mut self, now: Instant) {
        self.opened.get_or_insert(now);
        self.last_received = self.last_received.max(now);
    }

    /// An item of a list arrived, or a change before the end of the list.
    pub(super) fn note_initial_event(&mut self, change: EventType, now: Instant) {
        self.live_since = match change {
            EventType::Added => None,
            EventType::Modified | EventType::Deleted => self.live_since.or(Some(now)),
        };
    }

    /// How long nothing has arrived.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last_received)
    }

    /// How long it was open.
    pub(super) fn lasted(&self, now: Instant) -> Duration {
        self.opened.map_or(Duration::ZERO, |opened| now.saturating_duration_since(opened))
    }
}

/// How often bookmarks arrive, over all watches of a reflector.
///
/// A server sends one about every minute, but only if its version has moved, so an idle cluster
/// sends fewer. That is why the largest gap counts, and why gaps span watches that were given up as
/// silent: if the limit was too short, the next bookmark raises it.
#[derive(Debug, Default)]
pub(super) struct BookmarkInterval {
    last: Option<Instant>,
    gap_max: Option<Duration>,
}

impl BookmarkInterval {
    /// A bookmark arrived.
    pub(super) fn note_bookmark(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.gap_max = self.gap_max.max(Some(now.saturating_duration_since(last)));
        }
    }

    /// The watch failed, so the gap between the last bookmark and the next one is not measured.
    pub(super) fn interrupt(&mut self) {
        self.last = None;
    }

    /// How long a watch may be silent; `None` before two bookmarks have arrived.
    pub(super) fn silence_max(&self) -> Option<Duration> {
        self.gap_max.map(|gap| gap.saturating_mul(GAPS).max(GIVE_UP_SILENCE_MIN))
    }
}

/// `time + duration`, or a time decades away if that overflows.
pub(super) fn saturating_add(time: Instant, duration: Duration) -> Instant {
    time.checked_add(duration).unwrap_or_else(|| time + FAR)
}
