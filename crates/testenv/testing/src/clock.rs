//! The clock that a test runs on, and waiting on it.
//!
//! tokio's paused clock stands still while any task has work, and then jumps to the next timer:
//! minutes cost nothing. On the wall clock they take minutes. Both are tokio's timers, so one loop
//! waits on both; only its limits and intervals differ.

use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

/// How long a test waits on the paused clock, where waiting is free.
const PATIENCE_PAUSED: Duration = Duration::from_mins(5);

/// How long a test waits on the wall clock: enough for a real server on a busy machine.
const PATIENCE_WALL: Duration = Duration::from_mins(1);

/// How long `never` watches on the paused clock: longer than most retries and periods.
const WATCH_PAUSED: Duration = Duration::from_mins(10);

/// How long `never` watches on the wall clock, where a passing test takes all of it.
const WATCH_WALL: Duration = Duration::from_secs(2);

/// A test on the paused clock also has a limit in real time: its own limit, clamped to this range.
/// Otherwise a controller that is always busy would block the test forever, because the paused
/// clock would not advance.
const WALL_TIMEOUT_RANGE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(1));

/// The first pause between two checks. Pauses grow, so that a failing test does not check a hundred
/// thousand times.
const PAUSE_PAUSED: Duration = Duration::from_millis(1);
const PAUSE_WALL: Duration = Duration::from_millis(10);

/// The longest pause between two checks on the wall clock. On the paused clock it is this fraction
/// of the limit.
const PAUSE_WALL_MAX: Duration = Duration::from_millis(100);
const PAUSE_PAUSED_PART: u32 = 300;

/// The clock of the runtime that a test runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Paused: `#[tokio::test(start_paused = true)]`. Time advances when no task has work.
    Paused,
    /// Real time.
    Wall,
}

impl Clock {
    /// Returns the clock of the current runtime at this moment: `tokio::time::resume` changes it.
    #[expect(clippy::disallowed_methods, reason = "it tells the paused clock from the real one")]
    pub fn current() -> Self {
        let (shown, began) = (Instant::now(), std::time::Instant::now());
        // Waits until the real clock has moved.
        while std::time::Instant::now() == began {}
        if Instant::now() == shown { Self::Paused } else { Self::Wall }
    }

    /// Picks one of two values, for a test that runs on both clocks.
    pub fn pick<T>(self, paused: T, wall: T) -> T {
        match self {
            Self::Paused => paused,
            Self::Wall => wall,
        }
    }

    /// The default limit for waiting.
    pub(crate) fn timeout(self) -> Duration {
        self.pick(PATIENCE_PAUSED, PATIENCE_WALL)
    }

    /// The default time for which `never` watches.
    pub(crate) fn watch_time(self) -> Duration {
        self.pick(WATCH_PAUSED, WATCH_WALL)
    }

    /// The name of the clock in messages.
    pub(crate) fn name(self) -> &'static str {
        self.pick("the paused clock", "the wall clock")
    }

    /// Resumes the clock if it is paused.
    pub fn resume() {
        if Self::current() == Self::Paused {
            tokio::time::resume();
        }
    }
}

/// Calls `look` repeatedly until it returns something, at most for `limit`; otherwise returns
/// `None`. A call that lasts beyond the limit is dropped.
pub(crate) async fn poll<T>(
    limit: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> Option<T> {
    let clock = Clock::current();
    let (deadline, mut pause) = (Instant::now() + limit, clock.pick(PAUSE_PAUSED, PAUSE_WALL));
    let longest = clock.pick(limit / PAUSE_PAUSED_PART, PAUSE_WALL_MAX).max(pause);
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return Some(found);
            }
            let now = Instant::now();
            if now >= deadline {
                return None;
            }
            sleep(pause.min(deadline - now)).await;
            pause = (pause * 2).min(longest);
        }
    };
    let WallClockTimeout { elapsed, _keep_alive } = WallClockTimeout::after(clock.pick(
        limit.clamp(WALL_TIMEOUT_RANGE.0, WALL_TIMEOUT_RANGE.1),
        limit + WALL_TIMEOUT_RANGE.1,
    ));
    tokio::select! {
        biased;
        found = looking => found,
        _ = elapsed => None,
    }
}

/// Fires after a time on the wall clock, independent of tokio's clock. Dropping it does not fire
/// it.
struct WallClockTimeout {
    elapsed: oneshot::Receiver<()>,
    /// Dropping it ends the thread.
    _keep_alive: mpsc::Sender<()>,
}

impl WallClockTimeout {
    fn after(time: Duration) -> Self {
        let ((keeps_on, dropped), (bell, elapsed)) = (mpsc::channel::<()>(), oneshot::channel());
        // A thread, because a blocking task would keep the paused clock from advancing.
        std::thread::spawn(move || {
            if dropped.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = bell.send(());
            }
        });
        Self { elapsed, _keep_alive: keeps_on }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn paused_clock_is_detected() {
        assert_eq!(Clock::current(), Clock::Paused);
        Clock::resume();
        assert_eq!(Clock::current(), Clock::Wall);
        Clock::resume();
        assert_eq!(Clock::current(), Clock::Wall);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_on_the_paused_clock_ends_at_the_limit() {
        let began = Instant::now();
        let found: Option<()> = poll(Duration::from_hours(1), async || None).await;
        assert_eq!((found, began.elapsed()), (None, Duration::from_hours(1)));
    }
}
