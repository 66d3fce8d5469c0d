//! When a connection is left alone.
//!
//! While data comes steadily: each time sooner than it would be left alone for. What comes after a silence is read at
//! once, and so is what follows it for as long as the silence was, since a server that had stalled is late with all of it,
//! and nobody is to wait longer for that. Nor is a connection left alone that has much to say: there is always something to
//! be read then.

use std::time::Duration;

use tokio::time::Instant;

/// So many times in a row something must have come soon.
const STEADY: u32 = 4;

/// What is much at once, in bytes.
const MUCH: usize = 64 << 10;

/// The longest that a connection is left alone: what wakes nobody must not fill it.
const MOMENT_MAX: Duration = Duration::from_millis(20);

/// The longest that a server is taken to be late for after a silence.
const LATE_MAX: Duration = Duration::from_millis(100);

/// How data comes over a connection.
#[derive(Debug)]
pub(super) struct Pace {
    /// For how long it is left alone; zero for not at all.
    moment: Duration,
    /// How often in a row something came sooner than that, and was not much.
    steady: u32,
    state: State,
    /// Until then, what comes may be late already.
    late_until: Instant,
    /// Whether somebody waits to write.
    is_writing: bool,
}

#[derive(Debug)]
enum State {
    /// So much was read since something came.
    Reading(usize),
    /// Nothing has come since then, and what comes is read at once.
    Waiting(Instant),
    /// It is left alone, since then.
    Alone(Instant),
}

impl Pace {
    pub(super) fn new(moment: Duration, now: Instant) -> Self {
        let moment = moment.min(MOMENT_MAX);
        Self { moment, steady: 0, state: State::Waiting(now), late_until: now, is_writing: false }
    }

    /// So many bytes were read.
    pub(super) fn came(&mut self, bytes: usize, now: Instant) {
        let before = match self.state {
            State::Reading(before) => before,
            State::Waiting(since) => {
                let silence = now.saturating_duration_since(since);
                if silence < self.moment {
                    self.steady = self.steady.saturating_add(1);
                } else {
                    self.steady = 0;
                    self.late_until = now + silence.min(LATE_MAX);
                }
                0
            }
            State::Alone(_) => {
                self.steady = self.steady.saturating_add(1);
                0
            }
        };
        self.state = State::Reading(before.saturating_add(bytes));
    }

    /// Nothing is there that was not read. Returns until when the connection is left alone, if it is.
    pub(super) fn drained(&mut self, now: Instant) -> Option<Instant> {
        let bytes = match self.state {
            State::Reading(bytes) => bytes,
            State::Waiting(_) => return None,
            State::Alone(since) => {
                self.steady = 0;
                self.state = State::Waiting(since);
                return None;
            }
        };
        if bytes >= MUCH {
            self.steady = 0;
        }
        let is_alone = self.steady >= STEADY && now >= self.late_until && !self.is_writing;
        self.state = if is_alone { State::Alone(now) } else { State::Waiting(now) };
        is_alone.then(|| now + self.moment)
    }

