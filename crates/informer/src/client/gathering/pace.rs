//! When a connection is left alone, and until how much has come.
//!
//! While data comes steadily: each time sooner than it would be left alone for at most. And only until three quarters of
//! what comes in that time on average are there. What comes after a silence may be late already, because the server was
//! held up, or this program: it is read at once, and so is what follows, for as long as the silence was. Nor is a
//! connection left alone that has much to say: there is always something to be read then.

use std::time::Duration;

use tokio::time::Instant;

/// So many times in a row something must have come soon.
const STEADY: u32 = 4;

/// What is much at once, in bytes.
const MUCH: u32 = 64 << 10;

/// For how long nothing gathers after a silence, at most: a long one is no stall.
const LATE_MAX: Duration = Duration::from_millis(100);

/// The longest that a connection is left alone: what wakes nobody must not fill it.
const MOMENT_MAX: Duration = Duration::from_millis(20);

/// How data comes over a connection.
#[derive(Debug)]
pub(super) struct Pace {
    /// For how long it is left alone at most; zero for not at all.
    moment: Duration,
    /// How often in a row something came sooner than that, and was not much.
    steady: u32,
    state: State,
    rate: Rate,
    /// When all was read the last time.
    drained: Instant,
    /// Until then, what comes may have been held up by the silence before it.
    late_until: Instant,
}

#[derive(Debug)]
enum State {
    /// So much was read since something came.
    Reading(u32),
    /// Nothing has come since then, and what comes is read at once.
    Waiting(Instant),
    /// It is left alone, since then.
    Alone(Instant),
}

/// How much comes, by the last times; the longer ago, the less they count.
#[derive(Debug, Default)]
struct Rate {
    bytes: u32,
    time: Duration,
}

/// How a connection is left alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Alone {
    pub(super) until: Instant,
    /// So many bytes end it earlier.
    pub(super) enough: u32,
}

impl Pace {
    pub(super) fn new(moment: Duration, now: Instant) -> Self {
        let moment = moment.min(MOMENT_MAX);
        let state = State::Waiting(now);
        Self { moment, steady: 0, state, rate: Rate::default(), drained: now, late_until: now }
    }

    /// Whether it is left alone, and nothing was read since.
    pub(super) fn is_alone(&self) -> bool {
        matches!(self.state, State::Alone(_))
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
                    self.late_until = self.late_until.max(now + silence.min(LATE_MAX));
                }
                0
            }
            State::Alone(_) => {
                self.steady = self.steady.saturating_add(1);
                0
            }
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.state = State::Reading(before.saturating_add(bytes));
    }

    /// Nothing is there that was not read. Returns how the connection is left alone, if it is.
    pub(super) fn drained(&mut self, now: Instant) -> Option<Alone> {
        let bytes = match self.state {
            State::Reading(bytes) => bytes.min(MUCH),
            State::Waiting(_) => return None,
            State::Alone(since) => {
                self.steady = 0;
                self.state = State::Waiting(since);
                return None;
            }
        };
        let time = now.saturating_duration_since(self.drained);
        self.drained = now;
        // A silence is none of the times between data that comes steadily, and what was held up not how much comes.
        let is_late = now < self.late_until;
        if !is_late {
            self.rate.came(bytes, time);
        }
        if bytes == MUCH {
            self.steady = 0;
        }
        if is_late || self.steady < STEADY {
            self.state = State::Waiting(now);
            return None;
        }
        self.state = State::Alone(now);
        let enough = (self.rate.within(self.moment) / 4 * 3).clamp(1, MUCH / 4);
        Some(Alone { until: now + self.moment, enough })
    }

    /// Something was written. What comes is an answer, and does not show how events come.
    pub(super) fn wrote(&mut self) {
        self.steady = 0;
    }
}

impl Rate {
    /// So much came, this long after what came before it.
    fn came(&mut self, bytes: u32, time: Duration) {
        self.bytes = (self.bytes - self.bytes / 8).saturating_add(bytes);
        self.time = self.time * 7 / 8 + time;
    }

    /// How much comes in such a time.
    fn within(&self, time: Duration) -> u32 {
        let bytes = u128::from(self.bytes) * time.as_micros() / self.time.as_micros().max(1);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(3);
    const SOON: Duration = Duration::from_millis(2);
    const EVENT: usize = 1_000;

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

        /// Something comes this long after all was read. Returns for how long the connection is left alone then, and
        /// until how much has come.
        fn come(&mut self, wait: Duration, bytes: usize) -> Option<(Duration, u32)> {
            self.now += wait;
            self.pace.came(bytes, self.now);
            let alone = self.pace.drained(self.now)?;
            Some((alone.until - self.now, alone.enough))
        }

        /// How often it comes until the connection is left alone, and then for how long.
        fn come_until_alone(&mut self, wait: Duration, bytes: usize) -> Option<(u32, Duration)> {
            (1..100).find_map(|number| Some((number, self.come(wait, bytes)?.0)))
        }
    }

    #[test]
    fn what_comes_soon_again_and_again_gathers() {
        let mut connection = Connection::new(MOMENT);
        assert_eq!(connection.come_until_alone(SOON, EVENT), Some((STEADY, MOMENT)));
        assert!(connection.pace.is_alone());
        assert_eq!(connection.come_until_alone(MOMENT, EVENT), Some((1, MOMENT)), "however late");
    }

    #[test]
    fn what_comes_seldom_does_not() {
        assert_eq!(Connection::new(MOMENT).come_until_alone(MOMENT, EVENT), None);
    }

