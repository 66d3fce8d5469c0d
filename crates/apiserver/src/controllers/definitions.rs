//! A custom resource definition becomes a kind, says so in its conditions, and takes its objects with it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::is_crd;
use crate::crd;
use crate::kinds::{Kind, Origin, Registered};
use crate::object::Key;
use crate::state::{State, Touched, finalizers, is_terminating, set_finalizers};
use crate::write::delete::{CRD_CLEANUP, DeleteOptions};

impl State {
    pub(super) fn settle_definition(&mut self, kind: &Arc<Registered>, touched: &Touched) {
        if is_crd(kind) {
            match self.store.get(kind.storage, &touched.key).map(|crd| crd.value()) {
                None => self.withdraw(&touched.key),
                Some(crd) if is_terminating(&crd) => self.clean_up(kind, &touched.key, &crd),
                Some(crd) => self.establish(kind, &touched.key, &crd),
            }
        } else if kind.origin == Origin::Custom && touched.removed.is_some() {
            let key = Key::new("", &format!("{}.{}", kind.plural, kind.group));
            let definitions = self.registry.definitions().clone();
            let crd = self.store.get(definitions.storage, &key).map(|crd| crd.value());
            if let Some(crd) = crd.filter(is_terminating) {
                self.clean_up(&definitions, &key, &crd);
            }
        }
    }

    /// One step further: names accepted, then established, then served as it is declared now.
    fn establish(&mut self, definitions: &Registered, key: &Key, crd: &Map<String, Value>) {
        let now = self.clock.now();
        let Some(kind) = crd::kind_of(crd) else { return };
        if let Some(conflict) = self.name_conflict(&kind) {
            if crd::condition(crd, "NamesAccepted") != Some("False") {
                self.rewrite(definitions, key, |crd| crd::refuse_names(crd, &conflict, &now));
            }
            return;
        }
        match crd::condition(crd, "Established") {
            None => {
                self.rewrite(definitions, key, |crd| crd::accept_names(crd, &now));
            }
            Some("False") => {
                let served = self.registry.put(kind);
                debug_assert!(served.is_ok(), "a name that is taken was refused before");
                self.rewrite(definitions, key, |crd| crd::establish(crd, &now));
            }
            Some(_) => {
                let served = self.registry.put(kind);
                debug_assert!(served.is_ok(), "a name that is taken was refused before");
                let mut wanted = crd.clone();
                crd::refresh_status(&mut wanted);
                if wanted != *crd {
                    self.rewrite(definitions, key, |crd| *crd = wanted);
                }
            }
        }
    }

    /// Another kind of the group that has one of the names, described.
    fn name_conflict(&self, kind: &Kind) -> Option<Value> {
        let others = self.registry.group(&kind.group)?.kinds.iter();
        let mut others =
            others.filter(|other| other.plural != kind.plural || other.origin == Origin::BuiltIn);
        others.find_map(|other| {
            if other.plural == kind.plural {
                Some(json!({"reason": "PluralConflict", "message": format!("{:?} is already in use", kind.plural)}))
            } else if other.kind == kind.kind {
                Some(json!({"reason": "KindConflict", "message": format!("{:?} is already in use", kind.kind)}))
            } else if other.list_kind == kind.list_kind {
                Some(json!({"reason": "ListKindConflict", "message": format!("{:?} is already in use", kind.list_kind)}))
            } else {
                None
            }
        })
    }

    /// Deletes the objects of a definition that is being deleted; the last one takes it along.
    fn clean_up(&mut self, definitions: &Registered, key: &Key, crd: &Map<String, Value>) {
        if !finalizers(crd).contains(&CRD_CLEANUP) {
            return;
        }
        let served = crd::kind_of(crd)
            .and_then(|kind| self.registry.by_plural(&kind.group, &kind.plural).cloned())
            .filter(|kind| kind.origin == Origin::Custom);
        if let Some(kind) = served {
            let keys: Vec<Key> =
                self.store.objects(kind.storage, "").map(|(key, _)| key.clone()).collect();
            for key in &keys {
                self.delete_quietly(&kind, key, &DeleteOptions::cascade(false));
            }
            if self.store.objects(kind.storage, "").next().is_some() {
                return;
            }
        }
        let left: Vec<String> = finalizers(crd)
            .into_iter()
            .filter(|held| *held != CRD_CLEANUP)
            .map(str::to_owned)
            .collect();
        self.rewrite(definitions, key, |crd| set_finalizers(crd, &left));
    }

    /// The definition is gone, and so is its kind.
    fn withdraw(&mut self, key: &Key) {
        let Some((plural, group)) = key.name().split_once('.') else { return };
        let id = self.registry.by_plural(group, plural).map(|kind| kind.id);
        if let Some(removed) = id.and_then(|id| self.registry.remove(id)) {
            self.store.drop_kind(removed.storage);
        }
    }
}