    /// Something was written, or waits to be. What comes then is an answer.
    pub(super) fn wrote(&mut self, is_pending: bool) {
        self.steady = 0;
        self.is_writing = is_pending;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(3);
    const SOON: Duration = Duration::from_millis(2);

    /// A connection, and the time.
    struct Connection {
        pace: Pace,
        now: Instant,
    }

    impl Connection {
        fn new(moment: Duration) -> Self {
            let now = Instant::now();
            Self { pace: Pace::new(moment, now), now }
        }

        /// Something comes this long after it was waited for. Returns for how long the connection is left alone then.
        fn come(&mut self, wait: Duration, bytes: usize) -> Duration {
            self.now += wait;
            self.pace.came(bytes, self.now);
            let Some(until) = self.pace.drained(self.now) else { return Duration::ZERO };
            let moment = until - self.now;
            self.now = until;
            moment
        }

        /// How often it comes until the connection is left alone, and then for how long.
        fn come_until_alone(&mut self, wait: Duration, bytes: usize) -> Option<(u32, Duration)> {
            (1..=1_000).find_map(|number| {
                let moment = self.come(wait, bytes);
                (!moment.is_zero()).then_some((number, moment))
            })
        }
    }

    #[test]
    fn what_comes_soon_again_and_again_gathers() {
        let mut connection = Connection::new(MOMENT);
        assert_eq!(connection.come_until_alone(SOON, 1_000), Some((STEADY, MOMENT)));
        assert_eq!(connection.come_until_alone(SOON, 1_000), Some((1, MOMENT)));
    }

    #[test]
    fn what_comes_seldom_does_not() {
        assert_eq!(Connection::new(MOMENT).come_until_alone(MOMENT, 1_000), None);
    }

    #[test]
    fn after_a_moment_that_brings_nothing_nothing_gathers_for_a_while() {
        let mut connection = Connection::new(MOMENT);
        connection.come_until_alone(SOON, 1_000);
        assert_eq!(connection.pace.drained(connection.now), None);
        assert_eq!(connection.come_until_alone(SOON, 1_000), Some((STEADY + 1, MOMENT)));
    }

    #[test]
    fn silence_ends_what_was_steady() {
        let mut connection = Connection::new(MOMENT);
        for _ in 1..STEADY {
            assert_eq!(connection.come(SOON, 1_000), Duration::ZERO);
        }
        assert_eq!(connection.come(MOMENT, 1_000), Duration::ZERO);
        assert_eq!(connection.come_until_alone(SOON, 1_000), Some((STEADY, MOMENT)));
    }

    /// For how many milliseconds all is read at once, if something comes in each.
    fn read_for(connection: &mut Connection) -> u128 {
        let began = connection.now;
        let alone = connection.come_until_alone(Duration::from_millis(1), 1_000);
        let (_, moment) = alone.expect("it comes steadily");
        (connection.now - began - moment).as_millis()
    }

    #[test]
    fn what_comes_after_a_stall_is_read_at_once_for_as_long_as_that_took() {
        let mut connection = Connection::new(MOMENT);
        assert_eq!(connection.come(Duration::from_millis(30), 1_000), Duration::ZERO);
        assert_eq!(read_for(&mut connection), 30);
    }

    #[test]
    fn stall_begins_when_the_connection_is_left_alone() {
        let mut connection = Connection::new(MOMENT);
        connection.come_until_alone(SOON, 1_000);
        assert_eq!(connection.pace.drained(connection.now), None);
        assert_eq!(connection.come(Duration::from_millis(30), 1_000), Duration::ZERO);
        assert_eq!(read_for(&mut connection), 33);
    }

    #[test]
    fn nobody_is_late_for_long_after_hours_of_silence() {
        let mut connection = Connection::new(MOMENT);
        assert_eq!(connection.come(Duration::from_hours(1), 1_000), Duration::ZERO);
        assert_eq!(read_for(&mut connection), LATE_MAX.as_millis());
    }

    #[test]
    fn nothing_gathers_after_a_write_or_during_one() {
        let mut connection = Connection::new(MOMENT);
        connection.come_until_alone(SOON, 1_000);
        connection.pace.wrote(true);
        assert_eq!(connection.come_until_alone(SOON, 1_000), None);
        connection.pace.wrote(false);
        assert_eq!(connection.come_until_alone(SOON, 1_000), Some((STEADY, MOMENT)));
    }

    #[test]
    fn much_does_not_gather_however_it_is_read() {
        let mut connection = Connection::new(MOMENT);
        assert_eq!(connection.come_until_alone(SOON, MUCH), None);
        connection.come_until_alone(SOON, 1_000);
        connection.pace.came(MUCH - 1, connection.now);
        connection.pace.came(1, connection.now);
        assert_eq!(connection.pace.drained(connection.now), None);
        assert_eq!(connection.come_until_alone(SOON, 1_000), Some((STEADY, MOMENT)));
    }

    #[test]
    fn who_waits_already_goes_on_waiting() {
        let mut connection = Connection::new(MOMENT);
        connection.come(SOON, 1_000);
        connection.now += MOMENT;
        assert_eq!(connection.pace.drained(connection.now), None);
        assert_eq!(connection.come(Duration::ZERO, 1_000), Duration::ZERO);
        assert_eq!(connection.come_until_alone(SOON, 1_000), Some((STEADY, MOMENT)), "it was late");
    }

    #[test]
    fn moment_has_an_upper_bound_and_may_be_none() {
        let alone = |moment| Connection::new(moment).come_until_alone(Duration::ZERO, 1);
        assert_eq!(alone(Duration::MAX), Some((STEADY, MOMENT_MAX)));
        assert_eq!(alone(Duration::ZERO), None);
    }
}
