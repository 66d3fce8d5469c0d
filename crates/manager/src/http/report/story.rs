//! The story of an object: the runs that reconciled it, wrote it, or ran because of it; the runs
//! whose writes woke them, and the runs that their own writes woke, over all controllers.
//!
//! A run is linked to another one if it wrote the version of an object whose change is a cause of
//! the other. So the links are only as good as what is known of a write: see
//! [`Write::has_changed`](windlass_reconciler::Write::has_changed).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::Serialize;
use windlass_indexer::{ObjectKey, ResourceVersion, Uid};
use windlass_informer::{InformerCache, Resource};
use windlass_reconciler::{Cause, Change, Run, Write};

use super::clock::{Clock, Time};
use super::controller::RunReport;
use super::select::{Unknown, list};
use crate::http::routes::StoryQuery;
use crate::state::State;

/// How many of the last runs of each controller are searched.
const SEARCHED_MAX: usize = 5_000;

/// How many runs a story has by default.
const RUNS_MAX: usize = 100;

/// The runs of an object, and the runs that they are linked to.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StoryReport {
    /// When the report was made.
    pub time: Time,
    /// The key of the object, as `namespace/name`.
    pub key: String,
    /// The runs, the oldest first. Those nearest to the object are kept if there are too many.
    pub runs: Vec<StoryRun>,
    /// How many linked runs were left out.
    pub omitted_runs: usize,
    /// Which of these runs woke which.
    pub links: Vec<LinkReport>,
}

/// A run of a story.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StoryRun {
    /// The controller.
    pub controller: String,
    /// The kind that the controller reconciles, as in `Website`.
    pub kind: String,
    /// How many links are between this run and one that reconciled the object, wrote it, or ran
    /// because of it: 0 for these.
    pub distance: usize,
    /// The run.
    #[serde(flatten)]
    pub run: RunReport,
}

/// A run that woke another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LinkReport {
    /// The id of the run that wrote.
    pub from: String,
    /// The id of the run that was woken.
    pub to: String,
    /// What was written: one of the `writes` of `from`.
    pub write: String,
    /// Why the other ran: one of the `causes` of `to`.
    pub cause: String,
}

impl StoryReport {
    /// The story of the object that the query names.
    pub(crate) fn new(state: &State, query: &StoryQuery, clock: Clock) -> Result<Self, Unknown> {
        let key = query.key.as_ref().filter(|key| !key.is_empty());
        let Some(text) = key else { return Err(Unknown::NoKey) };
        let object = Object::of(text, query, state)?;
        let mut known = Vec::new();
        for shown in state.controllers() {
            let (name, reconciled) = (shown.controller.name(), shown.reconciled());
            let reconciled = reconciled.as_ref();
            let mut runs = shown.controller.recent_runs(SEARCHED_MAX).runs;
            // The runs of the key itself may be older than the last ones of the controller.
            let ids: BTreeSet<_> = runs.iter().map(|(_, run)| run.id).collect();
            let own = shown.controller.runs(&object.key).into_iter();
            runs.extend(
                own.filter(|run| !ids.contains(&run.id)).map(|run| (object.key.clone(), run)),
            );
            known.extend(runs.into_iter().map(|(key, run)| KnownRun {
                controller: name,
                kind: reconciled.map_or_else(String::new, |resource| resource.kind().to_owned()),
                concerns_object: object.concerns(reconciled, &key, &run),
                key,
                run,
            }));
        }
        if !known.iter().any(|run| run.concerns_object) && !object.is_known(state) {
            return Err(object.unknown(&known, state));
        }
        let links = links(&known);
        let mut kept: Vec<_> = distances(&known, &links).into_iter().collect();
        kept.sort_by_key(|(index, distance)| (*distance, Reverse(known[*index].run.started)));
        let runs_max = query.limit.unwrap_or(RUNS_MAX);
        let omitted_runs = kept.len().saturating_sub(runs_max);
        kept.truncate(runs_max);
        kept.sort_by_key(|(index, _)| known[*index].run.started);
        let shown: BTreeSet<_> = kept.iter().map(|(index, _)| *index).collect();
        let is_shown = |link: &&Link<'_>| shown.contains(&link.from) && shown.contains(&link.to);
        let runs = kept.iter().map(|(index, distance)| known[*index].report(*distance, clock));
        Ok(Self {
            time: clock.now_as_time(),
            key: object.key.to_string(),
            runs: runs.collect(),
            omitted_runs,
            links: links.iter().filter(is_shown).map(|link| link.report(&known)).collect(),
        })
    }
}

/// The object that a story is about.
struct Object {
    key: ObjectKey,
    /// What it may be; empty if the query names no kind: then it is what a controller reconciles.
    /// Also empty if nobody watches the kind: then only writes tell of it.
    resources: Vec<Resource>,
    kind: Option<String>,
}

impl Object {
    fn of(text: &str, query: &StoryQuery, state: &State) -> Result<Self, Unknown> {
        let key = text.parse().map_err(|_| Unknown::InvalidKey(text.to_owned()))?;
        let mut resources = Vec::new();
        if let Some(kind) = &query.kind {
            let is_meant = |resource: &Resource| {
                [resource.kind(), resource.plural()]
                    .iter()
                    .any(|name| name.eq_ignore_ascii_case(kind))
            };
            resources.extend(watched(state).into_values().filter(is_meant));
        }
        Ok(Self { key, resources, kind: query.kind.clone() })
    }