    #[test]
    fn three_quarters_of_what_comes_in_that_time_are_enough() {
        let mut connection = Connection::new(Duration::from_millis(6));
        let mut enough_of =
            |bytes| (0..100).filter_map(|_| connection.come(SOON, bytes)).last().expect("alone").1;
        assert_eq!(enough_of(EVENT), 2_250);
        // So little is not divided exactly: what is forgotten is rounded down, by up to seven bytes.
        assert_eq!(enough_of(10), 24);
        assert_eq!(enough_of(1), 3);
        assert_eq!(enough_of(20_000), MUCH / 4);
    }

    #[test]
    fn silence_does_not_change_how_much_is_enough() {
        let mut connection = Connection::new(MOMENT);
        let before = (0..100).filter_map(|_| connection.come(SOON, EVENT)).last().expect("alone").1;
        assert_eq!(connection.pace.drained(connection.now), None);
        connection.now += Duration::from_hours(1);
        connection.come_until_alone(SOON, EVENT);
        let after = connection.come(SOON, EVENT).expect("alone").1;
        assert!((before / 10 * 9..=before).contains(&after), "{before} {after}");
    }

    #[test]
    fn after_a_moment_that_brings_nothing_nothing_gathers_for_a_while() {
        let mut connection = Connection::new(MOMENT);
        connection.come_until_alone(SOON, EVENT);
        connection.now += MOMENT;
        assert_eq!(connection.pace.drained(connection.now), None);
        assert!(!connection.pace.is_alone());
        assert_eq!(connection.come_until_alone(SOON, EVENT), Some((STEADY + 1, MOMENT)));
    }

    #[test]
    fn silence_ends_what_was_steady() {
        let mut connection = Connection::new(MOMENT);
        for _ in 1..STEADY {
            assert_eq!(connection.come(SOON, EVENT), None);
        }
        assert_eq!(connection.come(MOMENT, EVENT), None);
        assert_eq!(connection.come_until_alone(SOON, EVENT), Some((STEADY, MOMENT)));
    }

    #[test]
    fn after_a_silence_nothing_gathers_for_as_long_as_that_was() {
        let gathers_after = |silence| {
            let mut connection = Connection::new(MOMENT);
            connection.come_until_alone(SOON, EVENT);
            assert_eq!(connection.pace.drained(connection.now), None, "the moment brought nothing");
            assert_eq!(connection.come(silence, EVENT), None);
            connection.come_until_alone(SOON, EVENT).map(|(number, _)| SOON * number)
        };
        assert_eq!(gathers_after(Duration::from_millis(40)), Some(Duration::from_millis(40)));
        assert_eq!(gathers_after(Duration::from_hours(1)), Some(LATE_MAX));
    }

    #[test]
    fn a_short_silence_does_not_end_what_a_long_one_began() {
        let mut connection = Connection::new(MOMENT);
        assert_eq!(connection.come(LATE_MAX, EVENT), None);
        assert_eq!(connection.come(MOMENT, EVENT), None);
        let (number, _) = connection.come_until_alone(SOON, EVENT).expect("alone");
        assert!(MOMENT + SOON * number >= LATE_MAX, "{number}");
    }

    #[test]
    fn what_is_sent_at_once_after_a_silence_does_not_change_how_much_is_enough() {
        let mut connection = Connection::new(MOMENT);
        let before = (0..100).filter_map(|_| connection.come(SOON, EVENT)).last().expect("alone").1;
        assert_eq!(connection.pace.drained(connection.now), None);
        connection.come(Duration::from_millis(50), 20 * EVENT);
        connection.come(Duration::ZERO, 5 * EVENT);
        let after = (0..100).find_map(|_| connection.come(SOON, EVENT)).expect("alone").1;
        assert!((before / 10 * 9..=before).contains(&after), "{before} {after}");
    }

    #[test]
    fn nothing_gathers_after_a_write() {
        let mut connection = Connection::new(MOMENT);
        connection.come_until_alone(SOON, EVENT);
        connection.pace.wrote();
        assert_eq!(connection.come_until_alone(SOON, EVENT), Some((STEADY, MOMENT)));
    }

    #[test]
    fn much_does_not_gather_however_it_is_read() {
        let mut connection = Connection::new(MOMENT);
        let much = usize::try_from(MUCH).expect("64 bits");
        assert_eq!(connection.come_until_alone(SOON, much), None);
        connection.come_until_alone(SOON, EVENT);
        connection.pace.came(much - 1, connection.now);
        connection.pace.came(1, connection.now);
        assert_eq!(connection.pace.drained(connection.now), None);
        assert_eq!(connection.come_until_alone(SOON, EVENT), Some((STEADY, MOMENT)));
    }

    #[test]
    fn who_waits_already_goes_on_waiting() {
        let mut connection = Connection::new(MOMENT);
        connection.come(SOON, EVENT);
        connection.now += MOMENT;
        assert_eq!(connection.pace.drained(connection.now), None);
        assert_eq!(connection.come(Duration::ZERO, EVENT), None);
        assert_eq!(connection.come_until_alone(SOON, EVENT), Some((STEADY, MOMENT)), "it was late");
    }

    #[test]
    fn moment_has_an_upper_bound_and_may_be_none() {
        let alone = |moment| Connection::new(moment).come_until_alone(Duration::ZERO, 1);
        assert_eq!(alone(Duration::MAX), Some((STEADY, MOMENT_MAX)));
        assert_eq!(alone(Duration::ZERO), None);
    }
}
