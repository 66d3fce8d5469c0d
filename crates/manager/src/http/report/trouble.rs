//! Objects that never come to rest: hot loops and fights.
//!
//! A *hot loop* is a key that its own writes wake again and again: ten runs in a row. A *fight* is
//! an object that two parties change in turn, each because the other one did:
//!
//! - two controllers of this manager: a run of one writes the object, which wakes a run of the
//!   other, which writes the object, and so on;
//! - a controller and somebody else, such as an autoscaler: each time somebody else changes an
//!   object, the controller changes it, too.
//!
//! Both kinds of fights need three rounds, so that a controller that completes what another one
//! began is not reported. The search covers the last runs of each controller that wrote something.
//! Hot loops and fights are reported for ten minutes after their last run.
//!
//! Who made a version? The answer to a write does not say: an apply that changes nothing returns a
//! version that somebody else made, which is common in a fight. A run is the author of a version if
//! its write changed the object (see
//! [`Write::has_changed`](windlass_reconciler::Write::has_changed)). If there is no such run, the
//! author is the only run that may have made it: the only one that got it as an answer, and was not
//! woken by it or by a newer one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use windlass_indexer::{ObjectKey, ResourceVersion, Uid};
use windlass_informer::Resource;
use windlass_reconciler::{Cause, Change, Run, Verb, Write, WriteEffect};

use crate::state::ControllerState;

/// How many hot loops are reported, and how many fights.
const TROUBLES_MAX: usize = 20;

/// How many of the last runs of each controller that wrote something are searched for fights. They
/// are copied for each report, which takes about a millisecond.
const SEARCHED_MAX: usize = 500;

/// How often both parties of a fight must have written.
const ROUNDS_MIN: usize = 3;

/// How long ago the last run may have ended. Then it is over, or waits for a long backoff.
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

/// Runs that wrote one object, each because the one before did.
#[derive(Clone)]
struct Chain<'r> {
    writers: Vec<usize>,
    last: &'r Write,
}

/// A write of a controller, and the run that wrote.
struct Answer<'r> {
    run: &'r Run,
    write: &'r Write,
}

/// The troubles that `is_shown` selects by controller and key, at most twenty of each kind, and how
/// many more there are.
pub(crate) fn troubles(
    controllers: &[ControllerState],
    is_shown: impl Fn(&str, &str) -> bool,
) -> (Vec<TroubleReport>, usize) {
    let now = Instant::now();
    let mut found = hot_loops(controllers, now);
    let resources: Vec<_> = controllers.iter().map(ControllerState::reconciled).collect();
    let mut seen = Vec::new();
    for (shown, resource) in controllers.iter().zip(&resources) {
        let runs = shown.controller.writing_runs(SEARCHED_MAX).into_iter();
        seen.extend(runs.map(|(key, run)| SeenRun {
            controller: shown.controller.name(),
            reconciled: resource.as_ref(),
            key,
            run,
        }));
    }
    let authors = Authors::of(&seen);
    found.extend(fights(&seen, &authors, now));
    found.extend(fights_with_others(&seen, &authors, now));
    found.retain(|trouble| is_shown(&trouble.controller, &trouble.key));
    found.sort();
    let (all, mut of_kind) = (found.len(), BTreeMap::new());
    found.retain(|trouble| {
        let count = of_kind.entry(trouble.kind).or_insert(0);
        *count += 1;
        *count <= TROUBLES_MAX
    });
    let omitted = all - found.len();
    (found, omitted)
}

