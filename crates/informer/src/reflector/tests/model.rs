//! Whatever a server does, and however its caller behaves: a reflector never panics, always has
//! something to do, never goes back, and never spins.
//!
//! A failure prints its input. `PROPTEST_CASES=20000` runs more cases.

use std::time::Duration;

use super::driver::{
    bookmark, gone, internal, list_end, no_streams, silent, status, throttled, too_large,
    unreachable,
};
use proptest::prelude::*;
use tokio::time::Instant;
use windlass_indexer::ResourceVersion;

use super::super::{
    ChangeKind, DeadlineCheck, ListFault, Listed, NextStep, Reaction, Reflector, ReflectorConfig,
    ServerFeatures,
};
use crate::decode::frames::EventType;
use crate::transport::source::{Request, SourceError};

/// Something that a caller can do.
#[derive(Clone, Debug)]
enum Input {
    Next,
    Pass(Duration),
    /// Passes the time until the next wait or deadline ends.
    Sleep,
    Opened,
    Progressed,
    Changed(EventType, Option<String>),
    Bookmark(String, bool),
    Page(Option<String>, Option<String>),
    Closed,
    Failed(usize),
    DeadlineCheck,
}

/// One of each kind.
fn errors() -> Vec<SourceError> {
    vec![
        gone(),
        too_large(),
        throttled(Some(3)),
        throttled(None),
        no_streams(),
        internal(),
        unreachable(),
        silent(),
        status(401, "Unauthorized", ""),
        status(403, "Forbidden", ""),
        status(404, "NotFound", ""),
        status(405, "MethodNotAllowed", ""),
        status(500, "StorageReadError", ""),
        status(503, "ServiceUnavailable", ""),
    ]
}

fn version() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (1_u32..200).prop_map(|number| number.to_string()),
        1 => Just(String::new()),
        1 => prop_oneof![Just("x"), Just("y"), Just("0050"), Just("99999999999999999999999")]
            .prop_map(str::to_owned),
    ]
}

fn input() -> impl Strategy<Value = Input> {
    let change =
        prop_oneof![Just(EventType::Added), Just(EventType::Modified), Just(EventType::Deleted)];
    let token = proptest::option::of(prop_oneof![Just("a".to_owned()), Just("b".to_owned())]);
    prop_oneof![
        4 => Just(Input::Next),
        2 => (0_u64..400_000).prop_map(|millis| Input::Pass(Duration::from_millis(millis))),
        4 => Just(Input::Sleep),
        3 => Just(Input::Opened),
        1 => Just(Input::Progressed),
        4 => (change, proptest::option::of(version())).prop_map(|(c, v)| Input::Changed(c, v)),
        4 => (version(), any::<bool>()).prop_map(|(version, end)| Input::Bookmark(version, end)),
        3 => (proptest::option::of(version()), token).prop_map(|(v, token)| Input::Page(v, token)),
        2 => Just(Input::Closed),
        3 => (0..errors().len()).prop_map(Input::Failed),
        2 => Just(Input::DeadlineCheck),
    ]
}

/// A reflector, and what its invariants are checked with.
struct Model {
    reflector: Reflector,
    now: Instant,
    errors: Vec<SourceError>,
    /// The highest decimal position of this epoch.
    highest: Option<ResourceVersion>,
    /// When a failure was reported, if no request followed yet.
    failed_at: Option<Instant>,
}

impl Model {
    fn new(seed: u64, audit: bool) -> Self {
        let audit = audit.then_some(Duration::from_mins(1));
        let config = ReflectorConfig { audit, ..ReflectorConfig::default() };
        Self {
            reflector: Reflector::new(config, ServerFeatures::default(), seed),
            now: Instant::now(),
            errors: errors(),
            highest: None,
            failed_at: None,
        }
    }

    fn step(&mut self, input: &Input) {
        let Self { reflector, now, .. } = self;
        let listing = reflector.deadline().is_some() && reflector.is_listing();
        match input {
            // A caller does not ask for another request while one is under way.
            Input::Next if reflector.deadline().is_some() => {}
            Input::Next => self.next(),
            Input::Pass(duration) => *now += *duration,
            Input::Sleep => self.sleep(),
            Input::Opened => reflector.on_opened(*now),
            Input::Progressed => reflector.on_progress(*now),
            Input::Changed(change, version) => {
                let version = version.as_deref().map(ResourceVersion::new);
                let before = reflector.position().cloned();
                let kind = reflector.on_change(*change, version.as_ref(), *now);
                if kind == ChangeKind::Stale {
                    assert_eq!(reflector.position(), before.as_ref());
                }
            }
            Input::Bookmark(version, end) => {
                let listed = reflector.on_bookmark(&bookmark(version, *end), *now);
                self.listed(listed, listing);
            }
            Input::Page(version, token) => {
                let listed =
                    reflector.on_page_end(&list_end(version.as_deref(), token.as_deref()), *now);
                self.listed(listed, listing);
            }
            Input::Closed => {
                if reflector.on_closed(*now).is_some() {
                    self.failed_at = Some(*now);
                }
            }
            Input::Failed(index) => {
                let error = &self.errors[*index];
                // If a server does not stream, pages are requested at once, but only once.
                let reaction = reflector.on_failed(error, *now);
                self.failed_at = (reaction != Reaction::Fallback).then_some(*now);
            }
            Input::DeadlineCheck => self.time_out(),
        }
        self.check();
    }

