//! Which clock a test runs on, and waiting on it.
//!
//! On tokio's paused clock, time stands still while anybody has something to do, and then jumps to
//! the next timer: minutes cost nothing. On the wall clock they are minutes. Both are tokio's
//! timers, so one loop waits on both; only how long and how often it looks differs.

use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

/// How long a test waits on the paused clock, where waiting is free.
const PATIENCE_PAUSED: Duration = Duration::from_mins(5);

/// How long a test waits on the wall clock: enough for a real server on a busy machine.
const PATIENCE_WALL: Duration = Duration::from_mins(1);

/// How long `never` looks on the paused clock: longer than most retries and periods.
const WATCH_PAUSED: Duration = Duration::from_mins(10);

/// How long `never` looks on the wall clock, where a test that passes takes all of it.
const WATCH_WALL: Duration = Duration::from_secs(2);

/// On the paused clock a test also ends after so long on the wall, as far as its limit is within
/// these: a controller that keeps itself busy never lets that clock advance.
const ALARM: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(1));

/// The first pause between two looks. Pauses grow, so that a test that fails does not look a
/// hundred thousand times.
const PAUSE_PAUSED: Duration = Duration::from_millis(1);
const PAUSE_WALL: Duration = Duration::from_millis(10);

/// The longest pause on the wall clock. On the paused one it is this part of the limit.
const PAUSE_WALL_MAX: Duration = Duration::from_millis(100);
const PAUSE_PAUSED_PART: u32 = 300;

/// The clock of the runtime that a test runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Paused: `#[tokio::test(start_paused = true)]`. Time advances when nobody has anything to do.
    Paused,
    /// It shows the time on the wall.
    Wall,
}

impl Clock {
    /// The clock of the current runtime, as it is now: `tokio::time::resume` changes it.
    #[expect(clippy::disallowed_methods, reason = "it tells the paused clock from the real one")]
    pub fn current() -> Self {
        let (shown, began) = (Instant::now(), std::time::Instant::now());
        // Until the real clock has certainly moved.
        while std::time::Instant::now() == began {}
        if Instant::now() == shown { Self::Paused } else { Self::Wall }
    }

    /// One of two values, for a test that runs on both clocks.
    pub fn pick<T>(self, paused: T, wall: T) -> T {
        match self {
            Self::Paused => paused,
            Self::Wall => wall,
        }
    }

    /// How long a test waits for something, unless it is told otherwise.
    pub(crate) fn timeout(self) -> Duration {
        self.pick(PATIENCE_PAUSED, PATIENCE_WALL)
    }

    /// How long a test makes sure that something does not happen, unless it is told otherwise.
    pub(crate) fn watch_time(self) -> Duration {
        self.pick(WATCH_PAUSED, WATCH_WALL)
    }

    /// The name of the clock, in messages.
    pub(crate) fn name(self) -> &'static str {
        self.pick("the paused clock", "the wall clock")
    }

    /// Lets the time of this test run, if it is paused.
    pub fn resume() {
        if Self::current() == Self::Paused {
            tokio::time::resume();
        }
    }
}

/// Looks again and again until `look` returns something, at most for `limit`. `None` if it does
/// not. A look that lasts beyond the limit is dropped.
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
    let Alarm { rang, _keeps_on } =
        Alarm::after(clock.pick(limit.clamp(ALARM.0, ALARM.1), limit + ALARM.1));
    tokio::select! {
        biased;
        found = looking => found,
        _ = rang => None,
    }
}

/// Rings after a time on the wall, whatever tokio's clock shows. Not before its time: not even if
/// it is dropped.
struct Alarm {
    rang: oneshot::Receiver<()>,
    /// The thread ends when this is dropped.
    _keeps_on: mpsc::Sender<()>,
}

impl Alarm {
    fn after(time: Duration) -> Self {
        let ((keeps_on, dropped), (bell, rang)) = (mpsc::channel::<()>(), oneshot::channel());
        // A thread, because a blocking task would keep the paused clock from advancing.
        std::thread::spawn(move || {
            if dropped.recv_timeout(time) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = bell.send(());
            }
        });
        Self { rang, _keeps_on: keeps_on }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn paused_clock_is_told_from_the_real_one() {
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
