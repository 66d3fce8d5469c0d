//! Garbage collection by owner references, as kube-controller-manager does it.
//!
//! * An object whose owners are all gone is deleted.
//! * If an object has several owners, references to those that are gone are dropped.
//! * An owner that is deleted in the foreground waits until the dependents that block it are
//!   deleted.
//! * An owner that is deleted with the policy `Orphan` waits until no dependent refers to it.
//!
//! The collector either runs to the end, or takes one step at a time on request. So a test can act
//! between two steps, as the controllers of a real cluster do.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use serde_json::{Map, Value};

use super::owners::{ObjectId, references};
use crate::fields::{finalizers, is_terminating, metadata_mut, set_finalizers, text};
use crate::kinds::Registered;
use crate::object::Key;
use crate::state::{ObjectChange, State};
use crate::write::delete::{DeleteOptions, FOREGROUND, ORPHAN};

/// The owners of an object, by their state.
#[derive(Debug, Default)]
struct OwnerStates {
    /// At least one owner exists and does not wait for this object to be deleted.
    has_live_owner: bool,
    /// The uids of owners that wait for this object to be deleted.
    waiting: Vec<String>,
    /// The uids of owners that do not exist.
    dangling: Vec<String>,
    /// An owner cannot be looked up: its kind is unknown, or it is namespaced and the object is
    /// not.
    has_unresolvable: bool,
}

/// `Break` ends the collection after a step, if the collector works step by step.
type AfterStep = ControlFlow<()>;

/// The result of looking up an owner.
enum OwnerLookup {
    Found(Map<String, Value>),
    Absent,
    Unresolvable,
}

impl State {
    /// Collects the garbage that a change has caused. A collector that works step by step stops
    /// after the first step.
    pub(super) fn collect_after_change(
        &mut self,
        kind: &Registered,
        touched: &ObjectChange,
    ) -> AfterStep {
        if let Some(removed) = &touched.removed {
            for dependent in self.owners.dependents(&removed.uid) {
                self.collect(&dependent)?;
            }
            for owner in &removed.owners {
                if let Some(place) = self.owners.find(owner).cloned() {
                    self.advance_deletion(&place)?;
                }
            }
            return ControlFlow::Continue(());
        }
        let place = (kind.storage, touched.key.clone());
        self.advance_deletion(&place)?;
        self.collect(&place)
    }

    /// Takes the next step of a collector that works by step. Returns whether there was one.
    pub(crate) fn collect_step(&mut self) -> bool {
        // The consequences of a change are computed from the current state, so the change stays in
        // the queue until it has none left.
        while let Some(touched) = self.uncollected.as_ref().and_then(|all| all.front().cloned()) {
            let kind = self.registry.by_id(touched.kind).cloned();
            if kind.is_some_and(|kind| self.collect_after_change(&kind, &touched).is_break()) {
                self.run_controllers();
                return true;
            }
            self.uncollected.as_mut().and_then(VecDeque::pop_front);
        }
        false
    }

