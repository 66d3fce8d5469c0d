//! All objects and their recent history, with one revision counter.
//!
//! A [`Store`] is plain data without side effects: it is changed through `&mut`. Each kind has a
//! [`Table`]: the objects by key, and a log of the latest changes. Watchers read the log at their
//! own pace, and lists reconstruct past states from it. Invariants:
//!
//! * the revision only grows (until [`Store::restore`], which ends every watch), and every change
//!   has a revision of its own;
//! * the log of a table holds all its changes after `trimmed_until`, in order;
//! * an object in a table has the revision of its last change.

mod history;

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::watch;

use history::EventKind;
pub(crate) use history::{Event, encode_line};

use crate::kinds::{KindId, Registered};
use crate::object::{Key, Stored};

/// The maximum size of the objects in the log of a kind, in bytes. It applies besides the number of
/// changes.
const LOG_BYTES_MAX: usize = 128 * 1024 * 1024;

/// All objects of a server.
#[derive(Debug)]
pub(crate) struct Store {
    /// The revision of the last change.
    revision: u64,
    /// Lists and watches from before this revision are too old.
    compacted: u64,
    /// The maximum number of changes in the log of a table.
    window: usize,
    tables: BTreeMap<KindId, Table>,
}

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct Table {
    objects: BTreeMap<Key, Arc<Stored>>,
    log: VecDeque<Arc<Event>>,
    /// The size of the objects in the log, in bytes.
    log_bytes: usize,
    /// The revision of the last change that was dropped from the log.
    trimmed_until: u64,
    /// Notifies watchers of changes; closed when watches must end.
    changed: watch::Sender<u64>,
}

/// Selects the objects of one kind from the path `start` on, in one namespace or in all, as of a
/// revision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range<'a> {
    pub(crate) kind: KindId,
    /// Empty: all namespaces.
    pub(crate) namespace: &'a str,
    pub(crate) start: Option<&'a str>,
    pub(crate) revision: u64,
}

/// One page of a list.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    pub(crate) items: Vec<Arc<Stored>>,
    /// The last key, if there are more objects after it.
    pub(crate) last: Option<Key>,
    /// How many objects follow, selected or not.
    pub(crate) remaining: usize,
}

/// A saved state, for [`Store::restore`].
#[derive(Debug, Clone)]
pub(crate) struct StoreSnapshot {
    revision: u64,
    tables: BTreeMap<KindId, BTreeMap<Key, Arc<Stored>>>,
}

impl Store {
    pub(crate) fn new(window: usize) -> Self {
        Self { revision: 0, compacted: 0, window, tables: BTreeMap::new() }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(&self, kind: KindId, key: &Key) -> Option<&Arc<Stored>> {
        self.tables.get(&kind)?.objects.get(key)
    }

    /// Returns the objects of a namespace (empty: of all), in order.
    pub(crate) fn objects<'a>(
        &'a self,
        kind: KindId,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> + use<'a> {
        let (from, to) = bounds(namespace, None);
        self.tables
            .get(&kind)
            .into_iter()
            .flat_map(move |table| table.objects.range((from.clone(), to.clone())))
    }

    /// Returns whether a namespace has no objects.
    pub(crate) fn namespace_is_empty(&self, namespace: &str) -> bool {
        self.tables.keys().all(|&kind| self.objects(kind, namespace).next().is_none())
    }

    /// Returns the kind and key of every object in a namespace.
    pub(crate) fn namespace_content(&self, namespace: &str) -> Vec<(KindId, Key)> {
        let kinds = self.tables.keys();
        kinds
            .flat_map(|&kind| {
                self.objects(kind, namespace).map(move |(key, _)| (kind, key.clone()))
            })
            .collect()
    }

    /// Stores a new or changed object. `version` is the version that it is in; `None` means the
    /// storage version of its kind.
    pub(crate) fn put(
        &mut self,
        kind: &Registered,
        key: &Key,
        object: Map<String, Value>,
        version: Option<&str>,
    ) -> Arc<Stored> {
        self.revision += 1;
        let version = version.unwrap_or(&kind.storage().name);
        let new = Arc::new(Stored::new(object, self.revision, kind, version));
        let table = self.tables.entry(kind.storage).or_default();
        let change = match table.objects.insert(key.clone(), new.clone()) {
            None => EventKind::Added,
            Some(old) => EventKind::Modified { old },
        };
        table.record(Event::new(key.clone(), change, new.clone()), self.window);
        new
    }

