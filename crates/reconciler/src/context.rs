//! What a run is given beside its object.

use std::fmt;
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::time::Instant;
use windlass_indexer::{Lister, ObjectKey};
use windlass_informer::{Resource, Scope};

use crate::Error;
use crate::cause::Cause;
use crate::expectations::{Expectations, Pending};
use crate::live::Live;
use crate::recorder::Recorder;
use crate::recording::{WriteLog, recording};
use crate::source::{NoLister, Sources};
use crate::write::Recorded;

/// One run: which key, why, which attempt it is, and until when; and what it reads and writes with.
///
/// There are two ways to read, and the name says which it is: a [lister](Self::lister) reads a cache, which costs
/// nothing and may be a moment behind; [`live`](Self::live) asks the server. The cache shows what the *last* run of
/// this key has written, unless it is [behind](Self::cache_behind).
pub struct RunContext {
    pub(crate) tools: Arc<Tools>,
    pub(crate) key: ObjectKey,
    pub(crate) causes: Vec<Cause>,
    pub(crate) causes_omitted: u64,
    pub(crate) attempt: u32,
    pub(crate) deadline: Option<Instant>,
    pub(crate) is_behind: bool,
    /// A client, and what is written through it. Made when it is first asked for: most runs write nothing.
    pub(crate) recording: OnceLock<(Client, WriteLog)>,
}

/// An event about an object, to be published as [`normal`](Self::normal) or [`warning`](Self::warning).
#[must_use = "nothing is published before `normal` or `warning` is called"]
pub struct EventAbout<'a> {
    recorder: &'a Recorder,
    object: ObjectReference,
}

impl EventAbout<'_> {
    /// Something went as it should.
    pub fn normal(self, reason: &str, note: impl Into<String>) {
        self.recorder.normal(self.object, reason, note);
    }

    /// Something is wrong.
    pub fn warning(self, reason: &str, note: impl Into<String>) {
        self.recorder.warning(self.object, reason, note);
    }
}

impl fmt::Debug for EventAbout<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventAbout").field("object", &self.object).finish_non_exhaustive()
    }
}

/// What all runs of a controller have.
pub(crate) struct Tools {
    pub(crate) controller: Arc<str>,
    pub(crate) client: Client,
    pub(crate) sources: Sources,
    pub(crate) expectations: Expectations,
    pub(crate) recorder: Recorder,
}

impl Tools {
    /// Whether no cache is waited for that should show this write.
    pub(crate) fn is_seen(&self, recorded: &Recorded) -> bool {
        self.sources.behind(recorded).is_empty()
    }

    /// Runs of a key have written this.
    pub(crate) fn expect_writes(&self, key: &ObjectKey, pending: Pending) {
        self.expectations.put(key, pending, |recorded| self.is_seen(recorded));
    }
}

impl RunContext {
    /// The name of the controller.
    pub fn controller(&self) -> &str {
        &self.tools.controller
    }

    /// Asks the server, and writes to it. What this run writes through it, the next run of this key sees.
    pub fn client(&self) -> &Client {
        let make = || {
            let log = WriteLog::new(self.key.clone(), &self.tools);
            (recording(self.tools.client.clone(), log.clone()), log)
        };
        &self.recording.get_or_init(make).0
    }

    /// Reads and writes objects of a type at the server, by the rules of a controller.
    pub fn live<T>(&self) -> Live<'_, T>
    where
        T: kube::Resource<DynamicType = (), Scope: Scope>,
    {
        Live::new(self)
    }