    /// Returns whether the collector may continue after a step.
    fn after_step(&self) -> AfterStep {
        match self.uncollected {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    /// Deletes an object if all its owners are gone, and drops references to owners that are gone.
    fn collect(&mut self, place: &ObjectId) -> AfterStep {
        let done = ControlFlow::Continue(());
        let Some((kind, object)) = self.at(place) else { return done };
        let deleting = is_terminating(&object);
        if references(&object).next().is_none()
            || (deleting && !finalizers(&object).contains(&FOREGROUND))
        {
            return done;
        }
        let owner_states = self.owner_states(&object);
        if owner_states.has_unresolvable {
            return done;
        }
        if owner_states.has_live_owner {
            let mut gone = owner_states.dangling;
            gone.extend(owner_states.waiting);
            if !gone.is_empty() {
                self.rewrite(&kind, &place.1, |object| drop_owners(object, &gone));
                return self.after_step();
            }
        } else if !deleting {
            let dependents = self.owners.dependents(text(&object, "uid"));
            let has_dependents = !dependents.is_empty();
            // Two objects that wait for each other would wait forever.
            let waits = |place: &ObjectId| {
                self.at(place).is_some_and(|(_, dependent)| {
                    is_terminating(&dependent) && finalizers(&dependent).contains(&FOREGROUND)
                })
            };
            if !owner_states.waiting.is_empty() && dependents.iter().any(waits) {
                self.rewrite(&kind, &place.1, unblock_owners);
            }
            let decided =
                finalizers(&object).iter().any(|name| [FOREGROUND, ORPHAN].contains(name));
            let options = if !owner_states.waiting.is_empty() && has_dependents {
                DeleteOptions::cascade(true)
            } else if decided {
                DeleteOptions::default()
            } else {
                DeleteOptions::cascade(false)
            };
            self.delete_quietly(&kind, &place.1, &options);
            return self.after_step();
        }
        done
    }

    /// Continues the deletion of an object that waits for its dependents.
    fn advance_deletion(&mut self, place: &ObjectId) -> AfterStep {
        let done = ControlFlow::Continue(());
        let Some((kind, object)) = self.at(place) else { return done };
        if !is_terminating(&object) {
            return done;
        }
        let uid = text(&object, "uid").to_owned();
        let held_by = |name| finalizers(&object).contains(&name);
        if held_by(ORPHAN) {
            for dependent in self.owners.dependents(&uid) {
                let Some((kind, _)) = self.at(&dependent) else { continue };
                self.rewrite(&kind, &dependent.1, |object| {
                    drop_owners(object, std::slice::from_ref(&uid));
                });
                self.after_step()?;
            }
            self.rewrite(&kind, &place.1, |object| drop_finalizer(object, ORPHAN));
            return self.after_step();
        } else if held_by(FOREGROUND) {
            let blocking = self.blocking(&uid);
            for dependent in &blocking {
                self.collect(dependent)?;
            }
            if self.blocking(&uid).is_empty() {
                self.rewrite(&kind, &place.1, |object| drop_finalizer(object, FOREGROUND));
                return self.after_step();
            }
        }
        done
    }

    /// Returns the dependents that block the deletion of their owner.
    fn blocking(&self, uid: &str) -> Vec<ObjectId> {
        let mut dependents = self.owners.dependents(uid);
        dependents.retain(|place| {
            self.at(place)
                .is_some_and(|(_, object)| references(&object).any(|owner| blocks(owner, uid)))
        });
        dependents
    }

    fn owner_states(&self, object: &Map<String, Value>) -> OwnerStates {
        let mut owner_states = OwnerStates::default();
        for reference in references(object) {
            let uid = reference["uid"].as_str().unwrap_or_default();
            let owner = match self.owner(object, reference) {
                OwnerLookup::Found(owner) => owner,
                OwnerLookup::Absent => {
                    owner_states.dangling.push(uid.to_owned());
                    continue;
                }
                OwnerLookup::Unresolvable => {
                    owner_states.has_unresolvable = true;
                    continue;
                }
            };
            let waits = is_terminating(&owner) && finalizers(&owner).contains(&FOREGROUND);
            if waits && blocks(reference, uid) {
                owner_states.waiting.push(uid.to_owned());
            } else {
                owner_states.has_live_owner = true;
            }
        }
        owner_states
    }

    /// Looks up the owner of a reference: uid, kind and name must match, and it must be in the same
    /// namespace or cluster-scoped.
    fn owner(&self, dependent: &Map<String, Value>, reference: &Value) -> OwnerLookup {
        let text_of = |field: &str| reference[field].as_str().unwrap_or_default();
        let (group, _) = text_of("apiVersion").split_once('/').unwrap_or(("", ""));
        let Some(kind) = self.registry.by_kind(group, text_of("kind")) else {
            return OwnerLookup::Unresolvable;
        };
        let namespace = text(dependent, "namespace");
        if kind.namespaced && namespace.is_empty() {
            return OwnerLookup::Unresolvable;
        }
        let key = Key::new(if kind.namespaced { namespace } else { "" }, text_of("name"));
        match self.at(&(kind.storage, key)) {
            Some((_, owner)) if text(&owner, "uid") == text_of("uid") => OwnerLookup::Found(owner),
            _ => OwnerLookup::Absent,
        }
    }

    fn at(
        &self,
        (kind, key): &ObjectId,
    ) -> Option<(std::sync::Arc<Registered>, Map<String, Value>)> {
        let object = self.store.get(*kind, key)?.value();
        Some((self.registry.by_id(*kind)?.clone(), object))
    }
}

fn blocks(reference: &Value, uid: &str) -> bool {
    reference["uid"] == uid && reference["blockOwnerDeletion"] == true
}

fn drop_owners(object: &mut Map<String, Value>, uids: &[String]) {
    let metadata = metadata_mut(object);
    let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") else { return };
    owners.retain(|owner| !uids.iter().any(|uid| owner["uid"] == uid.as_str()));
    if owners.is_empty() {
        metadata.remove("ownerReferences");
    }
}

fn unblock_owners(object: &mut Map<String, Value>) {
    let owners = metadata_mut(object).get_mut("ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        if owner.get("blockOwnerDeletion").is_some() {
            owner["blockOwnerDeletion"] = false.into();
        }
    }
}

fn drop_finalizer(object: &mut Map<String, Value>, name: &str) {
    let left: Vec<String> =
        finalizers(object).into_iter().filter(|held| *held != name).map(str::to_owned).collect();
    set_finalizers(object, &left);
}