    fn next(&mut self) {
        let action = self.reflector.next(self.now);
        match action {
            NextStep::Wait(until) => assert!(until > self.now, "a wait must have an end"),
            NextStep::Request(request) => {
                assert_ne!(self.failed_at.take(), Some(self.now), "a failure must be waited for");
                assert!(self.reflector.deadline().is_some_and(|deadline| deadline >= self.now));
                if let Request::Watch(watch) = &request
                    && let Some(from) = &watch.from
                {
                    let position = self.reflector.position().map(ToString::to_string);
                    assert_eq!(*from, position.unwrap_or_default());
                }
            }
        }
    }

    fn sleep(&mut self) {
        if let Some(deadline) = self.reflector.deadline() {
            self.now = self.now.max(deadline);
        } else if let NextStep::Wait(until) = self.reflector.next(self.now) {
            self.now = until;
        }
    }

    fn time_out(&mut self) {
        match self.reflector.check_deadline(self.now) {
            DeadlineCheck::Silent(duration) => {
                self.reflector.on_failed(&SourceError::Silent(duration), self.now);
                self.failed_at = Some(self.now);
            }
            DeadlineCheck::Relist(_) => assert_eq!(self.reflector.deadline(), None),
            DeadlineCheck::NotYet => {}
        }
    }

    fn listed(&mut self, listed: Option<Listed>, listing: bool) {
        match listed {
            Some(Listed::Complete { is_restored }) => {
                if is_restored {
                    self.highest = None;
                }
            }
            // Where it was the end of something.
            Some(Listed::Refused(fault))
                if fault != ListFault::NotStreamed
                    && listing
                    && self.reflector.deadline().is_none() =>
            {
                self.failed_at = Some(self.now);
            }
            Some(Listed::Refused(_) | Listed::More) | None => {}
        }
    }

    fn check(&mut self) {
        let Some(position) = self.reflector.position() else { return };
        if let Some(highest) = &self.highest {
            assert!(!is_older(position, highest), "{position:?} is behind {highest:?}");
        }
        let high_water = self.reflector.versions.high_water.as_ref();
        assert!(high_water.is_some_and(|high_water| !is_older(high_water, position)));
        if position.is_decimal() {
            self.highest = Some(position.clone());
        }
    }
}

fn is_older(one: &ResourceVersion, other: &ResourceVersion) -> bool {
    one < other
}

proptest! {
    #[test]
    fn it_never_panics_never_goes_back_and_never_spins(
        seed in any::<u64>(),
        audit in any::<bool>(),
        inputs in proptest::collection::vec(input(), 1..120),
    ) {
        let mut model = Model::new(seed, audit);
        for input in &inputs {
            model.step(input);
        }
    }

    /// After any history, a healthy server is listed and watched within a bounded time.
    #[test]
    fn it_recovers_from_everything(
        seed in any::<u64>(),
        inputs in proptest::collection::vec(input(), 1..120),
    ) {
        let mut model = Model::new(seed, false);
        for input in &inputs {
            model.step(input);
        }
        let Model { mut reflector, mut now, .. } = model;
        let version = "999999999999999999999999999";
        if reflector.deadline().is_some() {
            // A request is still under way.
            reflector.on_failed(&silent(), now);
        }
        // A list, in two pages or streamed, and a watch; before each a wait.
        for _ in 0..12 {
            match reflector.next(now) {
                NextStep::Wait(until) => {
                    now = until;
                    continue;
                }
                NextStep::Request(Request::List(_)) => {
                    reflector.on_opened(now);
                    reflector.on_page_end(&list_end(Some(version), None), now);
                    continue;
                }
                NextStep::Request(Request::Watch(_)) => reflector.on_opened(now),
            }
            reflector.on_bookmark(&bookmark(version, true), now);
            if reflector.position() == Some(&ResourceVersion::new(version)) {
                return Ok(());
            }
            now += Duration::from_secs(2);
            reflector.on_closed(now);
        }
        prop_assert!(false, "not recovered: {reflector:?}");
    }
}
