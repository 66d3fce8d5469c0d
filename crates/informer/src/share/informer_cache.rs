//! Whether a cache is as new as something that was written.
//!
//! A controller that writes an object and reads the cache right after it may see the old state. The
//! server's answer has the version of the write. A cache that has that version, or a later one,
//! shows the write.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use windlass_indexer::{Head, ObjectKey, Reader, ResourceVersion, Selector, Uid};

use crate::error::Stopped;
use crate::resource::Resource;
use crate::share::engine::Engine;
use crate::share::options::InformerOptions;
use crate::telemetry::status::{InformerPhase, InformerStatus};

/// The result of a write, as the server answered it.
#[derive(Clone, Debug)]
pub enum Written {
    /// An object, with the version that the write led to.
    Object(Head),
    /// No object: this one was deleted.
    Gone {
        /// Its key. Another object may have it by now.
        key: ObjectKey,
        /// Which object it was.
        uid: Uid,
    },
}

/// Checks whether an informer's cache shows a write. It does not keep the informer running.
#[derive(Clone)]
pub struct InformerCache {
    pub(crate) engine: Arc<Engine>,
    /// The label selector of the informer.
    labels: Selector,
    /// Those of namespaces that have one of their own.
    labels_in: BTreeMap<String, Selector>,
    /// What its field selector requires of names and namespaces.
    names: Vec<NameRule>,
    /// Whether it also selects by other fields, which only the server can evaluate.
    pub(crate) has_other_fields: bool,
}

/// One requirement of a field selector, on a name or a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameRule {
    is_namespace: bool,
    /// Whether it must be the value, or anything else.
    is_equal: bool,
    value: String,
}

/// What a feed checks of the objects that a server sends, because the server may ignore selectors.
#[derive(Default)]
pub(crate) struct SelectionCheck {
    labels: Selector,
    names: Vec<NameRule>,
}

impl SelectionCheck {
    /// Checks labels, and the names in a field selector. Only the server knows about other fields.
    pub(crate) fn of(options: &InformerOptions, namespace: Option<&str>) -> Self {
        // A transform may have changed the labels.
        let labels = match options.transform {
            None => options.labels_of(namespace).parse().unwrap_or_default(),
            Some(_) => Selector::everything(),
        };
        Self { labels, names: name_rules(&options.fields).0 }
    }

    /// Whether an object is selected, as far as it shows that.
    pub(crate) fn may_select(&self, head: &Head) -> bool {
        self.labels.matches(head.labels()) && self.names.iter().all(|rule| rule.is_met(head.key()))
    }
}

impl InformerCache {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        let options = &engine.options;
        // A source of the user need not support selectors.
        let parse = |labels: &str| labels.parse::<Selector>().unwrap_or_default();
        let labels = parse(&options.labels);
        let labels_in = options.namespaces.iter().flatten();
        let labels_in =
            labels_in.filter_map(|(name, labels)| Some((name.clone(), parse(labels.as_ref()?))));
        let labels_in = labels_in.collect();
        let (names, has_other_fields) = name_rules(&options.fields);
        Self { engine, labels, labels_in, names, has_other_fields }
    }

    /// Whether both are about the cache of the same informer.
    pub fn is_of_same_cache(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.engine, &other.engine)
    }

    /// The resource of the informer.
    pub fn resource(&self) -> &Resource {
        &self.engine.resource
    }

    /// The cache.
    pub fn reader(&self) -> &Reader {
        &self.engine.cache.reader
    }

    /// Whether the first lists are complete, and the informer has not stopped.
    pub fn has_synced(&self) -> bool {
        *self.engine.phase.borrow() == InformerPhase::Synced
    }

    /// Waits until [`has_synced`](Self::has_synced). Cancel safe.
    ///
    /// # Errors
    /// Returns an error if the informer stops or breaks before.
    pub async fn wait_for_sync(&self) -> Result<(), Stopped> {
        self.engine.wait_for_sync().await
    }

    /// The status of the informer. It visits the whole cache to tell its size.
    pub fn status(&self) -> InformerStatus {
        self.engine.status()
    }

    /// Whether the cache has all objects of a namespace that `selected` selects; `None` stands for
    /// all namespaces, and for objects without one. Then what it does not show does not exist, or
    /// is newer than the cache. A cache whose first list is under way does not have all.
    pub fn holds_all(&self, namespace: Option<&str>, selected: &Selector) -> bool {
        let is_wide = |labels: &Selector| labels.is_everything() || labels == selected;
        let is_wide = match namespace {
            Some(_) => is_wide(self.labels_of(namespace)),
            None => is_wide(&self.labels) && self.labels_in.values().all(is_wide),
        };
        let is_unfiltered = self.names.is_empty() && !self.has_other_fields;
        is_wide
            && is_unfiltered
            && self.has_synced()
            && self.engine.position_of(namespace).is_some()
    }

    /// Whether objects are cached as the server sends them, except for their managedFields: with
    /// more than metadata, and without a transform.
    pub fn is_whole(&self) -> bool {
        !self.engine.is_metadata_only() && self.engine.options.transform.is_none()
    }

    /// The cached version of an object; `None` if it is not cached.
    pub fn version_of(&self, key: &ObjectKey) -> Option<ResourceVersion> {
        self.engine.cache.reader.get(key).map(|held| held.head().resource_version().clone())
    }

    /// The namespaces that the informer watches; `None` for all.
    pub fn namespaces(&self) -> impl Iterator<Item = Option<&str>> {
        self.engine.feeds.iter().map(|feed| feed.position.namespace())
    }

    /// Whether there is nothing to wait for: the cache shows what was written, or never will,
    /// because the informer does not watch it. `answered` is when the server answered the write.
    ///
    /// Versions that are not numbers cannot be compared; for them it is enough that any version is
    /// cached. After a [restore](Self::is_restored_since), the cache is caught up with everything
    /// that was answered before it.
    pub fn is_caught_up(&self, written: &Written, answered: Instant) -> bool {
        if self.is_restored_since(written.key(), answered) {
            return true;
        }
        let held = self.engine.cache.reader.get(written.key());
        match (written, held) {
            (Written::Gone { uid, .. }, held) => held.is_none_or(|held| held.head().uid() != uid),
            // This also holds for another uid, because versions are of the whole cluster.
            (Written::Object(wanted), Some(held)) => {
                let is_older = held.head().resource_version() < wanted.resource_version();
                !is_older
            }
            (Written::Object(wanted), None) => !self.selects(wanted) || self.has_passed(wanted),
        }
    }

    /// Whether the informer watches an object, as far as that is known without the server: by
    /// namespace, labels and name.
    pub(crate) fn selects(&self, head: &Head) -> bool {
        self.labels_of(head.namespace()).matches(head.labels())
            && self.names.iter().all(|rule| rule.is_met(head.key()))
            && self.engine.position_of(head.namespace()).is_some()
    }

    /// Whether the informer is known to watch an object. If its field selector asks for more than
    /// names, and the cache does not hold the object, then only the server knows: the object may
    /// never come.
    pub fn surely_selects(&self, written: &Written) -> bool {
        !self.has_other_fields || self.version_of(written.key()).is_some()
    }

    /// Whether the informer found since `then` that the cluster was restored from a backup, and has
    /// listed everything since then. What was written before is either undone or in that list, and
    /// its version means nothing any more.
    pub fn is_restored_since(&self, key: &ObjectKey, then: Instant) -> bool {
        self.engine
            .position_of(key.namespace())
            .is_some_and(|position| position.is_restored_since(then))
    }

    /// Waits until the cache is [caught up](Self::is_caught_up) with a write. Use a timeout: it may
    /// take for ever if the watch is down, or unless the informer [surely](Self::surely_selects)
    /// watches the object. Cancel safe.
    pub async fn wait_until_caught_up(&self, written: &Written, answered: Instant) {
        loop {
            let progress = self.engine.cache.progress.notified();
            if self.is_caught_up(written, answered) {
                return;
            }
            progress.await;
        }
    }

    /// The label selector of a namespace.
    fn labels_of(&self, namespace: Option<&str>) -> &Selector {
        namespace.and_then(|name| self.labels_in.get(name)).unwrap_or(&self.labels)
    }

    /// Whether everything up to the version of an object that the informer watches has arrived.
    fn has_passed(&self, wanted: &Head) -> bool {
        let position = self.engine.position_of(wanted.namespace());
        position.is_some_and(|position| position.has_reached(wanted.resource_version()))
    }
}

