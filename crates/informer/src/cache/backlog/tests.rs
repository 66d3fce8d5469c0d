//! The backlog: what merges, what does not, and that a replica of what comes out is always right.

use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher as _;
use std::sync::Arc;

use proptest::prelude::*;
use windlass_indexer::{HeadParser, Object};

use super::{Backlog, MERGE_ABOVE, Notice, Pending};
use crate::cache::delta_fifo::FinalState;

fn object(name: &str, uid: u64, version: u64) -> Arc<Object> {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    );
    let head = HeadParser::default().parse(json.as_bytes()).expect("a head");
    Arc::new(Object::new(head, json.into_bytes()))
}

fn added(name: &str, version: u64) -> Notice {
    Notice::Added { object: object(name, 1, version), initial: false }
}

fn initial(name: &str, version: u64) -> Notice {
    Notice::Added { object: object(name, 1, version), initial: true }
}

fn updated(name: &str, old: u64, new: u64) -> Notice {
    let (old, new) = (object(name, 1, old), object(name, 1, new));
    Notice::Updated { old, new, merged: false }
}

/// The same version again.
fn resync(name: &str, version: u64) -> Notice {
    let object = object(name, 1, version);
    Notice::Updated { old: Arc::clone(&object), new: object, merged: false }
}

fn deleted(name: &str, version: u64) -> Notice {
    Notice::Deleted { object: object(name, 1, version), state: FinalState::Final }
}

fn tombstone(name: &str, version: u64) -> Notice {
    Notice::Deleted { object: object(name, 1, version), state: FinalState::LastKnown }
}

/// A notice as `updated web 1→2`, with a star if it has merged.
fn text(notice: &Notice) -> String {
    let show =
        |object: &Object| format!("{} {}", object.head().name(), object.head().resource_version());
    match notice {
        Notice::Added { object, initial: true } => format!("initial {}", show(object)),
        Notice::Added { object, initial: false } => format!("added {}", show(object)),
        Notice::Updated { old, new, merged } => {
            let star = if *merged { "*" } else { "" };
            format!("updated {}→{}{star}", show(old), new.head().resource_version())
        }
        Notice::Deleted { object, state: FinalState::Final } => format!("deleted {}", show(object)),
        Notice::Deleted { object, state: FinalState::LastKnown } => {
            format!("tombstone {}", show(object))
        }
    }
}

fn pending_text(pending: &Pending) -> String {
    match pending {
        Pending::Notice(notice) => text(notice),
        Pending::Synced => "synced".to_owned(),
    }
}

/// Returns whether the notice merged with one that was pending.
fn push(backlog: &mut Backlog, notice: Notice) -> bool {
    let before = backlog.merged();
    backlog.push(notice);
    backlog.merged() > before
}

fn drain(backlog: &mut Backlog) -> Vec<String> {
    let drained = std::iter::from_fn(|| backlog.pop()).map(|pending| pending_text(&pending));
    let drained = drained.collect();
    assert!(backlog.is_empty());
    drained
}

/// What comes out of a backlog that merges from the first notice on, and how many merged.
fn merge(notices: impl IntoIterator<Item = Notice>) -> (Vec<String>, u64) {
    let mut backlog = Backlog::new(0);
    for notice in notices {
        push(&mut backlog, notice);
    }
    (drain(&mut backlog), backlog.merged())
}

#[test]
fn up_to_the_bound_every_notice_is_delivered_in_order() {
    let mut backlog = Backlog::new(MERGE_ABOVE);
    let bound = MERGE_ABOVE as u64;
    for version in 0..bound {
        assert!(!push(&mut backlog, updated("a", version, version + 1)));
    }
    assert_eq!((backlog.len(), backlog.merged()), (MERGE_ABOVE, 0));
    assert!(push(&mut backlog, updated("a", bound, bound + 1)), "this one is too many");
    assert_eq!((backlog.len(), backlog.merged()), (MERGE_ABOVE, 1));

    let last = format!("updated a {}→{}*", bound - 1, bound + 1);
    let expected = (0..bound - 1).map(|version| format!("updated a {version}→{}", version + 1));
    assert_eq!(drain(&mut backlog), expected.chain([last]).collect::<Vec<_>>());
}

