//! The server's whole state, and the one way in which objects change.
//!
//! Everything here is synchronous: a request locks the state, changes it, lets the built-in
//! controllers ([`crate::controllers`]) bring it to rest, and unlocks. So the same requests in the
//! same order leave the same state, revision by revision.

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
use crate::openapi::cache::Cache;
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

/// Everything that a request can see or change.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) ids: Ids,
    pub(crate) clock: WallClock,
    /// Who owns whom, for garbage collection.
    pub(crate) owners: Owners,
    /// Objects that changed and that the built-in controllers have not looked at yet.
    pub(crate) touched: VecDeque<Touched>,
    /// The specs of the definitions whose kinds are served, by the name of the definition.
    pub(crate) served: BTreeMap<String, Value>,
    /// The documents of custom kinds that were made.
    pub(crate) openapi: Cache,
    /// Whether garbage is collected and namespaces are emptied.
    pub(crate) collects: bool,
    /// Set if the garbage collector works by step: the changes that it has not looked at yet. There
    /// is no bound but the number of changes since it last had nothing to do.
    pub(crate) uncollected: Option<VecDeque<Touched>>,
    /// Whether every namespace gets the service account `default`.
    pub(crate) creates_accounts: bool,
    /// Who holds which rights, if roles decide about that. It is shared with requests that ask.
    pub(crate) rbac: Option<Arc<Rbac>>,
    /// Who sends the request that is being handled, if roles decide; nobody while controllers work.
    pub(crate) sender: Option<User>,
    /// What the answer to the request that is being handled warns of.
    pub(crate) warnings: Vec<String>,
    /// The webhooks of all configurations.
    pub(crate) hooks: Arc<Hooks>,
    /// The request that is being handled, if webhooks may have to be asked about it.
    pub(crate) replay: Option<Replay>,
}

/// A change that may give a built-in controller something to do.
#[derive(Debug, Clone)]
pub(crate) struct Touched {
    pub(crate) kind: KindId,
    pub(crate) key: Key,
    /// Set if the object is gone now.
    pub(crate) removed: Option<Removed>,
}

/// Who is gone.
#[derive(Debug, Clone)]
pub(crate) struct Removed {
    pub(crate) uid: String,
    /// The uids of its owners.
    pub(crate) owners: Vec<String>,
}

impl State {
    /// Finds the kind of a path. `None`: nobody serves it.
    pub(crate) fn target(&self, path: &ResourcePath) -> Option<Target> {
        let resource = self.registry.resource(&path.group, &path.version, &path.plural)?;
        let kind = resource.entry;
        let version = resource.index;
        let right_scope = match (kind.namespaced, path.namespace.is_empty(), path.name.is_empty()) {
            (true, false, _) | (false, true, _) => true,
            // All namespaces at once can be listed, watched and so on, but hold no object by name.
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

    /// Which objects of the target a request is about.
    pub(crate) fn filter(&self, target: &Target, query: &Query) -> Result<Filter, Failure> {
        let storage = self.registry.by_id(target.kind.storage).unwrap_or(&target.kind);
        Filter::new(target, storage, query)
    }

    /// The stored object, or the 404 that says so.
    pub(crate) fn existing(&self, target: &Target) -> Result<Arc<Stored>, Failure> {
        let found = self.store.get(target.kind.storage, &target.key()).cloned();
        found.ok_or_else(|| Failure::not_found(&target.kind, &target.name))
    }

    /// Stores an object, new or changed, in the version in which it is stored already.
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

    /// The same for an object that was converted to the version in which objects are stored.
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
        self.touched.push_back(Touched { kind: kind.storage, key: key.clone(), removed: None });
        let stored = self.store.put(&self.storing(kind), key, object, version);
        self.note_configurations(kind);
        stored
    }

    /// Reads the webhooks anew if one of their configurations was written.
    fn note_configurations(&mut self, kind: &Registered) {
        if kind.group == webhook::GROUP {
            self.read_configurations();
        }
    }

    /// Reads the webhooks of all configurations.
    pub(crate) fn read_configurations(&mut self) {
        self.hooks = Arc::new(Hooks::read(&self.store, &self.registry));
    }

    /// The rights that follow the objects of a kind, if there are any.
    fn rbac_of(&mut self, kind: &Registered) -> Option<&mut Rbac> {
        let rbac = self.rbac.as_mut().filter(|_| kind.group == GROUP)?;
        Some(Arc::make_mut(rbac))
    }

    /// A 403 if the sender of the request may not write this role or binding. `old` is what was
    /// there.
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

    /// The kind that holds the objects of a kind: itself, except for events of `events.k8s.io`.
    fn storing(&self, kind: &Registered) -> Arc<Registered> {
        self.registry.by_id(kind.storage).expect("a kind that stores must be registered").clone()
    }

    /// Removes an object for good.
    pub(crate) fn remove(&mut self, kind: &Registered, key: &Key) -> Option<Arc<Stored>> {
        let last = self.store.remove(&self.storing(kind), key)?;
        if let Some(rbac) = self.rbac_of(kind) {
            rbac.forget(kind, key);
        }
        let uid = text(&last.value(), "uid").to_owned();
        let owners = self.owners.forget(kind.storage, key, &uid);
        let removed = Some(Removed { uid, owners });
        self.touched.push_back(Touched { kind: kind.storage, key: key.clone(), removed });
        self.note_configurations(kind);
        Some(last)
    }
}
