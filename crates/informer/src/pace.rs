//! When a watch is read: as soon as something comes, or when events have gathered for a moment.
//!
//! An event that comes alone costs several times what it costs among others: a thread has to wake up, and all that it
//! needs has left the processor's caches meanwhile. So an informer may be told to leave a watch alone for a moment after
//! it was read. It does that only while events come steadily. What comes after a pause is read at once, and so is what
//! follows it: a server that had stalled is late with all of it, and nobody is to wait longer for that.

use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, sleep_until};

use crate::source::{Body, SourceError};

/// So many times in a row something must have come soon.
const STEADY: u32 = 8;

/// The longest that a watch is left alone: its position must not grow old, nor its connection full.
const GATHER_MAX: Duration = Duration::from_secs(1);

/// How a watch is read.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How long it is left alone; zero for not at all.
    gather: Duration,
    /// How often in a row something came sooner than that.
    steady: u32,
    /// Since when something is waited for.
    waits_since: Instant,
}

impl Pace {
    pub(crate) fn new(gather: Duration, now: Instant) -> Self {
        Self { gather: gather.min(GATHER_MAX), steady: 0, waits_since: now }
    }

    /// What has arrived already; `None` if that is nothing, after the time for which the watch is left alone.
    pub(crate) async fn gathered(&mut self, body: &mut Body) -> Option<Option<Chunk>> {
        if self.gather.is_zero() {
            return None;
        }
        let ready = body.next().now_or_never();
        if ready.is_none() {
            self.wait(Instant::now());
            sleep_until(self.waits_since).await;
        }
        ready
    }

    /// All that was there has been read: decides from when on something is waited for.
    fn wait(&mut self, now: Instant) {
        let gather = if self.steady < STEADY { Duration::ZERO } else { self.gather };
        self.waits_since = now + gather;
    }

    /// Something has come that was waited for.
    pub(crate) fn came(&mut self, now: Instant) {
        let waited = now.saturating_duration_since(self.waits_since);
        self.steady = if waited < self.gather { self.steady.saturating_add(1) } else { 0 };
    }
}

/// A piece of a body.
type Chunk = Result<Bytes, SourceError>;

#[cfg(test)]
mod tests {
    use super::*;

    const GATHER: Duration = Duration::from_millis(5);

    /// How long the watch is left alone before each event, if they come so many milliseconds after it is waited for.
    fn pauses(gather: Duration, waits: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        let mut now = Instant::now();
        let mut pace = Pace::new(gather, now);
        let pause = |wait| {
            pace.wait(now);
            let pause = pace.waits_since - now;
            now = pace.waits_since + Duration::from_millis(wait);
            pace.came(now);
            pause
        };
        waits.into_iter().map(pause).collect()
    }

    #[test]
    fn steady_events_gather_and_others_do_not() {
        let pauses = pauses(GATHER, [[2; 10], [5; 10], [1; 10]].concat());
        let gathered: Vec<bool> = pauses.iter().map(|pause| *pause == GATHER).collect();
        let steady = STEADY as usize;
        // The eleventh was waited for as the others were, and then was late.
        assert!(gathered[..steady].iter().all(|gathered| !gathered), "{gathered:?}");
        assert!(gathered[steady..=10].iter().all(|gathered| *gathered), "{gathered:?}");
        assert!(gathered[11..20 + steady].iter().all(|gathered| !gathered), "{gathered:?}");
        assert!(gathered[20 + steady..].iter().all(|gathered| *gathered), "{gathered:?}");
        assert!(pauses.iter().all(|pause| pause.is_zero() || *pause == GATHER));
    }

    #[test]
    fn without_a_time_nothing_gathers() {
        assert!(pauses(Duration::ZERO, [0; 100]).iter().all(Duration::is_zero));
    }

    #[test]
    fn nothing_gathers_for_longer_than_a_second() {
        assert_eq!(pauses(Duration::MAX, [0; 20]).into_iter().max(), Some(GATHER_MAX));
    }
}
