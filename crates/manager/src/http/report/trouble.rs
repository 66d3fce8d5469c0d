//! Objects that never come to rest: hot loops and fights.
//!
//! A *hot loop* is a key that its own writes wake again and again; the journal counts its runs. A
//! *fight* is an object that two parties change in turn, each because the other one did:
//!
//! - two controllers of this manager: a run of one writes the object, which wakes a run of the
//!   other, which writes the object, and so on;
//! - a controller and somebody else, such as an autoscaler: each time somebody else changes an
//!   object, the controller changes it, too.
//!
//! Both need three rounds, so that a controller that completes what another one began is not
//! reported. Only the last runs are searched, and only what happened in the last ten minutes is
//! reported.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use windlass_indexer::{ObjectKey, ResourceVersion, Uid};
use windlass_informer::Resource;
use windlass_reconciler::{Cause, Change, Run, Verb, Write};

use super::links::{Link, links};
use crate::state::ControllerState;

/// How many troubles are reported.
const TROUBLES_MAX: usize = 20;

/// How many of the last runs of each controller are searched for fights. They are copied for each
/// report, which takes about a millisecond.
const SEARCHED_MAX: usize = 500;

/// How often both parties of a fight must have written.
const ROUNDS_MIN: usize = 3;

/// How long ago a fight may have ended. Then it is over, or waits for a long backoff.
const RECENT: Duration = Duration::from_mins(10);

/// An object that never comes to rest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TroubleReport {
    /// What it is.
    pub kind: TroubleKind,
    /// The controller. A fight of two controllers is reported for each of them.
    pub controller: String,
    /// The key that runs again and again, as `namespace/name`.
    pub key: String,
    /// What happens, and what to do about it.
    pub message: String,
}

/// Why an object never comes to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum TroubleKind {
    /// Its own writes wake it again and again.
    HotLoop,
    /// Two parties change an object in turn.
    Fight,
}

/// A run of any controller.
struct SeenRun<'s> {
    controller: &'s str,
    /// What the controller reconciles.
    reconciled: Option<&'s Resource>,
    key: ObjectKey,
    run: Run,
}

/// Writes of one object, each of which woke the run of the next.
#[derive(Clone)]
struct Chain {
    writes: usize,
    /// The controllers and keys that wrote.
    writers: BTreeSet<usize>,
    last: usize,
}

/// The troubles that `is_shown` selects by controller and key, at most twenty.
pub(crate) fn troubles(
    controllers: &[ControllerState],
    is_shown: impl Fn(&str, &str) -> bool,
) -> Vec<TroubleReport> {
    let mut found = hot_loops(controllers);
    let resources: Vec<_> = controllers.iter().map(ControllerState::reconciled).collect();
    let mut seen = Vec::new();
    for (shown, resource) in controllers.iter().zip(&resources) {
        let runs = shown.controller.recent_runs(SEARCHED_MAX).runs.into_iter();
        seen.extend(runs.map(|(key, run)| SeenRun {
            controller: shown.controller.name(),
            reconciled: resource.as_ref(),
            key,
            run,
        }));
    }
    let now = Instant::now();
    found.extend(fights(&seen, now));
    found.extend(fights_with_others(&seen, now));
    found.retain(|trouble| is_shown(&trouble.controller, &trouble.key));
    found.sort();
    found.truncate(TROUBLES_MAX);
    found
}

fn hot_loops(controllers: &[ControllerState]) -> Vec<TroubleReport> {
    let mut found = Vec::new();
    for ControllerState { controller, .. } in controllers {
        for (key, hot) in controller.hot_loops(TROUBLES_MAX) {
            found.push(TroubleReport {
                kind: TroubleKind::HotLoop,
                controller: controller.name().to_owned(),
                key: key.to_string(),
                message: format!(
                    "{} runs in a row were caused by nothing but the write of the run before; the \
                     last one wrote: {}. Write only if something differs",
                    hot.runs, hot.write
                ),
            });
        }
    }
    found
}