impl NameRule {
    /// `None` if it is on another field.
    fn parse(requirement: &str) -> Option<Self> {
        let (field, value) = requirement.split_once('=')?;
        let (field, is_equal) =
            field.strip_suffix('!').map_or((field, true), |field| (field, false));
        let is_namespace = match field {
            "metadata.namespace" => true,
            "metadata.name" => false,
            _ => return None,
        };
        let value = value.strip_prefix('=').unwrap_or(value).to_owned();
        Some(Self { is_namespace, is_equal, value })
    }

    fn is_met(&self, key: &ObjectKey) -> bool {
        let held = if self.is_namespace { key.namespace().unwrap_or_default() } else { key.name() };
        (held == self.value) == self.is_equal
    }
}

/// What a field selector requires of names, and whether it requires anything else. No name contains
/// a character that is escaped by a backslash, so a selector with a backslash is left to the
/// server.
fn name_rules(fields: &str) -> (Vec<NameRule>, bool) {
    if fields.contains('\\') {
        return (Vec::new(), true);
    }
    let requirements = fields.split(',').filter(|text| !text.is_empty());
    let rules: Vec<_> = requirements.map(NameRule::parse).collect();
    let has_other_fields = rules.iter().any(Option::is_none);
    (rules.into_iter().flatten().collect(), has_other_fields)
}

impl Written {
    /// Which object it is about.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Object(head) => head.key(),
            Self::Gone { key, .. } => key,
        }
    }
}

impl fmt::Debug for InformerCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InformerCache").field(self.resource()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(fields: &str, key: &str) -> bool {
        let key = key.parse().expect("a key");
        name_rules(fields).0.iter().all(|rule| rule.is_met(&key))
    }

    #[test]
    fn names_are_known_without_the_server() {
        let cases = [
            ("metadata.name=web", true),
            ("metadata.name==web", true),
            ("metadata.name!=web", false),
            ("metadata.name=db", false),
            ("metadata.name!=db,metadata.namespace=shop", true),
            ("metadata.name=web,metadata.namespace!=shop", false),
            // It may be among what is watched, for all that is known here.
            ("", true),
            ("spec.nodeName=one", true),
            ("spec.nodeName=one,metadata.name=db", false),
            (r"spec.nodeName=a\,metadata.name=db", true),
        ];
        for (fields, expected) in cases {
            assert_eq!(selects(fields, "shop/web"), expected, "{fields}");
        }
        assert!(!selects("metadata.namespace=shop", "node"));
    }

    #[test]
    fn other_fields_are_known_to_the_server_only() {
        let cases = [
            ("", false),
            ("metadata.name=web,metadata.namespace!=shop", false),
            ("spec.nodeName=one", true),
            ("metadata.name=web,type=Opaque", true),
            (r"metadata.name=a\,b", true),
        ];
        for (fields, expected) in cases {
            assert_eq!(name_rules(fields).1, expected, "{fields}");
        }
    }
}
