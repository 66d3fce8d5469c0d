//! The delta fifo beside a model that is as simple as possible: a vector of keys with their
//! changes, and lists that remember every key. Whatever is added, listed, interrupted, popped and
//! applied, both hold the same.
//!
//! A failure prints its steps, and `PROPTEST_CASES=20000` looks longer.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use windlass_indexer::{HeadParser, Object, Reader, Store};

use super::super::{Delta, DeltaFifo, FinalState};
use super::{begin, key_of};
use crate::cache::listing::Listing;

const KEYS: [&str; 6] = ["a/x", "a/y", "a/z", "b/x", "b/y", "b/z"];

/// What can happen next. Keys and scopes are numbers, and every step draws a new version.
#[derive(Clone, Debug)]
enum Step {
    Change(usize, u8),
    Delete(usize, u8),
    Begin(usize),
    /// The list of the key's namespace has the object, in a new version or as it is held.
    Listed(usize, u8),
    End(usize),
    Interrupt(usize),
    /// Pops, and applies to the cache.
    Pop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..KEYS.len();
    let uid = 0..2u8;
    let step = prop_oneof![
        4 => (key.clone(), uid.clone()).prop_map(|(key, uid)| Step::Change(key, uid)),
        2 => (key.clone(), uid).prop_map(|(key, uid)| Step::Delete(key, uid)),
        2 => (0..2usize).prop_map(Step::Begin),
        6 => (key, 0..3u8).prop_map(|(key, uid)| Step::Listed(key, uid)),
        2 => (0..2usize).prop_map(Step::End),
        1 => (0..2usize).prop_map(Step::Interrupt),
        6 => Just(Step::Pop),
    ];
    prop::collection::vec(step, 0..120)
}

fn object(key: &str, uid: u8, version: u64) -> Arc<Object> {
    let (namespace, name) = key.split_once('/').expect("a namespace and a name");
    let metadata = serde_json::json!({
        "name": name, "namespace": namespace,
        "uid": uid.to_string(), "resourceVersion": version.to_string(),
    });
    let json = serde_json::json!({ "metadata": metadata }).to_string();
    let head = HeadParser::default().parse(json.as_bytes()).expect("a head");
    Arc::new(Object::new(head, json.into_bytes()))
}

/// The same object by identity, not only by content.
fn text(delta: &Delta) -> String {
    let word = match delta {
        Delta::Changed(_) => "changed",
        Delta::Deleted { state: FinalState::Final, .. } => "deleted",
        Delta::Deleted { state: FinalState::LastKnown, .. } => "tombstone",
    };
    format!("{word} {:p}", Arc::as_ptr(delta.object()))
}

/// Keys with their changes, in order. It knows the same rules, without any structure.
#[derive(Default)]
struct Model {
    queue: Vec<(String, Vec<Delta>)>,
}

impl Model {
    fn changes(&mut self, key: &str) -> Option<&mut Vec<Delta>> {
        self.queue.iter_mut().find(|(queued, _)| queued == key).map(|(_, deltas)| deltas)
    }

    fn push(&mut self, delta: Delta) {
        let key = delta.object().head().key().to_string();
        let Some(deltas) = self.changes(&key) else {
            self.queue.push((key, vec![delta]));
            return;
        };
        deltas.push(delta);
    }

    fn end_list(
        &mut self,
        known: &Reader,
        namespace: Option<&str>,
        marks: &BTreeSet<String>,
    ) -> usize {
        let is_gone = |object: &Object| {
            let key = object.head().key();
            (namespace.is_none() || namespace == key.namespace())
                && !marks.contains(&key.to_string())
        };
        let objects = known.snapshot().all();
        let gone: Vec<_> =
            objects.iter().filter(|object| is_gone(object)).map(Arc::clone).collect();
        let tombstones = gone.len();
        for object in gone {
            self.push(Delta::Deleted { object, state: FinalState::LastKnown });
        }
        tombstones
    }

    fn pop(&mut self) -> Option<Vec<Delta>> {
        if self.queue.is_empty() {
            return None;
        }
        Some(self.queue.remove(0).1)
    }
}

/// A list that is under way, in both.
struct Listed {
    list: Listing,
    marks: BTreeSet<String>,
}

/// The cache, the fifo and the model.
struct World {
    store: Store,
    known: Reader,
    fifo: DeltaFifo,
    model: Model,
    /// Of everything, or of one namespace each.
    scopes: Vec<Option<&'static str>>,
    lists: [Option<Listed>; 2],
    version: u64,
}

impl World {
    fn new(by_namespace: bool) -> Self {
        let store = Store::new();
        Self {
            known: store.reader(),
            store,
            fifo: DeltaFifo::default(),
            model: Model::default(),
            scopes: if by_namespace { vec![Some("a"), Some("b")] } else { vec![None] },
            lists: [None, None],
            version: 0,
        }
    }

