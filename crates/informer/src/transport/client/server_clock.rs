//! The API server's clock, as the `Date` of its answers shows it.
//!
//! Replicas whose own clocks disagree can decide by this one together. Between two answers it goes
//! as this machine's monotonic clock goes. It is right to a few seconds: `Date` has whole seconds,
//! and an answer may have been under way for as long as the request took.
//!
//! Not every answer is believed. One from a cache (it has an `Age`) or one that took long tells
//! nothing. One that contradicts what is known, by more than [`DIFFERENCE_MAX`], may come from one
//! of several API servers whose clock is wrong. It is believed at once if this machine's clock
//! agrees with it, and otherwise only if all answers have agreed with it for [`DOUBT`].

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderMap;
use http::header::{AGE, DATE};
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::lock::lock;

/// How much two clocks may differ without anybody being told. Certificates and tokens allow for
/// much more, and clocks that are kept right differ by much less.
const DIFFERENCE_MAX: SignedDuration = SignedDuration::from_mins(1);

/// A clock that was off counts as right again below this, so that one at the limit is not reported
/// again and again. Less than [`DIFFERENCE_MAX`] by more than an answer is wrong.
const DIFFERENCE_RIGHT: SignedDuration = SignedDuration::from_secs(50);

/// How long an answer may take to tell the time.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long all answers must contradict what is known before they are believed: long enough to meet
/// the other API servers.
const DOUBT: Duration = Duration::from_mins(1);

/// Follows the API server's clock, and compares this machine's with it. Clones are the same clock.
///
/// It sees the answers to the clients of each [`ClientStack`](crate::ClientStack) that it is
/// [given](crate::ClientStack::server_clock) to. If this machine's clock is off by more than a
/// minute, it logs a warning, and a line when it is right again.
#[derive(Clone)]
pub struct ServerClock {
    shared: Arc<Shared>,
}

struct Shared {
    own: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// Held only to read or to change it.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What is believed; `None` before the first answer.
    held: Option<Reading>,
    /// The first of the readings that contradict it. None has agreed with it since.
    doubted: Option<Reading>,
    is_off: bool,
}

/// What the API server's clock showed at a moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    time: Timestamp,
    at: Instant,
}

/// What a reading changes.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    /// This machine's clock is off: ahead by so much, or behind if it is negative.
    Off(SignedDuration),
    RightAgain,
}

