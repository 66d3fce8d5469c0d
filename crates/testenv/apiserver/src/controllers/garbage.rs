//! Garbage collection by owner references, as kube-controller-manager does it.
//!
//! * An object whose owners are all gone is deleted.
//! * Of several owners, references to those that are gone are dropped.
//! * An owner that is deleted in the foreground waits for the dependents that block it, which go
//!   first.
//! * An owner that is deleted as an orphan's parent waits until no dependent refers to it.
//!
//! It either does all that there is to do, or one step at a time, when it is told to. So a test can
//! act between two steps, as the controllers of a real cluster do.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use serde_json::{Map, Value};

use super::owners::{ObjectId, references};
use crate::fields::{finalizers, is_terminating, metadata_mut, set_finalizers, text};
use crate::kinds::Registered;
use crate::object::Key;
use crate::state::{State, Touched};
use crate::write::delete::{DeleteOptions, FOREGROUND, ORPHAN};

/// The owners of an object, by what they are doing.
#[derive(Debug, Default)]
struct Standing {
    /// They are there to stay, or at least do not wait for this object.
    solid: bool,
    /// They wait for this object to go.
    waiting: Vec<String>,
    /// They do not exist.
    dangling: Vec<String>,
    /// It cannot be told: nobody knows the kind, or something without a namespace refers into one.
    unclear: bool,
}

/// Whether the collector goes on after what it did: by step, it does not.
type Pace = ControlFlow<()>;

/// What looking for an owner gave.
enum Sought {
    Found(Map<String, Value>),
    Absent,
    Unclear,
}

impl State {
    /// Collects what a change has made garbage; by step, ends after the first step.
    pub(super) fn settle_garbage(&mut self, kind: &Registered, touched: &Touched) -> Pace {
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
        // What a change has led to is found from the state as it is now. So the change stays in the
        // queue until it leads to nothing more.
        while let Some(touched) = self.uncollected.as_ref().and_then(|all| all.front().cloned()) {
            let kind = self.registry.by_id(touched.kind).cloned();
            if kind.is_some_and(|kind| self.settle_garbage(&kind, &touched).is_break()) {
                self.settle();
                return true;
            }
            self.uncollected.as_mut().and_then(VecDeque::pop_front);
        }
        false
    }

    /// After a step.
    fn pace(&self) -> Pace {
        match self.uncollected {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    /// Deletes an object that nobody owns any more, and drops references to owners that are gone.
    fn collect(&mut self, place: &ObjectId) -> Pace {
        let done = ControlFlow::Continue(());
        let Some((kind, object)) = self.at(place) else { return done };
        let deleting = is_terminating(&object);
        if references(&object).next().is_none()
            || (deleting && !finalizers(&object).contains(&FOREGROUND))
        {
            return done;
        }
        let standing = self.standing(&object);
        if standing.unclear {
            return done;
        }
        if standing.solid {
            let mut gone = standing.dangling;
            gone.extend(standing.waiting);
            if !gone.is_empty() {
                self.rewrite(&kind, &place.1, |object| drop_owners(object, &gone));
                return self.pace();
            }
        } else if !deleting {
            let dependents = self.owners.dependents(text(&object, "uid"));
            let has_dependents = !dependents.is_empty();
            // Two that wait for each other would wait for ever.
            let waits = |place: &ObjectId| {
                self.at(place).is_some_and(|(_, dependent)| {
                    is_terminating(&dependent) && finalizers(&dependent).contains(&FOREGROUND)
                })
            };
            if !standing.waiting.is_empty() && dependents.iter().any(waits) {
                self.rewrite(&kind, &place.1, unblock_owners);
            }
            let decided =
                finalizers(&object).iter().any(|name| [FOREGROUND, ORPHAN].contains(name));
            let options = if !standing.waiting.is_empty() && has_dependents {
                DeleteOptions::cascade(true)
            } else if decided {
                DeleteOptions::default()
            } else {
                DeleteOptions::cascade(false)
            };
            self.delete_quietly(&kind, &place.1, &options);
            return self.pace();
        }
        done
    }

    /// Goes on with the deletion of an object that waits for its dependents.
    fn advance_deletion(&mut self, place: &ObjectId) -> Pace {
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
                self.pace()?;
            }
            self.rewrite(&kind, &place.1, |object| drop_finalizer(object, ORPHAN));
            return self.pace();
        } else if held_by(FOREGROUND) {
            let blocking = self.blocking(&uid);
            for dependent in &blocking {
                self.collect(dependent)?;
            }
            if self.blocking(&uid).is_empty() {
                self.rewrite(&kind, &place.1, |object| drop_finalizer(object, FOREGROUND));
                return self.pace();
            }
        }
        done
    }

    /// Dependents that keep their owner from going.
    fn blocking(&self, uid: &str) -> Vec<ObjectId> {
        let mut dependents = self.owners.dependents(uid);
        dependents.retain(|place| {
            self.at(place)
                .is_some_and(|(_, object)| references(&object).any(|owner| blocks(owner, uid)))
        });
        dependents
    }

    fn standing(&self, object: &Map<String, Value>) -> Standing {
        let mut standing = Standing::default();
        for reference in references(object) {
            let uid = reference["uid"].as_str().unwrap_or_default();
            let owner = match self.owner(object, reference) {
                Sought::Found(owner) => owner,
                Sought::Absent => {
                    standing.dangling.push(uid.to_owned());
                    continue;
                }
                Sought::Unclear => {
                    standing.unclear = true;
                    continue;
                }
            };
            let waits = is_terminating(&owner) && finalizers(&owner).contains(&FOREGROUND);
            if waits && blocks(reference, uid) {
                standing.waiting.push(uid.to_owned());
            } else {
                standing.solid = true;
            }
        }
        standing
    }

    /// Looks for an owner as the reference describes it: uid, kind and name must agree, and it must
    /// be in the same namespace, or in none.
    fn owner(&self, dependent: &Map<String, Value>, reference: &Value) -> Sought {
        let text_of = |field: &str| reference[field].as_str().unwrap_or_default();
        let (group, _) = text_of("apiVersion").split_once('/').unwrap_or(("", ""));
        let Some(kind) = self.registry.by_kind(group, text_of("kind")) else {
            return Sought::Unclear;
        };
        let namespace = text(dependent, "namespace");
        if kind.namespaced && namespace.is_empty() {
            return Sought::Unclear;
        }
        let key = Key::new(if kind.namespaced { namespace } else { "" }, text_of("name"));
        match self.at(&(kind.storage, key)) {
            Some((_, owner)) if text(&owner, "uid") == text_of("uid") => Sought::Found(owner),
            _ => Sought::Absent,
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