    fn object(&mut self, key: usize, uid: u8) -> Arc<Object> {
        self.version += 1;
        object(KEYS[key], uid, self.version)
    }

    fn scope_of(&self, key: usize) -> usize {
        if self.scopes.len() == 1 { 0 } else { usize::from(KEYS[key].starts_with('b')) }
    }

    /// What a watch reports while a list is under way is there, too.
    fn watched(&mut self, key: usize, delta: Delta) {
        let scope = self.scope_of(key);
        if let Some(listing) = &mut self.lists[scope] {
            listing.list.mark(delta.object().head().key());
            listing.marks.insert(KEYS[key].to_owned());
        }
        self.model.push(delta);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Change(key, uid) => {
                let object = self.object(key, uid);
                self.fifo.change(Arc::clone(&object));
                self.watched(key, Delta::Changed(object));
            }
            Step::Delete(key, uid) => self.delete(key, uid),
            Step::Listed(key, uid) => self.listed(key, uid),
            Step::Begin(scope) => self.begin(scope % self.scopes.len()),
            Step::End(scope) => self.end(scope % self.scopes.len()),
            Step::Interrupt(scope) => self.lists[scope] = None,
            Step::Pop => self.pop(),
        }
    }

    fn delete(&mut self, key: usize, uid: u8) {
        let newest = self.model.changes(KEYS[key]).and_then(|deltas| deltas.last());
        let is_held = match newest {
            Some(newest) => !newest.is_deleted(),
            None => self.known.get(KEYS[key]).is_some(),
        };
        if !is_held {
            return;
        }
        let object = self.object(key, uid);
        self.fifo.delete(Arc::clone(&object));
        self.model.push(Delta::Deleted { object, state: FinalState::Final });
    }

    /// The cache pops everything under its lock, so what follows finds an empty queue.
    fn pop_all(&mut self) {
        while !self.fifo.queue.is_empty() {
            self.pop();
            self.check();
        }
    }

    fn begin(&mut self, scope: usize) {
        self.pop_all();
        let list = begin(&self.known, self.scopes[scope]);
        self.lists[scope] = Some(Listed { list, marks: BTreeSet::new() });
    }

    fn listed(&mut self, key: usize, uid: u8) {
        let scope = self.scope_of(key);
        let new = self.object(key, uid);
        let Some(Listed { list, marks }) = &mut self.lists[scope] else { return };
        marks.insert(KEYS[key].to_owned());
        let held = self.known.get(KEYS[key]);
        if let Some(held) =
            held.filter(|_| uid == 2 && self.fifo.newest(&key_of(KEYS[key])).is_none())
        {
            list.mark(held.head().key());
        } else {
            list.mark(new.head().key());
            self.fifo.change(Arc::clone(&new));
            self.model.push(Delta::Changed(new));
        }
    }

    fn end(&mut self, scope: usize) {
        self.pop_all();
        let Some(Listed { list, marks }) = self.lists[scope].take() else { return };
        let gone = list.gone(&self.known);
        assert_eq!(gone.len(), self.model.end_list(&self.known, self.scopes[scope], &marks));
        gone.into_iter().map(Delta::tombstone).for_each(|tombstone| self.fifo.push(tombstone));
    }

    fn pop(&mut self) {
        let popped = self.fifo.pop();
        let expected = self.model.pop();
        assert_eq!(popped.is_some(), expected.is_some());
        let (Some(popped), Some(expected)) = (popped, expected) else { return };
        assert!(popped.iter().map(text).eq(expected.iter().map(text)));
        match &popped[popped.len() - 1] {
            Delta::Deleted { object, .. } => drop(self.store.delete(object.head().key())),
            Delta::Changed(object) => drop(self.store.put(Arc::clone(object))),
        }
    }

    fn check(&mut self) {
        let queued = |deltas: &[Delta]| deltas.iter().map(text).collect::<Vec<_>>();
        let fifo = self.fifo.queue.iter().map(|key| queued(&self.fifo.items[key]));
        let fifo: Vec<_> = fifo.collect();
        let model: Vec<_> = self.model.queue.iter().map(|(_, deltas)| queued(deltas)).collect();
        assert_eq!(fifo, model);
        assert_eq!(self.fifo.items.len(), model.len());
        for key in KEYS {
            let newest = self.model.changes(key).and_then(|deltas| deltas.last());
            assert_eq!(self.fifo.newest(&key_of(key)).map(text), newest.map(text));
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_the_fifo_holds_what_the_model_holds(steps in steps(), by_namespace: bool) {
        let mut world = World::new(by_namespace);
        for step in &steps {
            world.step(step);
            world.check();
        }
        world.pop_all();
    }
}