    /// Whether it is in a cache or in a queue, although no run that has ended is known.
    fn is_known(&self, state: &State) -> bool {
        state.controllers().iter().any(|shown| {
            let is_meant = |of: &Resource| self.kind.is_none() || self.resources.contains(of);
            let is_reconciled = shown.reconciled().is_some_and(|of| is_meant(&of));
            let is_cached = |cache: &InformerCache| {
                is_meant(cache.resource()) && cache.reader().get(&self.key).is_some()
            };
            (is_reconciled && shown.controller.queue().status(&self.key).is_some())
                || shown.controller.caches().iter().any(is_cached)
        })
    }

    /// Whether a run reconciled the object, wrote it, or ran because of it.
    fn concerns(&self, reconciled: Option<&Resource>, key: &ObjectKey, run: &Run) -> bool {
        let Some(kind) = &self.kind else { return *key == self.key };
        if self.resources.is_empty() {
            // The kind of what nobody watches is not known, only its plural: it is guessed.
            let is_kind = |plural: &str| {
                let guesses = [Some(plural), plural.strip_suffix('s'), plural.strip_suffix("es")];
                guesses.into_iter().flatten().any(|guess| guess.eq_ignore_ascii_case(kind))
            };
            let is_written = |write: &Write| write.key == self.key && is_kind(&write.plural);
            return run.writes.iter().any(is_written);
        }
        self.resources.iter().any(|resource| {
            let is_written = |write: &Write| {
                write.key == self.key
                    && write.plural == resource.plural()
                    && write.group == resource.group()
            };
            let is_cause = |cause: &Cause| match cause {
                Cause::Changed { resource: of, object, .. } => {
                    of == resource && *object == self.key
                }
                _ => false,
            };
            (reconciled == Some(resource) && *key == self.key)
                || run.writes.iter().any(is_written)
                || run.causes.iter().any(is_cause)
        })
    }

    fn unknown(&self, known: &[KnownRun<'_>], state: &State) -> Unknown {
        if let (Some(kind), []) = (&self.kind, &*self.resources) {
            let kinds: BTreeSet<_> =
                watched(state).values().map(|one| one.kind().to_owned()).collect();
            return Unknown::Kind { kind: kind.clone(), known: list(kinds) };
        }
        let keys = known.iter().map(|run| format!("{} {}", run.kind, run.key));
        let key = match &self.kind {
            Some(kind) => format!("{kind} {}", self.key),
            None => self.key.to_string(),
        };
        Unknown::Key { key, known: list(keys.collect()) }
    }
}

/// What the controllers watch, by name.
fn watched(state: &State) -> BTreeMap<String, Resource> {
    let caches = state.controllers().iter().flat_map(|shown| shown.controller.caches());
    caches.map(|cache| (cache.resource().to_string(), cache.resource().clone())).collect()
}

/// A run of any controller.
struct KnownRun<'s> {
    controller: &'s str,
    kind: String,
    /// Whether it reconciled the object of the story, wrote it, or ran because of it.
    concerns_object: bool,
    key: ObjectKey,
    run: Run,
}

impl KnownRun<'_> {
    fn report(&self, distance: usize, clock: Clock) -> StoryRun {
        StoryRun {
            controller: self.controller.to_owned(),
            kind: self.kind.clone(),
            distance,
            run: RunReport::of(&self.key, &self.run, clock),
        }
    }
}

/// A run that woke another one, by their indexes.
struct Link<'r> {
    from: usize,
    to: usize,
    write: &'r Write,
    cause: &'r Cause,
}

impl Link<'_> {
    fn report(&self, known: &[KnownRun<'_>]) -> LinkReport {
        LinkReport {
            from: known[self.from].run.id.to_string(),
            to: known[self.to].run.id.to_string(),
            write: self.write.to_string(),
            cause: self.cause.to_string(),
        }
    }
}

/// What a write produced: a version of the object with this uid, or `None` if it deleted the object
/// (the answer to a delete has no version).
type WrittenVersion<'r> = (&'r Uid, Option<&'r ResourceVersion>);

/// Which run woke which.
fn links<'r>(known: &'r [KnownRun<'_>]) -> Vec<Link<'r>> {
    let mut writers: HashMap<WrittenVersion<'r>, (usize, &'r Write)> = HashMap::new();
    for (index, of) in known.iter().enumerate() {
        for write in of.run.writes.iter().filter(|write| write.has_changed()) {
            writers.insert((&write.uid, write.version.as_ref()), (index, write));
        }
    }
    let mut links = Vec::new();
    for (to, of) in known.iter().enumerate() {
        for cause in &of.run.causes {
            let Cause::Changed { change, version, uid, .. } = cause else { continue };
            let version = (*change != Change::Deleted).then_some(version);
            if let Some((from, write)) = writers.get(&(uid, version)) {
                links.push(Link { from: *from, to, write, cause });
            }
        }
    }
    links
}

/// The runs that can be reached from those of the object, and over how many links.
fn distances(known: &[KnownRun<'_>], links: &[Link<'_>]) -> BTreeMap<usize, usize> {
    let mut neighbours: HashMap<usize, Vec<usize>> = HashMap::new();
    for link in links {
        neighbours.entry(link.from).or_default().push(link.to);
        neighbours.entry(link.to).or_default().push(link.from);
    }
    let own = known.iter().enumerate().filter(|(_, of)| of.concerns_object).map(|(index, _)| index);
    let mut found: BTreeMap<_, _> = own.map(|index| (index, 0)).collect();
    let mut ahead: VecDeque<_> = found.keys().copied().collect();
    while let Some(index) = ahead.pop_front() {
        let distance = found[&index] + 1;
        for next in neighbours.get(&index).into_iter().flatten() {
            if !found.contains_key(next) {
                found.insert(*next, distance);
                ahead.push_back(*next);
            }
        }
    }
    found
}