fn hot_loops(controllers: &[ControllerState], now: Instant) -> Vec<TroubleReport> {
    let mut found = Vec::new();
    for ControllerState { controller, .. } in controllers {
        let found_here = controller.hot_loops(usize::MAX).into_iter();
        for (key, hot) in found_here.filter(|(_, hot)| is_recent(hot.ended, now)) {
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

/// Which run made which version of an object.
struct Authors<'r>(HashMap<(&'r Uid, &'r ResourceVersion), Claims>);

/// The runs that got a version as the answer to a write.
struct Claims {
    /// One of them: the one that is known to have made it, if there is one.
    run: usize,
    is_certain: bool,
    count: usize,
}

impl<'r> Authors<'r> {
    fn of(seen: &'r [SeenRun<'_>]) -> Self {
        let mut claims: HashMap<_, Claims> = HashMap::new();
        for (index, of) in seen.iter().enumerate() {
            for write in &of.run.writes {
                let Some(version) = &write.version else { continue };
                let is_certain = write.has_changed();
                let is_unchanged = write.effect == WriteEffect::Unchanged;
                if is_unchanged || (!is_certain && knew(&of.run, &write.uid, version)) {
                    continue;
                }
                let new = Claims { run: index, is_certain, count: 0 };
                let claim = claims.entry((&write.uid, version)).or_insert(new);
                // A run may write twice, the second time without an effect.
                claim.count += usize::from(claim.count == 0 || claim.run != index);
                if is_certain {
                    (claim.run, claim.is_certain) = (index, true);
                }
            }
        }
        Self(claims)
    }

    /// Whether a run of this manager may have made the version.
    fn may_be_ours(&self, uid: &Uid, version: &ResourceVersion) -> bool {
        self.0.contains_key(&(uid, version))
    }

    /// The run that made the version.
    fn author(&self, uid: &Uid, version: &ResourceVersion) -> Option<usize> {
        let claims = self.0.get(&(uid, version))?;
        (claims.is_certain || claims.count == 1).then_some(claims.run)
    }

    /// The change of an object by which a run answered a version of it.
    fn answer<'s>(
        &self,
        (index, run): (usize, &'s Run),
        uid: &Uid,
        version: &ResourceVersion,
    ) -> Option<&'s Write> {
        run.writes.iter().find(|write| {
            let is_change = matches!(write.verb, Verb::Update | Verb::Patch);
            let made = write.version.as_ref().filter(|made| *made > version);
            let is_author = made.is_some_and(|made| self.author(uid, made) == Some(index));
            write.uid == *uid && is_change && is_author
        })
    }
}

/// Fights between controllers of this manager.
fn fights(seen: &[SeenRun<'_>], authors: &Authors<'_>, now: Instant) -> Vec<TroubleReport> {
    // Who was woken by whom, and has answered by a write of the same object.
    let mut links = Vec::new();
    for (to, of) in seen.iter().enumerate() {
        for cause in &of.run.causes {
            let Cause::Changed { version, uid, .. } = cause else { continue };
            let Some(from) = authors.author(uid, version) else { continue };
            let is_other = seen[from].controller != of.controller;
            if is_other && let Some(write) = authors.answer((to, &of.run), uid, version) {
                links.push((number(version), from, to, uid, write));
            }
        }
    }
    // The links to a run come before those from it, since it was woken by an older version than it
    // wrote. Times are no help: the runs of a test may all begin at one instant.
    links.sort_by_key(|(version, ..)| *version);
    let mut chains: HashMap<(usize, &Uid), Chain<'_>> = HashMap::new();
    for (_, from, to, uid, write) in links {
        let new = || Chain { writers: Vec::from([from]), last: write };
        let mut chain = chains.get(&(from, uid)).cloned().unwrap_or_else(new);
        chain.writers.push(to);
        chain.last = write;
        let is_as_long = |known: &Chain<'_>| known.writers.len() >= chain.writers.len();
        if !chains.get(&(to, uid)).is_some_and(is_as_long) {
            chains.insert((to, uid), chain);
        }
    }
    // The longest chain of each object.
    let mut longest: HashMap<&Uid, Chain<'_>> = HashMap::new();
    for ((_, uid), chain) in chains {
        let is_as_long = |known: &Chain<'_>| known.writers.len() >= chain.writers.len();
        if !longest.get(uid).is_some_and(is_as_long) {
            longest.insert(uid, chain);
        }
    }
    let is_fight = |chain: &Chain<'_>| {
        let is_recent =
            chain.writers.last().is_some_and(|last| is_recent(end(&seen[*last].run), now));
        chain.writers.len() >= 2 * ROUNDS_MIN && is_recent
    };
    let fights = longest.into_values().filter(is_fight);
    fights.flat_map(|chain| chain.reports(seen)).collect()
}

impl Chain<'_> {
    /// One for each controller.
    fn reports(&self, seen: &[SeenRun<'_>]) -> Vec<TroubleReport> {
        let runs = self.writers.iter().map(|index| &seen[*index]);
        let parties: BTreeMap<_, _> = runs.map(|of| (of.controller, of.key.to_string())).collect();
        let names = parties.keys().copied().collect::<Vec<_>>().join(" and ");
        let (object, writes) = (name_of(self.last), self.writers.len());
        let report = |(controller, key): (&str, String)| TroubleReport {
            kind: TroubleKind::Fight,
            controller: controller.to_owned(),
            key,
            message: format!(
                "{names} change {object} in turn: each of the last {writes} writes woke the other \
                 controller. Let each field be set by one of them"
            ),
        };
        parties.into_iter().map(report).collect()
    }
}

/// Fights of a controller with somebody who is not part of this manager.
///
/// Which run answered which change is not known for sure: a run that began before a change may be
/// the one that undoes it. So versions are compared: between two writes of the controller there is
/// one of somebody else.
fn fights_with_others(
    seen: &[SeenRun<'_>],
    authors: &Authors<'_>,
    now: Instant,
) -> Vec<TroubleReport> {
    let mut by_others: HashMap<&Uid, BTreeSet<u64>> = HashMap::new();
    for cause in seen.iter().flat_map(|of| &of.run.causes) {
        let Cause::Changed { change: Change::Updated, version, uid, .. } = cause else { continue };
        if !authors.may_be_ours(uid, version) {
            by_others.entry(uid).or_default().insert(number(version));
        }
    }
    let mut changes: BTreeMap<(&str, &ObjectKey, &Uid), BTreeMap<u64, Answer<'_>>> =
        BTreeMap::new();
    for (index, of) in seen.iter().enumerate() {
        for write in &of.run.writes {
            let Some(version) = &write.version else { continue };
            let is_author = authors.author(&write.uid, version) == Some(index);
            if is_author && write.subresource.is_none() && !of.reconciles(write) {
                let place = (of.controller, &of.key, &write.uid);
                let answers = changes.entry(place).or_default();
                answers.insert(number(version), Answer { run: &of.run, write });
            }
        }
    }
    let mut found = Vec::new();
    for ((controller, key, uid), answers) in changes {
        let Some(by_others) = by_others.get(uid) else { continue };
        let (mut rounds, mut before) = (0, None);
        for (version, answer) in &answers {
            let is_answer = before.is_some_and(|before| {
                by_others.range(before..*version).next().is_some() && answer.is_caused_by(uid)
            });
            rounds = if is_answer { rounds + 1 } else { 0 };
            before = Some(*version);
        }
        let Some((_, last)) = answers.last_key_value() else { continue };
        if rounds < ROUNDS_MIN || !is_recent(end(last.run), now) {
            continue;
        }
        found.push(TroubleReport {
            kind: TroubleKind::Fight,
            controller: controller.to_owned(),
            key: key.to_string(),
            message: format!(
                "somebody else changes {}, and {controller} changes it, too: {rounds} times in a \
                 row. Its managedFields say who; let each field be set by one of them",
                name_of(last.write)
            ),
        });
    }
    found
}

impl SeenRun<'_> {
    /// Whether a write is to the reconciled object. Somebody may well edit that, and the controller
    /// write to it then.
    fn reconciles(&self, write: &Write) -> bool {
        let is_of = |of: &Resource| of.plural() == write.plural && of.group() == write.group;
        write.key == self.key && self.reconciled.is_some_and(is_of)
    }
}

impl Answer<'_> {
    /// Whether nothing but changes of this object woke the run. Otherwise the controller may have
    /// had another reason to write.
    fn is_caused_by(&self, uid: &Uid) -> bool {
        let mut causes = self.run.causes.iter();
        causes.all(|cause| matches!(cause, Cause::Changed { uid: of, .. } if of == uid))
    }
}

/// Whether a version of an object, or a newer one, woke a run. So the run did not make it.
fn knew(run: &Run, uid: &Uid, version: &ResourceVersion) -> bool {
    run.causes.iter().any(|cause| match cause {
        Cause::Changed { uid: of, version: woke, .. } => of == uid && woke >= version,
        _ => false,
    })
}

fn is_recent(ended: Instant, now: Instant) -> bool {
    now.saturating_duration_since(ended) < RECENT
}

fn end(run: &Run) -> Instant {
    run.started + run.took
}

/// `deployments shop/web`.
fn name_of(write: &Write) -> String {
    format!("{} {}", write.plural, write.key)
}

/// A version as a number, to sort by it. Servers promise that it is one.
fn number(version: &ResourceVersion) -> u64 {
    version.to_string().parse().unwrap_or(u64::MAX)
}
