//! Serves the kinds of custom resource definitions, sets their conditions, and deletes their
//! objects with them.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::crd;
use crate::fields::{finalizers, is_terminating, set_finalizers};
use crate::kind::{Kind, Origin, Version};
use crate::kinds::Registered;
use crate::object::Key;
use crate::state::{ObjectChange, State};
use crate::write::delete::{CRD_CLEANUP, DeleteOptions};

impl State {
    pub(super) fn settle_definition(&mut self, kind: &Arc<Registered>, touched: &ObjectChange) {
        if kind.is_crd() {
            match self.store.get(kind.storage, &touched.key).map(|crd| crd.value()) {
                None => self.withdraw(kind, &touched.key),
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

    /// Takes one step: accepts the names, then serves the kind and sets `Established`.
    fn establish(&mut self, definitions: &Registered, key: &Key, crd: &Map<String, Value>) {
        let now = self.clock.now();
        let Some(kind) = crd::kind_of(crd) else { return };
        let names = self.accepted_names(&kind);
        if let Some((reason, message)) = &names.conflict {
            self.rewrite(definitions, key, |crd| {
                crd::refuse_names(crd, names.accepted, reason, message, &now);
            });
            return;
        }
        if crd::condition(crd, "NamesAccepted") != Some("True") {
            self.rewrite(definitions, key, |crd| crd::accept_names(crd, &now));
            return;
        }
        self.serve(key, kind, crd);
        self.rewrite(definitions, key, |crd| {
            crd::establish(crd, &now);
            crd::refresh_status(crd);
        });
    }

    /// Serves the kind as its definition declares it now. If the kind was already served in another
    /// form, its watches end, and its objects get the new defaults of the version that they are
    /// stored in, without a new resource version: real servers do both on reading.
    fn serve(&mut self, key: &Key, kind: Kind, crd: &Map<String, Value>) {
        let spec = crd.get("spec").cloned().unwrap_or_default();
        if self.served.get(key.name()) == Some(&spec) {
            return;
        }
        let known = self.served.insert(key.name().to_owned(), spec).is_some();
        let Ok(id) = self.registry.put(kind) else {
            debug_assert!(false, "a name that is taken was refused before");
            return;
        };
        self.store.begin_kind(id);
        let Some(kind) = self.registry.by_id(id).filter(|_| known) else { return };
        self.store.reindex(kind, |object, version| {
            if let Some(schema) = kind.version(version).and_then(Version::schema) {
                let mut value = Value::Object(std::mem::take(object));
                schema.default(&mut value);
                if let Value::Object(defaulted) = value {
                    *object = defaulted;
                }
            }
        });
    }

    /// Queues the definitions of a group whose names were refused, because the names may be free
    /// now.
    fn reconsider(&mut self, definitions: &Registered, group: &str) {
        let refused = self.store.objects(definitions.storage, "").filter(|(key, crd)| {
            key.name().split_once('.').is_some_and(|(_, of)| of == group)
                && crd::condition(&crd.value(), "NamesAccepted") == Some("False")
        });
        let refused: Vec<Key> = refused.map(|(key, _)| key.clone()).collect();
        let kind = definitions.storage;
        self.touched.extend(refused.into_iter().map(|key| ObjectChange {
            kind,
            key,
            removed: None,
        }));
    }

    /// Returns the names that no other kind of the group has, and the last conflict.
    fn accepted_names(&self, kind: &Kind) -> Names {
        let group = self
            .registry
            .group(&kind.group)
            .map(|group| group.kinds.as_slice())
            .unwrap_or_default();
        let others: Vec<_> = group
            .iter()
            .filter(|other| other.plural != kind.plural || other.is_builtin())
            .collect();
        let is_resource = |name: &str| {
            others.iter().any(|other| {
                other.plural == name
                    || other.singular == name
                    || other.short_names.iter().any(|short| short == name)
            })
        };
        let is_kind =
            |name: &str| others.iter().any(|other| other.kind == name || other.list_kind == name);
        let mut names = Names { accepted: Map::new(), conflict: None };
        names.check("plural", &kind.plural, is_resource(&kind.plural), "PluralConflict");
        names.check("singular", &kind.singular, is_resource(&kind.singular), "SingularConflict");
        let taken: Vec<_> = kind.short_names.iter().filter(|name| is_resource(name)).collect();
        if let Some(name) = taken.first() {
            names.conflict = Some(("ShortNamesConflict", format!("{name:?} is already in use")));
        } else if !kind.short_names.is_empty() {
            names.accepted.insert("shortNames".into(), kind.short_names.as_slice().into());
        }
        names.check("kind", &kind.kind, is_kind(&kind.kind), "KindConflict");
        names.check("listKind", &kind.list_kind, is_kind(&kind.list_kind), "ListKindConflict");
        names
    }

    /// Deletes the objects of a definition that is being deleted, and then releases the definition.
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

    /// Removes the kind of a definition that is gone, with its remaining objects.
    fn withdraw(&mut self, definitions: &Registered, key: &Key) {
        self.served.remove(key.name());
        let Some((plural, group)) = key.name().split_once('.') else { return };
        let kind =
            self.registry.by_plural(group, plural).filter(|kind| !kind.is_builtin()).cloned();
        if let Some(kind) = kind {
            // The finalizer was removed before the objects were gone.
            let keys: Vec<Key> =
                self.store.objects(kind.storage, "").map(|(key, _)| key.clone()).collect();
            for key in &keys {
                self.remove(&kind, key);
            }
            self.registry.remove(kind.id);
            self.store.drop_kind(kind.storage);
        }
        self.reconsider(definitions, group);
    }
}

/// The names of a definition, checked against those of the other kinds.
struct Names {
    accepted: Map<String, Value>,
    conflict: Option<(&'static str, String)>,
}

impl Names {
    fn check(&mut self, field: &str, name: &str, taken: bool, reason: &'static str) {
        if taken {
            self.conflict = Some((reason, format!("{name:?} is already in use")));
        } else {
            self.accepted.insert(field.to_owned(), name.into());
        }
    }
}
