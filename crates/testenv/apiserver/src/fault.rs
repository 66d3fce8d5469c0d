//! Faults on demand: a small closed set of things that go wrong, bound to requests by rules.
//!
//! A test adds a rule and gets an id to remove it by. Each rule looks at every request that it
//! matches, in the order in which the rules were added, skips as many as it was told, and then
//! strikes as often as it was told, with the chance it was given, drawn from the server's seed: the
//! same requests in the same order meet the same faults.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;

use crate::request::RequestInfo;

/// What goes wrong.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The request waits so long before it is handled.
    Delay(Duration),
    /// The request is never answered and never handled.
    Hang,
    /// The connection breaks before the request is handled.
    Refuse,
    /// The request is handled, and the connection breaks before the answer.
    LoseAnswer,
    /// The request is not handled and fails with this code, and a `Status` as its body.
    ///
    /// 429 stands for an overloaded server, and is answered as the real one does then: with plain
    /// text, and with when to come back in the header alone.
    Fail {
        /// The HTTP status code, 400 to 599.
        code: u16,
        /// Seconds for the header `Retry-After`. Without it, 429 says one second, and others
        /// nothing.
        retry_after: Option<u64>,
    },
    /// The answer breaks off after so many bytes: of a watch, a list or any other body.
    CutAnswer {
        /// Bytes that still arrive.
        after_bytes: usize,
    },
    /// A get or list is answered from a state so many revisions old, as by a server that lags
    /// behind.
    StaleRead {
        /// How far back.
        revisions: u64,
    },
    /// A watch does not deliver an event. Counted by event.
    DropEvent,
    /// A watch delivers an event twice. Counted by event.
    DuplicateEvent,
    /// A watch delivers an event so much later. Counted by event.
    DelayEvent(Duration),
}

/// When a fault strikes.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultRule {
    fault: Fault,
    verbs: Vec<String>,
    resources: Vec<String>,
    namespace: Option<String>,
    name: Option<String>,
    skip: u64,
    times: Option<u64>,
    chance: f64,
}

/// Names a rule, to remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(u64);

/// The rules of a server.
#[derive(Debug)]
pub struct Faults(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    rules: BTreeMap<FaultId, Active>,
    next: u64,
    rng: Rng,
}

/// A rule, and what it has seen and done.
#[derive(Debug)]
struct Active {
    rule: FaultRule,
    seen: u64,
    struck: u64,
}

impl FaultRule {
    /// Strikes at every request, until a method below says otherwise.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            verbs: Vec::new(),
            resources: Vec::new(),
            namespace: None,
            name: None,
            skip: 0,
            times: None,
            chance: 1.0,
        }
    }

    /// Only at this verb (`get`, `list`, `watch`, …); may be called again for one more.
    #[must_use]
    pub fn verb(mut self, verb: impl Into<String>) -> Self {
        self.verbs.push(verb.into());
        self
    }

    /// Only at this resource, by its plural; may be called again for one more.
    #[must_use]
    pub fn resource(mut self, plural: impl Into<String>) -> Self {
        self.resources.push(plural.into());
        self
    }

    /// Only in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only at the object of this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Lets so many matching requests (or events) pass first. Default: none.
    #[must_use]
    pub fn after(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// Strikes at most so often. Default: without end.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Strikes with this probability, from 0 to 1. Default: 1.
    #[must_use]
    pub fn chance(mut self, probability: f64) -> Self {
        self.chance = probability;
        self
    }

    fn matches(&self, request: &RequestInfo) -> bool {
        let any =
            |list: &[String], wanted: &str| list.is_empty() || list.iter().any(|one| one == wanted);
        any(&self.verbs, request.verb)
            && any(&self.resources, &request.resource)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace)
            && self.name.as_ref().is_none_or(|name| *name == request.name)
    }
}

impl Fault {
    fn is_about_events(&self) -> bool {
        matches!(self, Self::DropEvent | Self::DuplicateEvent | Self::DelayEvent(_))
    }
}

impl Faults {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let rng = Rng::with_seed(seed);
        Self(Mutex::new(Inner { rules: BTreeMap::new(), next: 0, rng }))
    }

    /// Adds a rule; it holds for requests that arrive from now on.
    pub fn add(&self, rule: FaultRule) -> FaultId {
        let mut inner = self.lock();
        let id = FaultId(inner.next);
        inner.next += 1;
        inner.rules.insert(id, Active { rule, seen: 0, struck: 0 });
        id
    }

    /// Removes a rule; tells how often it has struck, or nothing if there is no such rule.
    pub fn remove(&self, id: FaultId) -> Option<u64> {
        self.lock().rules.remove(&id).map(|active| active.struck)
    }

    /// How often a rule has struck.
    pub fn struck(&self, id: FaultId) -> u64 {
        self.lock().rules.get(&id).map_or(0, |active| active.struck)
    }

    /// Removes all rules: the fault-free phase begins.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// The faults that strike at a request.
    pub(crate) fn at_request(&self, request: &RequestInfo) -> Vec<Fault> {
        self.lock().strike(request, false)
    }

    /// The faults that strike at one event of a watch.
    pub(crate) fn at_event(&self, request: &RequestInfo) -> Vec<Fault> {
        self.lock().strike(request, true)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn strike(&mut self, request: &RequestInfo, events: bool) -> Vec<Fault> {
        let mut faults = Vec::new();
        for active in self.rules.values_mut() {
            let rule = &active.rule;
            if rule.fault.is_about_events() != events || !rule.matches(request) {
                continue;
            }
            active.seen += 1;
            let due =
                active.seen > rule.skip && rule.times.is_none_or(|times| active.struck < times);
            if due && (rule.chance >= 1.0 || self.rng.f64() < rule.chance) {
                active.struck += 1;
                faults.push(rule.fault.clone());
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch_of(resource: &str) -> RequestInfo {
        RequestInfo { verb: "watch", resource: resource.to_owned(), ..RequestInfo::default() }
    }

    #[test]
    fn a_rule_skips_then_strikes_as_often_as_told() {
        let faults = Faults::from_seed(1);
        let id = faults.add(FaultRule::new(Fault::Hang).resource("pods").after(1).times(2));
        let struck: Vec<bool> =
            (0..5).map(|_| !faults.at_request(&watch_of("pods")).is_empty()).collect();
        assert_eq!(struck, [false, true, true, false, false]);
        assert!(faults.at_request(&watch_of("nodes")).is_empty());
        assert_eq!(faults.remove(id), Some(2));
    }

    #[test]
    fn chance_is_drawn_from_the_seed() {
        let run = |seed| {
            let faults = Faults::from_seed(seed);
            faults.add(FaultRule::new(Fault::Refuse).chance(0.5));
            (0..64).map(|_| faults.at_request(&watch_of("pods")).len()).collect::<Vec<_>>()
        };
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    }

    #[test]
    fn events_and_requests_are_counted_apart() {
        let faults = Faults::from_seed(1);
        faults.add(FaultRule::new(Fault::DropEvent).times(1));
        assert!(faults.at_request(&watch_of("pods")).is_empty());
        assert_eq!(faults.at_event(&watch_of("pods")), [Fault::DropEvent]);
        assert!(faults.at_event(&watch_of("pods")).is_empty());
    }
}