#[test]
fn an_update_of_a_pending_add_is_an_add_of_the_new_object() {
    let (notices, merged) = merge([added("a", 1), updated("a", 1, 2), updated("a", 2, 3)]);
    assert_eq!((notices, merged), (vec!["added a 3".to_owned()], 2));
}

#[test]
fn an_add_of_the_initial_list_stays_one() {
    let mut backlog = Backlog::new(0);
    backlog.push(initial("a", 1));
    backlog.push_synced();
    backlog.push(updated("a", 1, 2));
    assert_eq!(drain(&mut backlog), ["initial a 2", "synced"]);
}

#[test]
fn updates_become_one_from_the_first_old_to_the_last_new_object() {
    let (notices, merged) = merge([updated("a", 1, 2), updated("a", 2, 3), resync("a", 3)]);
    assert_eq!((notices, merged), (vec!["updated a 1→3*".to_owned()], 2));
}

#[test]
fn a_resync_of_a_pending_update_does_not_hide_it() {
    let (notices, _) = merge([resync("a", 1), updated("a", 1, 2), resync("a", 2)]);
    assert_eq!(notices, ["updated a 1→2"], "no version was between");
}

#[test]
fn a_delete_of_a_pending_update_is_a_delete() {
    let (notices, merged) = merge([updated("a", 1, 2), tombstone("a", 2)]);
    assert_eq!((notices, merged), (vec!["tombstone a 2".to_owned()], 1));
}

#[test]
fn an_object_that_comes_and_goes_is_not_told_of() {
    let (notices, merged) = merge([added("a", 1), updated("a", 1, 2), deleted("a", 3)]);
    assert_eq!((notices, merged), (vec![], 3));
}

#[test]
fn an_object_that_goes_and_comes_is_told_of_twice() {
    let (notices, merged) = merge([deleted("a", 1), added("a", 2), updated("a", 2, 3)]);
    assert_eq!(notices, ["deleted a 1", "added a 3"]);
    assert_eq!(merged, 1);
}

#[test]
fn an_object_that_goes_and_comes_over_and_over_is_never_pending_more_than_twice() {
    let mut backlog = Backlog::new(0);
    push(&mut backlog, deleted("a", 0));
    for version in 1..1000 {
        push(&mut backlog, added("a", version));
        assert_eq!(backlog.len(), 2);
        push(&mut backlog, deleted("a", version));
        assert_eq!(backlog.len(), 1);
    }
    assert_eq!(drain(&mut backlog), ["deleted a 0"]);
}

#[test]
fn a_merged_notice_keeps_the_place_of_the_first() {
    let (notices, _) = merge([updated("a", 1, 2), updated("b", 3, 4), updated("a", 2, 5)]);
    assert_eq!(notices, ["updated a 1→5*", "updated b 3→4"]);
}

#[test]
fn what_is_pending_when_the_bound_is_crossed_is_delivered_as_it_is() {
    let mut backlog = Backlog::new(3);
    push(&mut backlog, updated("a", 1, 2));
    push(&mut backlog, updated("a", 2, 3));
    push(&mut backlog, updated("b", 1, 2));
    assert!(push(&mut backlog, updated("a", 3, 4)));
    assert!(push(&mut backlog, updated("a", 4, 5)));
    assert_eq!(drain(&mut backlog), ["updated a 1→2", "updated a 2→5*", "updated b 1→2"]);
}

#[test]
fn a_notice_that_was_popped_is_not_merged_with() {
    let mut backlog = Backlog::new(0);
    push(&mut backlog, added("a", 1));
    push(&mut backlog, added("b", 2));
    push(&mut backlog, added("c", 3));
    assert_eq!(backlog.pop().map(|pending| pending_text(&pending)).as_deref(), Some("added a 1"));
    assert!(!push(&mut backlog, deleted("a", 4)), "the handler knows of it");
    assert!(push(&mut backlog, deleted("b", 5)));
    assert_eq!(drain(&mut backlog), ["added c 3", "deleted a 4"]);
}

