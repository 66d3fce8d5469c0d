//! The whole state of a server, and the only code that changes objects.
//!
//! Everything here is synchronous: a request locks the state, changes it, runs the built-in
//! controllers ([`crate::controllers`]) until nothing changes any more, and unlocks. So the same
//! requests in the same order leave the same state, revision by revision.

mod attempt;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::clock::WallClock;
use crate::controllers::owners::Owners;
use crate::failure::Failure;
use crate::fields::text;
use crate::filter::Filter;
use crate::ids::Ids;
use crate::kinds::{KindId, Registered, Registry};
use crate::object::{Key, Stored};
use crate::openapi::Cache;
use crate::query::Query;
use crate::rbac::Rbac;
use crate::rbac::rule::GROUP;
use crate::route::ResourcePath;
use crate::store::Store;
use crate::target::Target;
use crate::user::User;
use crate::webhook;
use crate::webhook::hook::Hooks;
use crate::webhook::replay::Replay;

/// All data that a request can read or change.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) ids: Ids,
    pub(crate) clock: WallClock,
    /// The index of owners, for garbage collection.
    pub(crate) owners: Owners,
    /// Changes that the built-in controllers have not handled yet.
    pub(crate) touched: VecDeque<ObjectChange>,
    /// The specs of the served definitions, by the name of the definition.
    pub(crate) served: BTreeMap<String, Value>,
    /// The `OpenAPI` documents of groups with custom kinds.
    pub(crate) openapi: Cache,
    /// Whether garbage is collected and namespaces are emptied.
    pub(crate) collects: bool,
    /// Set if the garbage collector works by step: the changes that it has not handled yet. The
    /// queue is bounded only by the number of changes since the collector last had nothing to do.
    pub(crate) uncollected: Option<VecDeque<ObjectChange>>,
    /// Whether every namespace gets the service account `default`.
    pub(crate) creates_accounts: bool,
    /// The rights of all users, if RBAC is switched on. Requests share it.
    pub(crate) rbac: Option<Arc<Rbac>>,
    /// The sender of the current request with RBAC; `None` while controllers run.
    pub(crate) sender: Option<User>,
    /// The warnings for the current request.
    pub(crate) warnings: Vec<String>,
    /// The webhooks of all configurations.
    pub(crate) hooks: Arc<Hooks>,
    /// The current request, if webhooks may have to be called for it.
    pub(crate) replay: Option<Replay>,
}

/// A change that may give a built-in controller something to do.
#[derive(Debug, Clone)]
pub(crate) struct ObjectChange {
    pub(crate) kind: KindId,
    pub(crate) key: Key,
    /// Set if the object was removed.
    pub(crate) removed: Option<Removed>,
}

/// A removed object.
#[derive(Debug, Clone)]
pub(crate) struct Removed {
    pub(crate) uid: String,
    /// The uids of its owners.
    pub(crate) owners: Vec<String>,
}

impl State {
    /// Returns the target of a path, or `None` if its resource is not served.
    pub(crate) fn target(&self, path: &ResourcePath) -> Option<Target> {
        let resource = self.registry.resource(&path.group, &path.version, &path.plural)?;
        let kind = resource.entry;
        let version = resource.index;
        let right_scope = match (kind.namespaced, path.namespace.is_empty(), path.name.is_empty()) {
            (true, false, _) | (false, true, _) => true,
            // A namespaced collection has a path across all namespaces, but its objects do not.
            (true, true, collection) => collection,
            (false, false, _) => false,
        };
        right_scope.then(|| Target {
            kind,
            version,
            namespace: path.namespace.clone(),
            name: path.name.clone(),
            subresource: path.subresource.clone(),
        })
    }

    /// Returns the filter for the objects that a request selects.
    pub(crate) fn filter(&self, target: &Target, query: &Query) -> Result<Filter, Failure> {
        let storage = self.registry.by_id(target.kind.storage).unwrap_or(&target.kind);
        Filter::new(target, storage, query)
    }

    /// Returns the stored object, or a 404.
    pub(crate) fn existing(&self, target: &Target) -> Result<Arc<Stored>, Failure> {
        let found = self.store.get(target.kind.storage, &target.key()).cloned();
        found.ok_or_else(|| Failure::not_found(&target.kind, &target.name))
    }

    /// Stores a new or changed object. A stored object keeps its version.
    pub(crate) fn put(
        &mut self,
        kind: &Registered,
        key: &Key,
        object: Map<String, Value>,
    ) -> Arc<Stored> {
        let held = if kind.is_builtin() { None } else { self.store.get(kind.storage, key) };
        let version = held.and_then(|held| held.version.clone());
        self.put_in(kind, key, object, version.as_deref())
    }

    /// Stores an object that was converted to the storage version.
    pub(crate) fn put_in_storage_version(
        &mut self,
        kind: &Registered,
        key: &Key,
        object: Map<String, Value>,
    ) -> Arc<Stored> {
        self.put_in(kind, key, object, None)
    }

    fn put_in(
        &mut self,
        kind: &Registered,
        key: &Key,
        object: Map<String, Value>,
        version: Option<&str>,
    ) -> Arc<Stored> {
        self.owners.note(kind.storage, key, &object);
        if let Some(rbac) = self.rbac_of(kind) {
            rbac.note(kind, key, &object);
        }
        self.touched.push_back(ObjectChange {
            kind: kind.storage,
            key: key.clone(),
            removed: None,
        });
        let stored = self.store.put(&self.storing(kind), key, object, version);
        self.note_configurations(kind);
        stored
    }

    /// Reads the webhooks again if one of their configurations was written.
    fn note_configurations(&mut self, kind: &Registered) {
        if kind.group == webhook::GROUP {
            self.read_configurations();
        }
    }

    /// Reads the webhooks of all configurations.
    pub(crate) fn read_configurations(&mut self) {
        self.hooks = Arc::new(Hooks::read(&self.store, &self.registry));
    }

    /// Returns the RBAC index if the kind belongs to it.
    fn rbac_of(&mut self, kind: &Registered) -> Option<&mut Rbac> {
        let rbac = self.rbac.as_mut().filter(|_| kind.group == GROUP)?;
        Some(Arc::make_mut(rbac))
    }

    /// Returns a 403 if the sender of the request may not write this role or binding. `old` is the
    /// stored object.
    pub(crate) fn check_escalation(
        &self,
        target: &Target,
        old: Option<&Map<String, Value>>,
        new: &Map<String, Value>,
    ) -> Result<(), Failure> {
        match (&self.rbac, &self.sender) {
            (Some(rbac), Some(sender)) => rbac.check_escalation(sender, target, old, new),
            _ => Ok(()),
        }
    }

    /// Returns the kind that stores the objects of a kind: itself, except for events of
    /// `events.k8s.io`.
    fn storing(&self, kind: &Registered) -> Arc<Registered> {
        self.registry.by_id(kind.storage).expect("a kind that stores must be registered").clone()
    }

    /// Removes an object from the store.
    pub(crate) fn remove(&mut self, kind: &Registered, key: &Key) -> Option<Arc<Stored>> {
        let last = self.store.remove(&self.storing(kind), key)?;
        if let Some(rbac) = self.rbac_of(kind) {
            rbac.forget(kind, key);
        }
        let uid = text(&last.value(), "uid").to_owned();
        let owners = self.owners.forget(kind.storage, key, &uid);
        let removed = Some(Removed { uid, owners });
        self.touched.push_back(ObjectChange { kind: kind.storage, key: key.clone(), removed });
        self.note_configurations(kind);
        Some(last)
    }
}