impl ServerClock {
    /// A clock that has seen no answer, beside this machine's.
    pub fn new(own: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let shared = Shared { own: Box::new(own), state: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// What the API server's clock shows now; `None` before the first answer that has a `Date`.
    pub fn now(&self) -> Option<Timestamp> {
        let held = lock(&self.shared.state).held?;
        Some(held.time_at(Instant::now()))
    }

    /// The same; this machine's clock before the first answer.
    pub fn now_or_own(&self) -> Timestamp {
        self.now().unwrap_or_else(|| self.own())
    }

    /// What this machine's clock shows now.
    pub fn own(&self) -> Timestamp {
        (self.shared.own)()
    }

    /// By how much this machine's clock is ahead of the API server's; negative if it is behind.
    /// `None` before the first answer.
    pub fn skew(&self) -> Option<SignedDuration> {
        Some(self.own().duration_since(self.now()?))
    }

    /// That this machine's clock is off by more than a minute, in words.
    pub fn warning(&self) -> Option<String> {
        let is_off = lock(&self.shared.state).is_off;
        self.skew().filter(|_| is_off).map(describe)
    }

    /// Reads the answer to a request that was sent at this moment.
    pub(super) fn note(&self, headers: &HeaderMap, sent: Instant) {
        let received = Instant::now();
        let Some(reading) = Reading::of(headers, sent, received) else { return };
        let own = self.own();
        let change = lock(&self.shared.state).judge(reading, own);
        match change {
            None => {}
            Some(Change::Off(skew)) => tracing::warn!(
                "{}; certificates are judged by the API server's, but times in conditions, events \
                 and logs are wrong: set this machine's clock",
                describe(skew)
            ),
            Some(Change::RightAgain) => {
                tracing::info!("this machine's clock agrees with the API server's again");
            }
        }
    }
}

fn describe(skew: SignedDuration) -> String {
    let whole = SignedDuration::from_secs(skew.abs().as_secs());
    let side = if skew.is_negative() { "behind" } else { "ahead of" };
    format!("this machine's clock is {whole:#} {side} the API server's")
}

impl State {
    /// Takes a reading into account. `own` is what this machine's clock shows at that moment.
    fn judge(&mut self, reading: Reading, own: Timestamp) -> Option<Change> {
        let agrees = |time: Timestamp| reading.time.duration_since(time).abs() <= DIFFERENCE_MAX;
        let agrees_with = |other: &Reading| agrees(other.time_at(reading.at));
        let is_believed = self.held.as_ref().is_none_or(agrees_with)
            || agrees(own)
            || self.doubted.as_ref().is_some_and(|first| {
                agrees_with(first) && reading.at.duration_since(first.at) >= DOUBT
            });
        if is_believed {
            (self.held, self.doubted) = (Some(reading), None);
        } else if !self.doubted.as_ref().is_some_and(agrees_with) {
            self.doubted = Some(reading);
        }
        let held = self.held.as_ref()?;
        let skew = own.duration_since(held.time_at(reading.at));
        let was_off = self.is_off;
        self.is_off = skew.abs() > if was_off { DIFFERENCE_RIGHT } else { DIFFERENCE_MAX };
        match (was_off, self.is_off) {
            (false, true) => Some(Change::Off(skew)),
            (true, false) => Some(Change::RightAgain),
            _ => None,
        }
    }
}

impl Reading {
    /// `None` if the answer does not tell the time.
    fn of(headers: &HeaderMap, sent: Instant, received: Instant) -> Option<Self> {
        let took = received.duration_since(sent);
        if headers.contains_key(AGE) || took > ANSWER_MAX {
            return None;
        }
        let date = headers.get(DATE)?.to_str().ok()?;
        let date = DateTimeParser::new().parse_timestamp(date).ok()?;
        // The server made the answer at some moment in between, and left out the fraction.
        let since = SignedDuration::try_from(took / 2 + Duration::from_millis(500)).ok()?;
        Some(Self { time: date.checked_add(since).ok()?, at: received })
    }

    fn time_at(&self, moment: Instant) -> Timestamp {
        let since = SignedDuration::try_from(moment.saturating_duration_since(self.at));
        let since = since.unwrap_or(SignedDuration::MAX);
        self.time.checked_add(since).unwrap_or(Timestamp::MAX)
    }
}

impl fmt::Debug for ServerClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerClock").field("skew", &self.skew()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use tokio::time::advance;

    use super::*;

    const DAY: i64 = 24 * 60 * 60;

    fn moment(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
    }

    fn headers(date: &str) -> HeaderMap {
        HeaderMap::from_iter([(DATE, HeaderValue::from_str(date).expect("a header"))])
    }

    /// As Go writes it.
    fn date(time: Timestamp) -> String {
        time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    /// A world in which true time goes as tokio's clock goes.
    struct World {
        began: Instant,
        clock: ServerClock,
    }

    impl World {
        /// This machine's clock is wrong by so many seconds.
        fn new(wrong_by: i64) -> Self {
            let began = Instant::now();
            let own = move || Self::true_time(began) + SignedDuration::from_secs(wrong_by);
            Self { began, clock: ServerClock::new(own) }
        }

        fn true_time(began: Instant) -> Timestamp {
            moment(0) + SignedDuration::try_from(began.elapsed()).expect("short")
        }

        /// A server answers at once whose clock is wrong by so many seconds.
        fn answer(&self, wrong_by: i64) {
            let time = Self::true_time(self.began) + SignedDuration::from_secs(wrong_by);
            self.clock.note(&headers(&date(time)), Instant::now());
        }

        /// By how many seconds the clock is wrong.
        fn error(&self) -> i64 {
            let now = self.clock.now().expect("there was an answer");
            now.duration_since(Self::true_time(self.began)).as_secs()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_clock_is_named_when_it_begins_and_when_it_ends() {
        for (wrong_by, words) in
            [(2 * DAY + 90, "48h 1m 30s ahead of"), (-400 * DAY, "9600h behind")]
        {
            let world = World::new(wrong_by);
            assert_eq!((world.clock.now(), world.clock.skew()), (None, None));
            world.answer(0);
            assert_eq!(world.error(), 0);
            let warning = world.clock.warning().expect("it is off");
            // Half a second is added to what the server tells.
            let words = [words.to_owned(), words.replace("30s", "29s")];
            assert!(words.iter().any(|words| warning.contains(words)), "{warning}");
        }
        let own = Arc::new(Mutex::new(moment(70)));
        let shown = Arc::clone(&own);
        let mut state = State::default();
        let mut judge = |own: i64| {
            *lock(&shown) = moment(own);
            state.judge(Reading { time: moment(0), at: Instant::now() }, *lock(&shown))
        };
        assert_eq!(judge(60), None);
        assert_eq!(judge(61), Some(Change::Off(SignedDuration::from_secs(61))));
        // At the limit it is not reported again and again.
        for own in [60, 61, 59, 62, 51] {
            assert_eq!(judge(own), None, "{own}");
        }
        assert_eq!(judge(50), Some(Change::RightAgain));
        assert_eq!(judge(-60), None);
        assert_eq!(judge(-61), Some(Change::Off(SignedDuration::from_secs(-61))));
    }

    #[tokio::test(start_paused = true)]
    async fn time_goes_on_between_answers_and_a_slow_answer_tells_little() {
        let world = World::new(0);
        world.answer(0);
        advance(Duration::from_hours(3)).await;
        assert_eq!(world.error(), 0);
        // An answer that took six seconds was made somewhere in between.
        let world = World::new(DAY);
        let sent = Instant::now();
        advance(Duration::from_secs(6)).await;
        world.clock.note(&headers(&date(moment(3))), sent);
        assert!(world.error().abs() <= 1, "{}", world.error());
        // One that took longer could be wrong by more than what is reported.
        let world = World::new(0);
        let sent = Instant::now();
        advance(Duration::from_mins(2)).await;
        world.clock.note(&headers(&date(moment(0))), sent);
        assert_eq!(world.clock.now(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn answer_from_a_cache_and_garbage_tell_nothing() {
        let clock = ServerClock::new(|| moment(0));
        let mut cached = headers(&date(moment(-DAY)));
        cached.insert(AGE, HeaderValue::from_static("86400"));
        clock.note(&cached, Instant::now());
        clock.note(&HeaderMap::new(), Instant::now());
        for garbage in ["", "yesterday", "Thu, 99 Xyz 2026 00:00:00 GMT", "1800000000"] {
            clock.note(&headers(garbage), Instant::now());
        }
        assert_eq!(clock.now(), None);
        // The ends of time do not panic.
        clock.note(&headers("Fri, 31 Dec 9999 23:59:59 GMT"), Instant::now());
        clock.note(&headers("Sat, 01 Jan 0000 00:00:00 GMT"), Instant::now());
        advance(Duration::from_hours(1)).await;
        let _ = (clock.now(), clock.skew(), clock.warning());
    }

    #[tokio::test(start_paused = true)]
    async fn one_wrong_server_of_several_is_not_believed() {
        for wrong_by in [400 * DAY, -400 * DAY, 3600] {
            // Whichever answers first, and whether this machine is right or not.
            for (own, first) in [(0, 0), (0, wrong_by), (7 * DAY, 0)] {
                let world = World::new(own);
                world.answer(first);
                for _ in 0..100 {
                    world.answer(0);
                    assert_eq!(world.error(), 0);
                    world.answer(wrong_by);
                    assert_eq!(world.error(), 0);
                    advance(Duration::from_secs(30)).await;
                }
                assert_eq!(world.clock.warning().is_some(), own != 0);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clock_of_a_server_that_was_set_is_followed_after_a_while() {
        let world = World::new(0);
        world.answer(0);
        for _ in 0..12 {
            world.answer(600);
            assert_eq!(world.error(), 0);
            advance(Duration::from_secs(5)).await;
        }
        world.answer(600);
        assert_eq!(world.error(), 600);
        assert!(world.clock.warning().is_some());
        // It is set right, and this machine's clock agrees: there is no doubt.
        world.answer(0);
        assert_eq!(world.error(), 0);
        assert_eq!(world.clock.warning(), None);
    }
}
