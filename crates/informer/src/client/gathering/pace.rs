//! When a connection is left alone.
//!
//! Only while data comes steadily. What comes after a silence is read at once, and so is what follows it: a
//! server that had stalled is late with all of it, and nobody is to wait longer for that. Nor is a connection left alone that has much
//! to say, such as a list: there is always something to be read then.

use std::time::Duration;

use tokio::time::Instant;

/// So many times in a row something must have come soon.
const STEADY: u32 = 4;

/// What is much at once, in bytes.
const MUCH: usize = 64 << 10;

/// The longest that a connection is left alone: what wakes nobody must not fill it.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How data comes over a connection.
#[derive(Debug)]
pub(super) struct Pace {
    /// How long it is left alone; zero for not at all.
    pause: Duration,
    /// How often in a row something came sooner than that, and was not much.
    steady: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    /// So much was read since something came.
    Reading(usize),
    /// Nothing was there, since then.
    Waiting(Instant),
}

impl Pace {
    pub(super) fn new(pause: Duration, now: Instant) -> Self {
        Self { pause: pause.min(PAUSE_MAX), steady: 0, state: State::Waiting(now) }
    }

    /// So many bytes were read.
    pub(super) fn came(&mut self, bytes: usize, now: Instant) {
        let before = match self.state {
            State::Reading(before) => before,
            State::Waiting(since) => {
                let is_soon = now.saturating_duration_since(since) < self.pause;
                self.steady = if is_soon { self.steady.saturating_add(1) } else { 0 };
                0
            }
        };
        self.state = State::Reading(before.saturating_add(bytes));
    }

    /// All that was there has been read. Returns until when the connection is left alone, if it is.
    pub(super) fn drained(&mut self, now: Instant) -> Option<Instant> {
        let State::Reading(bytes) = self.state else { return None };
        if bytes >= MUCH {
            self.steady = 0;
        }
        self.state = State::Waiting(now);
        (self.steady >= STEADY).then(|| now + self.pause)
    }

    /// The connection is no longer left alone. What comes is waited for from now on.
    pub(super) fn resumed(&mut self, now: Instant) {
        self.state = State::Waiting(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(3);
    const SOON: Duration = Duration::from_millis(2);

    /// A connection, and the time.
    struct Connection {
        pace: Pace,
        now: Instant,
    }

    impl Connection {
        fn new(pause: Duration) -> Self {
            let now = Instant::now();
            Self { pace: Pace::new(pause, now), now }
        }

        /// Something comes this long after it was waited for. Returns for how long the connection is left alone then.
        fn come(&mut self, wait: Duration, bytes: usize) -> Duration {
            self.now += wait;
            self.pace.came(bytes, self.now);
            let Some(until) = self.pace.drained(self.now) else { return Duration::ZERO };
            let pause = until - self.now;
            self.now = until;
            self.pace.resumed(until);
            pause
        }

        /// How often it comes until the connection is left alone, and then for how long.
        fn come_until_alone(&mut self, wait: Duration, bytes: usize) -> Option<(u32, Duration)> {
            (1..100).find_map(|number| {
                let pause = self.come(wait, bytes);
                (!pause.is_zero()).then_some((number, pause))
            })
        }
    }

    #[test]
    fn what_comes_soon_again_and_again_gathers() {
        let mut connection = Connection::new(PAUSE);
        assert_eq!(connection.come_until_alone(SOON, 1_000), Some((STEADY, PAUSE)));
        assert_eq!(connection.come_until_alone(SOON, 1_000), Some((1, PAUSE)));
    }

    #[test]
    fn what_comes_seldom_does_not() {
        assert_eq!(Connection::new(PAUSE).come_until_alone(PAUSE, 1_000), None);
    }

    #[test]
    fn after_a_silence_nothing_gathers_for_a_while() {
        let mut connection = Connection::new(PAUSE);
        connection.come_until_alone(SOON, 1_000);
        assert_eq!(connection.come(PAUSE, 1_000), Duration::ZERO);
        assert_eq!(connection.come_until_alone(SOON, 1_000), Some((STEADY, PAUSE)));
    }

    #[test]
    fn much_does_not_gather_however_it_is_read() {
        let mut connection = Connection::new(PAUSE);
        assert_eq!(connection.come_until_alone(SOON, MUCH), None);
        connection.come_until_alone(SOON, 1_000);
        connection.pace.came(MUCH - 1, connection.now);
        connection.pace.came(1, connection.now);
        assert_eq!(connection.pace.drained(connection.now), None);
        assert_eq!(connection.come_until_alone(SOON, 1_000), Some((STEADY, PAUSE)));
    }

    #[test]
    fn nobody_is_left_alone_twice_for_what_came_once() {
        let mut connection = Connection::new(PAUSE);
        connection.come_until_alone(SOON, 1_000);
        assert_eq!(connection.pace.drained(connection.now), None);
    }

    #[test]
    fn pause_has_an_upper_bound_and_may_be_none() {
        let pause = |pause| Connection::new(pause).come_until_alone(Duration::ZERO, 1);
        assert_eq!(pause(Duration::MAX), Some((STEADY, PAUSE_MAX)));
        assert_eq!(pause(Duration::ZERO), None);
    }
}
