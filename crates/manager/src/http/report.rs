//! What `/debug/windlass` shows as JSON: a [`Report`], and the [`StoryReport`] of an object.
//!
//! These types are the stable form of the status types of the other crates. Their fields have fixed
//! names in camel case and are always there: an unknown value is `null`. All times are wall-clock
//! times, converted with one pair of clock readings, so that they can be compared with each other.
//!
//! A report has names, numbers and the messages of errors, and never the content of an object.
//! Messages of a reconciler's errors and panics are shown as they are logged.
//!
//! Invariant: a report is bounded. It counts the keys and runs that it omits.

mod clock;
mod controller;
mod informer;
mod select;
mod story;
mod trouble;

pub use clock::Time;
pub use controller::{
    ControllerReport, EventCounts, InactiveCause, InactiveReport, JournalReport, KeyReport,
    KeyState, QueueReport, RunCounts, RunOutcome, RunReport, StateReport,
};
pub use informer::{
    FeedActivity, FeedCounts, FeedError, FeedReport, HandlerReport, IndexReport, InformerReport,
    InformerState, ListReport, MemoryReport, TypeReport,
};

pub use story::{LinkReport, StoryReport, StoryRun};
pub use trouble::{TroubleKind, TroubleReport};

pub(crate) use clock::Clock;
pub(crate) use select::{DebugQuery, Unknown, list};
pub(crate) use trouble::troubles;

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;
use windlass_informer::SharedInformerFactory;
use windlass_serve::LogLimit;

use crate::connect::is_in_pod;
use crate::election::Leadership;
use crate::state::{ElectionState, State};
use select::Selection;

/// What a manager is doing.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// The version of Windlass.
    pub version: &'static str,
    /// When the report was made.
    pub time: Time,
    /// The phase of the manager: `starting`, `connecting`, `installingDefinitions`,
    /// `fillingCaches`, `running` or `stopping`.
    pub phase: String,
    /// When the manager started.
    pub started: Option<Time>,
    /// The election; `None` if there is none.
    pub leadership: Option<LeadershipReport>,
    /// The controllers.
    pub controllers: Vec<ControllerReport>,
    /// The informers of these controllers; without a query, all informers. Controllers share them.
    pub informers: Vec<InformerReport>,
    /// Objects of these controllers that never come to rest, at most twenty of each kind.
    pub troubles: Vec<TroubleReport>,
    /// How many more of them there are.
    pub omitted_troubles: usize,
    /// Parts of the report that are missing, because a panic was caught. That is a bug: see the
    /// log.
    pub missing: Vec<String>,
}

/// This replica in the election.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LeadershipReport {
    /// The Lease, as `namespace/name`.
    pub lease: String,
    /// The identity of this replica.
    pub identity: String,
    /// Whether this replica runs in a pod. Then its identity begins with the name of the pod.
    pub in_pod: bool,
    /// Its role in the election.
    pub state: LeadershipState,
    /// The identity of the leader, as far as it is known.
    pub leader: Option<String>,
}

/// The role of a replica in an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum LeadershipState {
    /// It leads.
    Leading,
    /// It does not lead.
    Standby,
}

impl Report {
    /// Makes a report of what the query asks for.
    pub(crate) fn new(state: &State, query: &DebugQuery, clock: Clock) -> Result<Self, Unknown> {
        let (selection, mut missing) = (Selection::of(query, state)?, Vec::new());
        let controllers = selection.controllers.iter().filter_map(|shown| {
            let name = format!("controller {:?}", shown.controller.name());
            let make = || ControllerReport::of(shown, &selection, clock);
            guarded(state.log(), name, &mut missing, make)
        });
        let controllers: Vec<_> = controllers.collect();
        let is_shown = |resource: &str| {
            let mut sources = controllers.iter().flat_map(|controller| &controller.sources);
            selection.is_all || sources.any(|source| source == resource)
        };
        let informers = guarded(state.log(), "informers".to_owned(), &mut missing, || {
            let statuses = state.factory().map(SharedInformerFactory::status).unwrap_or_default();
            let reports = statuses.iter().map(|status| InformerReport::of(status, clock));
            reports.filter(|informer| is_shown(&informer.resource)).collect()
        });
        let troubles = guarded(state.log(), "troubles".to_owned(), &mut missing, || {
            let key = selection.key.as_ref().map(ToString::to_string);
            troubles(state.controllers(), |controller, of| {
                let mut names = controllers.iter().map(|shown| &shown.name);
                names.any(|name| name == controller) && key.as_ref().is_none_or(|key| key == of)
            })
        });
        let (troubles, omitted_troubles) = troubles.unwrap_or_default();
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            time: clock.now_as_time(),
            phase: camel_case(state.phase().as_str()),
            started: state.started().map(|started| clock.time(started)),
            leadership: state.election().map(LeadershipReport::of),
            controllers,
            informers: informers.unwrap_or_default(),
            troubles,
            omitted_troubles,
            missing,
        })
    }
}

impl LeadershipReport {
    fn of(election: &ElectionState) -> Self {
        let identity = election.identity.clone();
        let (state, leader) = match &*election.leadership.borrow() {
            Leadership::Leading => (LeadershipState::Leading, Some(identity.clone())),
            Leadership::Standby { leader } => (LeadershipState::Standby, leader.clone()),
        };
        let lease = election.lease.clone();
        Self { lease, identity, in_pod: is_in_pod(), state, leader }
    }
}

/// Makes a part of a report. If that panics, the part is `missing`, and the others are shown.
fn guarded<T>(
    log: &LogLimit,
    part: String,
    missing: &mut Vec<String>,
    make: impl FnOnce() -> T,
) -> Option<T> {
    let caught = catch_unwind(AssertUnwindSafe(make));
    if caught.is_err() {
        if let Some(line) = log.line("part of a report") {
            let left_out = line.left_out;
            let message = "a part of /debug/windlass is missing, because it panicked";
            tracing::error!(part, left_out, "{message}");
        }
        missing.push(part);
    }
    caught.ok()
}

/// `filling caches` as `fillingCaches`, the form of the other names.
fn camel_case(words: &str) -> String {
    let mut name = String::with_capacity(words.len());
    for (index, word) in words.split(' ').enumerate() {
        let (first, rest) = word.split_at(word.len().min(1));
        name.push_str(&if index == 0 { first.to_owned() } else { first.to_uppercase() });
        name.push_str(rest);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_in_one_part_leaves_the_others() {
        let mut missing = Vec::new();
        let log = LogLimit::new();
        let broken = || -> u8 { panic!("a bug") };
        assert_eq!(guarded(&log, "informers".to_owned(), &mut missing, broken), None);
        assert_eq!(guarded(&log, "queue".to_owned(), &mut missing, || 7), Some(7));
        assert_eq!(missing, ["informers"]);
    }

    #[test]
    fn words_become_one_name() {
        assert_eq!(camel_case("running"), "running");
        assert_eq!(camel_case("filling caches"), "fillingCaches");
        assert_eq!(camel_case(""), "");
    }
}