    /// Removes an object. Returns its last state with the revision of the removal, as the event has
    /// it.
    pub(crate) fn remove(&mut self, kind: &Registered, key: &Key) -> Option<Arc<Stored>> {
        let table = self.tables.get_mut(&kind.storage)?;
        let old = table.objects.remove(key)?;
        self.revision += 1;
        let last = Arc::new(old.at_revision(self.revision, kind));
        table
            .record(Event::new(key.clone(), EventKind::Deleted { old }, last.clone()), self.window);
        Some(last)
    }

    /// Returns the oldest revision that a list or a watch of this kind can start from.
    pub(crate) fn oldest(&self, kind: KindId) -> u64 {
        let trimmed_until = self.tables.get(&kind).map_or(0, |table| table.trimmed_until);
        trimmed_until.max(self.compacted)
    }

    /// Returns the revision of the last change of this kind that its log has dropped. Watches that
    /// have not read it cannot continue.
    pub(crate) fn trimmed_until(&self, kind: KindId) -> u64 {
        self.tables.get(&kind).map_or(0, |table| table.trimmed_until)
    }

    /// Drops the history. Watches that have read all of it continue.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.revision;
        for table in self.tables.values_mut() {
            if let Some(last) = table.log.back() {
                table.trimmed_until = last.revision();
            }
            table.log.clear();
            table.log_bytes = 0;
        }
    }

    /// Returns up to `limit` objects of a range that match `wanted`.
    pub(crate) fn page(
        &self,
        range: &Range<'_>,
        limit: usize,
        wanted: impl Fn(&Key, &Stored) -> bool,
    ) -> Slice {
        let Some(table) = self.tables.get(&range.kind) else { return Slice::default() };
        let bounds = bounds(range.namespace, range.start);
        let now = table.objects.range(bounds.clone());
        if range.revision >= self.revision {
            return Slice::take(now, limit, wanted);
        }
        let past = table.changes_undone(range.revision, |key| bounds.contains(key));
        Slice::take(history::overlay(now, &past), limit, wanted)
    }

    /// Returns one object as of `revision`, which must not be older than [`Store::oldest`].
    pub(crate) fn get_at(&self, kind: KindId, key: &Key, revision: u64) -> Option<Arc<Stored>> {
        let table = self.tables.get(&kind)?;
        match table.changes_undone(revision, |changed| changed == key).remove(key) {
            Some(then) => then,
            None => table.objects.get(key).cloned(),
        }
    }

    /// Returns a receiver that is notified of changes of a kind, with the latest revision.
    pub(crate) fn subscribe(&mut self, kind: KindId) -> watch::Receiver<u64> {
        self.tables.entry(kind).or_default().changed.subscribe()
    }

    /// Returns up to `limit` changes of a kind after `revision`, in order.
    pub(crate) fn changes_after(
        &self,
        kind: KindId,
        revision: u64,
        limit: usize,
    ) -> Vec<Arc<Event>> {
        let Some(table) = self.tables.get(&kind) else { return Vec::new() };
        let first = table.log.partition_point(|event| event.revision() <= revision);
        table.log.range(first..).take(limit).cloned().collect()
    }

    /// Creates the table of a new kind, whose history begins now.
    pub(crate) fn begin_kind(&mut self, kind: KindId) {
        let trimmed_until = self.revision;
        self.tables.entry(kind).or_insert_with(|| Table { trimmed_until, ..Table::default() });
    }

    /// Re-indexes the objects of a kind after its schema has changed. `edit` is called with each
    /// object and its version, and may change the object. Revisions stay, and the watches of the
    /// kind end.
    pub(crate) fn reindex(
        &mut self,
        kind: &Registered,
        edit: impl Fn(&mut Map<String, Value>, &str),
    ) {
        let Some(table) = self.tables.get_mut(&kind.storage) else { return };
        for object in table.objects.values_mut() {
            let mut value = object.value();
            edit(&mut value, object.version.as_deref().unwrap_or_default());
            *object = Arc::new(object.changed(value, kind));
        }
        table.changed = watch::Sender::new(0);
    }

    /// Removes a kind with all its objects. Its watches end.
    pub(crate) fn drop_kind(&mut self, kind: KindId) {
        self.tables.remove(&kind);
    }

    pub(crate) fn store_snapshot(&self) -> StoreSnapshot {
        let tables = self.tables.iter();
        StoreSnapshot {
            revision: self.revision,
            tables: tables.map(|(kind, table)| (*kind, table.objects.clone())).collect(),
        }
    }

    /// Goes back to an earlier state, revision included, as an etcd that is restored from a backup
    /// does. History begins there, and every watch ends.
    pub(crate) fn restore(&mut self, store_snapshot: StoreSnapshot) {
        self.revision = store_snapshot.revision;
        self.compacted = store_snapshot.revision;
        let tables = store_snapshot.tables.into_iter();
        self.tables =
            tables.map(|(kind, objects)| (kind, Table { objects, ..Table::default() })).collect();
    }

    /// Returns the number of objects, and their size in bytes of JSON.
    pub(crate) fn size(&self) -> (usize, usize) {
        let objects = self.tables.values().flat_map(|table| table.objects.values());
        objects.fold((0, 0), |(count, bytes), object| (count + 1, bytes + object.size()))
    }
}