#[test]
fn below_the_bound_nothing_merges_even_if_the_backlog_was_long() {
    let mut backlog = Backlog::new(4);
    for number in 0..6 {
        push(&mut backlog, added(&number.to_string(), 1));
    }
    for _ in 0..3 {
        backlog.pop();
    }
    assert!(!push(&mut backlog, updated("5", 1, 2)));
    assert!(push(&mut backlog, updated("5", 2, 3)), "now four are");
    assert_eq!(drain(&mut backlog), ["added 3 1", "added 4 1", "added 5 1", "updated 5 1→3*"]);
}

#[test]
fn a_long_backlog_leaves_no_large_table_behind() {
    let mut backlog = Backlog::new(4);
    for number in 0..1_000 {
        push(&mut backlog, added(&number.to_string(), 1));
    }
    assert!(backlog.last.capacity() >= 1_000);
    drain(&mut backlog);
    assert!(backlog.last.capacity() < 16, "{}", backlog.last.capacity());
}

#[test]
fn the_bound_counts_the_end_of_the_initial_list_which_merges_with_nothing() {
    let mut backlog = Backlog::new(2);
    push(&mut backlog, initial("a", 1));
    backlog.push_synced();
    assert!(push(&mut backlog, deleted("a", 1)));
    assert_eq!((drain(&mut backlog), backlog.merged()), (vec!["synced".to_owned()], 2));
}

/// What a cache could do next.
#[derive(Clone, Debug)]
enum Step {
    /// Adds the object, if it is not there; updates, shows again or deletes it, if it is.
    Touch {
        key: usize,
        choice: u8,
    },
    Synced,
    Pop(usize),
}

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let touch = (0..KEYS.len(), any::<u8>()).prop_map(|(key, choice)| Step::Touch { key, choice });
    let step = prop_oneof![
        12 => touch,
        1 => Just(Step::Synced),
        3 => (1..6usize).prop_map(Step::Pop),
    ];
    prop::collection::vec(step, 0..200)
}

/// A cache that tells of its changes, a backlog, and a handler that keeps a replica.
struct World {
    backlog: Backlog,
    cache: BTreeMap<&'static str, Arc<Object>>,
    replica: BTreeMap<String, Arc<Object>>,
    /// What the handler saw of each uid last, and of the ends of the initial list.
    newest: BTreeMap<String, u64>,
    synced_seen: bool,
    synced_sent: bool,
    version: u64,
    pushed: u64,
    popped: u64,
    /// What was pushed and not popped, as long as nothing has merged.
    exact: VecDeque<String>,
}

impl World {
    fn new(merge_above: usize) -> Self {
        Self {
            backlog: Backlog::new(merge_above),
            cache: BTreeMap::new(),
            replica: BTreeMap::new(),
            newest: BTreeMap::new(),
            synced_seen: false,
            synced_sent: false,
            version: 0,
            pushed: 0,
            popped: 0,
            exact: VecDeque::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Touch { key, choice } => {
                let notice = self.touch(KEYS[key], choice);
                self.push(Pending::Notice(notice));
            }
            Step::Synced if self.synced_sent => {}
            Step::Synced => {
                self.synced_sent = true;
                self.push(Pending::Synced);
            }
            Step::Pop(times) => (0..times).for_each(|_| self.pop()),
        }
        self.check();
    }

    fn touch(&mut self, key: &'static str, choice: u8) -> Notice {
        self.version += 1;
        let Some(old) = self.cache.get(key).cloned() else {
            // Sometimes the same uid comes back.
            let uid = if choice.is_multiple_of(4) { 0 } else { self.version };
            let object = object(key, uid, self.version);
            self.cache.insert(key, Arc::clone(&object));
            return Notice::Added { object, initial: !self.synced_sent };
        };
        let uid = old.head().uid().to_string().parse().expect("a number");
        let state =
            if choice.is_multiple_of(2) { FinalState::Final } else { FinalState::LastKnown };
        match (choice % 8, state) {
            (0..3, FinalState::Final) => {
                self.cache.remove(key);
                Notice::Deleted { object: object(key, uid, self.version), state }
            }
            (0..3, FinalState::LastKnown) => {
                self.cache.remove(key);
                Notice::Deleted { object: old, state }
            }
            (3, _) => Notice::Updated { new: Arc::clone(&old), old, merged: false },
            _ => {
                let new = object(key, uid, self.version);
                self.cache.insert(key, Arc::clone(&new));
                Notice::Updated { old, new, merged: false }
            }
        }
    }