/// Fights between controllers of this manager.
fn fights(seen: &[SeenRun<'_>], now: Instant) -> Vec<TroubleReport> {
    let mut links = links(seen.iter().map(|seen| &seen.run));
    // The links to a run come before those from it, since it was woken by an older version than it
    // wrote. Times are no help: the runs of a test may all begin at one instant.
    links.sort_by_cached_key(|link| number(link.write.version.as_ref()));
    let mut chains: HashMap<(usize, &Uid), Chain> = HashMap::new();
    for Link { from, to, write, .. } in &links {
        let is_other = seen[*from].controller != seen[*to].controller;
        if !is_other || !seen[*to].run.writes.iter().any(|next| changes(next, &write.uid)) {
            continue;
        }
        let new = || Chain { writes: 1, writers: BTreeSet::from([*from]), last: *from };
        let mut chain = chains.get(&(*from, &write.uid)).cloned().unwrap_or_else(new);
        chain.writes += 1;
        chain.writers.insert(*to);
        chain.last = *to;
        let known = chains.entry((*to, &write.uid)).or_insert_with(|| chain.clone());
        if known.writes < chain.writes {
            *known = chain;
        }
    }
    // The longest chain of each object.
    let mut longest: HashMap<&Uid, &Chain> = HashMap::new();
    for ((_, uid), chain) in &chains {
        let known = longest.entry(*uid).or_insert(chain);
        if known.writes < chain.writes {
            *known = chain;
        }
    }
    let is_fight = |chain: &&Chain| {
        chain.writes >= 2 * ROUNDS_MIN && is_recent(&seen[chain.last].run, now)
    };
    let mut found = Vec::new();
    for (uid, chain) in longest.into_iter().filter(|(_, chain)| is_fight(chain)) {
        let parties: BTreeMap<_, _> = chain
            .writers
            .iter()
            .map(|index| (seen[*index].controller, seen[*index].key.to_string()))
            .collect();
        let names = parties.keys().copied().collect::<Vec<_>>().join(" and ");
        let written = seen[chain.last].run.writes.iter().find(|write| write.uid == *uid);
        let object = written.map_or_else(String::new, name_of);
        found.extend(parties.iter().map(|(controller, key)| TroubleReport {
            kind: TroubleKind::Fight,
            controller: (*controller).to_owned(),
            key: key.clone(),
            message: format!(
                "{names} change {object} in turn: each of the last {} writes woke the other \
                 controller. Let each field be set by one of them",
                chain.writes
            ),
        }));
    }
    found
}

/// Fights of a controller with somebody who is not part of this manager.
fn fights_with_others(seen: &[SeenRun<'_>], now: Instant) -> Vec<TroubleReport> {
    // Also those that are not known to have changed anything: in doubt it was not somebody else.
    let ours: HashSet<_> = seen
        .iter()
        .flat_map(|seen| &seen.run.writes)
        .map(|write| (&write.uid, write.version.as_ref()))
        .collect();
    let mut rounds: HashMap<(&str, &ObjectKey, &Uid), (usize, &SeenRun<'_>, &Write)> =
        HashMap::new();
    // The runs of a controller are the newest first.
    for one in seen.iter().rev() {
        for cause in &one.run.causes {
            let Cause::Changed { resource, object, change: Change::Updated, version, uid, .. } =
                cause
            else {
                continue;
            };
            // Somebody may well edit the reconciled object, and the controller write to it then.
            let is_reconciled = one.reconciled == Some(resource) && *object == one.key;
            if is_reconciled || ours.contains(&(uid, Some(version))) {
                continue;
            }
            let place = (one.controller, &one.key, uid);
            let answer = one.run.writes.iter().find(|write| {
                changes(write, uid) && write.subresource.is_none() && write.verb != Verb::Delete
            });
            match answer {
                // The change of somebody else is accepted.
                None => {
                    rounds.remove(&place);
                }
                Some(write) => {
                    let known = rounds.entry(place).or_insert((0, one, write));
                    // A run may have several such causes.
                    let is_next = known.0 == 0 || known.1.run.id != one.run.id;
                    *known = (known.0 + usize::from(is_next), one, write);
                }
            }
        }
    }
    let is_fight = |(count, last, _): &(usize, &SeenRun<'_>, &Write)| {
        *count >= ROUNDS_MIN && is_recent(&last.run, now)
    };
    let fights = rounds.into_values().filter(is_fight);
    let report = |(count, last, write): (usize, &SeenRun<'_>, &Write)| TroubleReport {
        kind: TroubleKind::Fight,
        controller: last.controller.to_owned(),
        key: last.key.to_string(),
        message: format!(
            "somebody else changes {}, and {} changes it, too: {count} times in a row. Its \
             managedFields say who; let each field be set by one of them",
            name_of(write),
            last.controller
        ),
    };
    fights.map(report).collect()
}

/// Whether a write changed the object with this uid, which existed before.
fn changes(write: &Write, uid: &Uid) -> bool {
    write.uid == *uid && write.has_changed && write.verb != Verb::Create
}

fn is_recent(run: &Run, now: Instant) -> bool {
    now.saturating_duration_since(run.started + run.took) < RECENT
}

/// `deployments shop/web`.
fn name_of(write: &Write) -> String {
    format!("{} {}", write.plural, write.key)
}

/// A version as a number, to sort by it. Servers promise that it is one.
fn number(version: Option<&ResourceVersion>) -> u64 {
    version.and_then(|version| version.to_string().parse().ok()).unwrap_or(u64::MAX)
}