    /// Reads the cache of a type that the controller watches, owns or reads.
    ///
    /// # Errors
    /// If it does none of these, or has several caches of the type; the error says what to do.
    pub fn lister<T: 'static>(&self) -> Result<Lister<T>, Error> {
        self.tools.sources.lister(None).map_err(|why| self.no_lister::<T>(&why))
    }

    /// Reads the cache of a resource that the controller watches, owns or reads as a type: for one that fits several,
    /// as a dynamic one does.
    ///
    /// # Errors
    /// If it does none of these, or has several caches of both; the error says what to do.
    pub fn lister_of<T: 'static>(&self, resource: &Resource) -> Result<Lister<T>, Error> {
        self.tools.sources.lister(Some(resource)).map_err(|why| self.no_lister::<T>(&why))
    }

    fn no_lister<T>(&self, why: &NoLister) -> Error {
        let (controller, name) = (self.controller(), short_name(std::any::type_name::<T>()));
        Error::msg(match why {
            NoLister::Missing => format!(
                "the controller {controller:?} has no cache of {name}: add .reads({}) to its builder, \
                 or .owns or .watches",
                watch_of(&name)
            ),
            NoLister::Several(of) if of.len() > 1 => {
                let of: Vec<_> = of.iter().map(Resource::to_string).collect();
                format!(
                    "the controller {controller:?} has caches of several resources as {name} ({}): say which, by \
                     lister_of",
                    of.join(", ")
                )
            }
            NoLister::Several(_) => format!(
                "the controller {controller:?} has several caches of {name}, with different options: watch it once, \
                 or give the reconciler the lister that it is to read, from SharedInformerFactory::informer_with"
            ),
        })
    }

    /// Publishes a Kubernetes event about an object, as `kubectl describe` shows it:
    /// `cx.event(&*object).normal("Synced", "…")`. Events are written in the background, and may be lost.
    pub fn event<T>(&self, object: &T) -> EventAbout<'_>
    where
        T: kube::Resource<DynamicType = ()>,
    {
        EventAbout { recorder: &self.tools.recorder, object: object.object_ref(&()) }
    }

    /// The key that runs.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Why it runs: the oldest and the newest reasons.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// How many reasons between them were left out.
    pub fn causes_omitted(&self) -> u64 {
        self.causes_omitted
    }

    /// Which attempt this is since the last success: 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When the run is cancelled, if it has a timeout.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether a cache may not show yet what the last run of this key has written, though that was
    /// waited for. Then read [live](Self::live) before you create something that may exist already.
    ///
    /// It is `true` in every run until the cache has caught up. What cannot be known is told once:
    /// whether a write was made whose answer was lost, and whether a source will ever show an
    /// object that it selects by a field other than its name.
    pub fn cache_behind(&self) -> bool {
        self.is_behind
    }
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("controller", &self.controller())
            .field("key", &self.key)
            .field("causes", &self.causes)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// The name of a type without the paths in it, also of those in its brackets.
fn short_name(name: &str) -> String {
    let is_of_path = |char: char| char.is_alphanumeric() || matches!(char, '_' | ':');
    let mut short = String::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let path = rest.find(|char| !is_of_path(char)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(path.max(first.len_utf8()));
        short.push_str(part.rsplit("::").next().unwrap_or(part));
        rest = after;
    }
    short
}

/// How a type is watched, as it is written.
fn watch_of(name: &str) -> String {
    let metadata = name.strip_prefix("PartialObjectMeta<").and_then(|name| name.strip_suffix('>'));
    match (name, metadata) {
        // What it is of is not known from the type.
        ("DynamicObject", _) | (_, Some("DynamicObject")) => {
            format!("Watch::<{name}>::of(resource)")
        }
        (_, Some(of)) => format!("Watch::metadata_of::<{of}>()"),
        (_, None) => format!("Watch::<{name}>::new()"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_are_told_as_they_are_written() {
        let cases = [
            ("k8s_openapi::api::core::v1::Secret", "Watch::<Secret>::new()"),
            ("Foo", "Watch::<Foo>::new()"),
            ("kube_core::PartialObjectMeta<core::v1::Secret>", "Watch::metadata_of::<Secret>()"),
            ("a::Object<b::Spec, c::d::Status>", "Watch::<Object<Spec, Status>>::new()"),
            ("kube_core::dynamic::DynamicObject", "Watch::<DynamicObject>::of(resource)"),
        ];
        for (name, expected) in cases {
            assert_eq!(watch_of(&short_name(name)), expected);
        }
    }
}