    fn push(&mut self, pending: Pending) {
        let len = self.backlog.len();
        let merged = self.backlog.merged();
        self.exact.push_back(pending_text(&pending));
        self.pushed += 1;
        match pending {
            Pending::Notice(notice) => self.backlog.push(notice),
            Pending::Synced => self.backlog.push_synced(),
        }
        let has_merged = self.backlog.merged() > merged;
        if len < self.backlog.merge_above {
            assert!(!has_merged, "nothing may merge below the bound");
            assert_eq!(self.backlog.len(), len + 1);
        }
    }

    fn pop(&mut self) {
        let Some(pending) = self.backlog.pop() else {
            assert_eq!(self.backlog.len(), 0);
            return;
        };
        self.popped += 1;
        let expected = self.exact.pop_front();
        if self.backlog.merged() == 0 {
            assert_eq!(Some(pending_text(&pending)), expected, "the order must be exact");
        }
        match pending {
            Pending::Notice(notice) => self.handle(notice),
            Pending::Synced => {
                assert!(!self.synced_seen, "an initial list must end once");
                self.synced_seen = true;
            }
        }
    }

    /// What a handler does.
    fn handle(&mut self, notice: Notice) {
        let told = text(&notice);
        match notice {
            Notice::Added { object, initial } => {
                assert_eq!(initial, !self.synced_seen, "{told}");
                self.see(&object);
                let held = self.replica.insert(object.head().name().to_owned(), object);
                assert!(held.is_none(), "{told}: it is there");
            }
            Notice::Updated { old, new, .. } => {
                self.see(&new);
                let held = self.replica.insert(new.head().name().to_owned(), new);
                assert!(
                    held.is_some_and(|held| Arc::ptr_eq(&held, &old)),
                    "{told}: another was held"
                );
            }
            Notice::Deleted { object, .. } => {
                self.see(&object);
                let held = self.replica.remove(object.head().name());
                let held = held.unwrap_or_else(|| panic!("{told}: it is not there"));
                assert_eq!(held.head().uid(), object.head().uid(), "{told}");
            }
        }
    }

    /// The versions of a uid must not go back.
    fn see(&mut self, object: &Object) {
        let uid = format!("{} {}", object.head().name(), object.head().uid());
        let version = object.head().resource_version().to_string().parse().expect("a number");
        let before = self.newest.insert(uid, version);
        assert!(before.is_none_or(|before| before <= version), "a version must not go back");
    }

    fn check(&self) {
        let backlog = &self.backlog;
        assert_eq!(self.pushed, self.popped + backlog.len() as u64 + backlog.merged());
        assert!(backlog.len() <= backlog.merge_above + 2 * KEYS.len() + 1);
        assert!(backlog.last.len() <= backlog.len());
    }
}

proptest! {
    #[test]
    fn a_replica_of_what_comes_out_is_what_went_in(steps in steps(), merge_above in 0..24usize) {
        let mut world = World::new(merge_above);
        for step in &steps {
            world.step(step);
        }
        while !world.backlog.is_empty() {
            world.pop();
            world.check();
        }
        prop_assert_eq!(world.synced_seen, world.synced_sent);
        prop_assert_eq!(world.replica.len(), world.cache.len());
        for (key, object) in &world.cache {
            prop_assert!(Arc::ptr_eq(object, &world.replica[*key]), "{} differs", key);
        }
    }
}

/// Tenants choose the names of objects. With a fixed seed they could choose many whose hashes
/// collide.
#[test]
fn no_two_backlogs_hash_names_alike() {
    let hash = || Backlog::new(0).last.hasher().hash_one("default/web-0");
    assert_ne!(hash(), hash());
}
