//! Fault injection: a small closed set of faults, bound to requests by rules.
//!
//! A test adds a rule and gets an id with which it can remove the rule. For each request, the rules
//! are evaluated in the order in which they were added. A rule skips its first `after` matching
//! requests, and then applies at most `times` times, each time with the probability `chance`. The
//! random numbers come from the seed of the server: the same requests in the same order meet the
//! same faults.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;

use crate::request::RequestInfo;

/// A fault.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The request is handled after this delay.
    Delay(Duration),
    /// The request is never answered and never handled.
    Hang,
    /// The connection breaks before the request is handled.
    Refuse,
    /// The request is handled, and the connection breaks before the answer.
    LoseAnswer,
    /// The request is not handled and fails with this code, and a `Status` as its body.
    ///
    /// The code 429 stands for an overloaded server. As on a real server, its body is plain text,
    /// and only the header says when to retry.
    Fail {
        /// The HTTP status code, 400 to 599.
        code: u16,
        /// Seconds for the header `Retry-After`. Without it, 429 says one second, and other codes
        /// have no such header.
        retry_after: Option<u64>,
    },
    /// The body of the answer breaks off after so many bytes: of a watch, a list or any other
    /// answer.
    CutAnswer {
        /// How many bytes still arrive.
        after_bytes: usize,
    },
    /// A get or list reads a state that is some revisions old, as from a server that lags behind.
    StaleRead {
        /// How many revisions the state lags behind.
        revisions: u64,
    },
    /// A watch does not deliver an event. The rule counts events instead of requests.
    DropEvent,
    /// A watch delivers an event twice. The rule counts events.
    DuplicateEvent,
    /// A watch delivers an event with this delay. The rule counts events.
    DelayEvent(Duration),
}

/// A fault, and the requests or events that it applies to.
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

/// The id of a rule, to remove it.
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

/// A rule with its counters.
#[derive(Debug)]
struct Active {
    rule: FaultRule,
    seen: u64,
    times_applied: u64,
}

impl FaultRule {
    /// Creates a rule that applies to every request, until a method below narrows it.
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

    /// Applies only to this verb (`get`, `list`, `watch`, …); each further call adds one.
    #[must_use]
    pub fn verb(mut self, verb: impl Into<String>) -> Self {
        self.verbs.push(verb.into());
        self
    }

    /// Applies only to this resource, given by its plural; each further call adds one.
    #[must_use]
    pub fn resource(mut self, plural: impl Into<String>) -> Self {
        self.resources.push(plural.into());
        self
    }

    /// Applies only in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Applies only to the object of this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Skips the first `requests` matching requests (or events). Default: 0.
    #[must_use]
    pub fn after(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// Applies at most this many times. Default: no limit.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Applies with this probability, from 0 to 1. Default: 1.
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

    /// Adds a rule for the requests that arrive from now on.
    pub fn add(&self, rule: FaultRule) -> FaultId {
        let mut inner = self.lock();
        let id = FaultId(inner.next);
        inner.next += 1;
        inner.rules.insert(id, Active { rule, seen: 0, times_applied: 0 });
        id
    }

    /// Removes a rule. Returns how often it was applied, or `None` if there is no such rule.
    pub fn remove(&self, id: FaultId) -> Option<u64> {
        self.lock().rules.remove(&id).map(|active| active.times_applied)
    }

    /// Returns how often a rule was applied.
    pub fn times_applied(&self, id: FaultId) -> u64 {
        self.lock().rules.get(&id).map_or(0, |active| active.times_applied)
    }

    /// Removes all rules. From now on there are no faults.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// Returns the faults that apply to a request, and counts the request.
    pub(crate) fn at_request(&self, request: &RequestInfo) -> Vec<Fault> {
        self.lock().apply_rules(request, false)
    }

    /// Returns the faults that apply to one event of a watch, and counts the event.
    pub(crate) fn at_event(&self, request: &RequestInfo) -> Vec<Fault> {
        self.lock().apply_rules(request, true)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn apply_rules(&mut self, request: &RequestInfo, events: bool) -> Vec<Fault> {
        let mut faults = Vec::new();
        for active in self.rules.values_mut() {
            let rule = &active.rule;
            if rule.fault.is_about_events() != events || !rule.matches(request) {
                continue;
            }
            active.seen += 1;
            let due = active.seen > rule.skip
                && rule.times.is_none_or(|times| active.times_applied < times);
            if due && (rule.chance >= 1.0 || self.rng.f64() < rule.chance) {
                active.times_applied += 1;
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
    fn rule_skips_requests_then_applies_a_limited_number_of_times() {
        let faults = Faults::from_seed(1);
        let id = faults.add(FaultRule::new(Fault::Hang).resource("pods").after(1).times(2));
        let times_applied: Vec<bool> =
            (0..5).map(|_| !faults.at_request(&watch_of("pods")).is_empty()).collect();
        assert_eq!(times_applied, [false, true, true, false, false]);
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
    fn events_and_requests_are_counted_separately() {
        let faults = Faults::from_seed(1);
        faults.add(FaultRule::new(Fault::DropEvent).times(1));
        assert!(faults.at_request(&watch_of("pods")).is_empty());
        assert_eq!(faults.at_event(&watch_of("pods")), [Fault::DropEvent]);
        assert!(faults.at_event(&watch_of("pods")).is_empty());
    }
}