impl Slice {
    fn take<'a>(
        objects: impl Iterator<Item = (&'a Key, &'a Arc<Stored>)>,
        limit: usize,
        wanted: impl Fn(&Key, &Stored) -> bool,
    ) -> Self {
        let mut objects = objects.peekable();
        let mut slice = Self::default();
        while let Some((key, object)) = objects.next() {
            if !wanted(key, object) {
                continue;
            }
            slice.items.push(object.clone());
            if slice.items.len() == limit && objects.peek().is_some() {
                slice.last = Some(key.clone());
                break;
            }
        }
        if slice.last.is_some() {
            slice.remaining = objects.count();
        }
        slice
    }
}

impl Default for Table {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            log_bytes: 0,
            trimmed_until: 0,
            changed: watch::Sender::new(0),
        }
    }
}

impl Table {
    fn record(&mut self, event: Event, window: usize) {
        let revision = event.revision();
        self.log_bytes += event.size();
        self.log.push_back(Arc::new(event));
        while self.log.len() > window || (self.log_bytes > LOG_BYTES_MAX && self.log.len() > 1) {
            let dropped =
                self.log.pop_front().expect("a log over its window must have a first event");
            self.log_bytes -= dropped.size();
            self.trimmed_until = dropped.revision();
        }
        self.changed.send_replace(revision);
    }

    /// Returns the earlier state of every key that matches `wanted` and changed after `revision`.
    fn changes_undone(
        &self,
        revision: u64,
        wanted: impl Fn(&Key) -> bool,
    ) -> BTreeMap<Key, Option<Arc<Stored>>> {
        let first = self.log.partition_point(|event| event.revision() <= revision);
        let mut then = BTreeMap::new();
        for event in self.log.range(first..).filter(|event| wanted(event.key())) {
            then.entry(event.key().clone()).or_insert_with(|| event.before().cloned());
        }
        then
    }
}

type Bounds = (Bound<Key>, Bound<Key>);

/// Returns the range of keys of a namespace (empty: of all), from the path `start` on.
fn bounds(namespace: &str, start: Option<&str>) -> Bounds {
    let to = if namespace.is_empty() {
        Bound::Unbounded
    } else {
        // '0' comes right after '/', so this is after every name of the namespace.
        Bound::Excluded(Key::bound(&format!("{namespace}0")))
    };
    let first = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let from =
        start.map_or(first.as_str(), |start| if start > first.as_str() { start } else { &first });
    (Bound::Included(Key::bound(from)), to)
}
