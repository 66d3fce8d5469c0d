//! Which kinds are watched: those that a sync refers to, which are only known at run time.
//!
//! A kind has one watch and one cache, however many syncs refer to it. Both end when the last of
//! these syncs refers to something else, or is gone.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube::api::DynamicObject;
use windlass::informer::Resource;
use windlass::prelude::*;
use windlass::reconciler::{ControllerHandle, SourceId};

use crate::sync::{ByReference, Reference};

/// The watched kinds.
#[derive(Debug)]
pub struct Kinds {
    handle: ControllerHandle,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    watched: BTreeMap<Kind, Watched>,
    /// The kinds that each sync refers to.
    used: BTreeMap<ObjectKey, Vec<Kind>>,
}

/// An API version and a kind.
type Kind = (String, String);

#[derive(Debug)]
struct Watched {
    resource: Resource,
    source: SourceId,
}

impl Kinds {
    /// Kinds that are watched by the controller of this handle.
    pub fn new(handle: ControllerHandle) -> Self {
        Self { handle, state: Mutex::default() }
    }

    /// Sees to it that a sync runs when these objects change, and no others. Returns what their
    /// kinds are.
    ///
    /// Objects must be read after this, not before: what changes meanwhile leads to another run.
    ///
    /// # Errors
    /// Returns an error if the server does not know a kind, or does not answer.
    ///
    /// # Panics
    /// Never.
    pub async fn follow<const N: usize>(
        &self,
        references: [&Reference; N],
        cx: &RunContext,
    ) -> Result<[Resource; N], Error> {
        let mut found = Vec::with_capacity(N);
        for reference in references {
            found.push(self.find(reference, cx).await?);
        }
        let mut state = self.lock();
        for (reference, resource) in references.iter().zip(&found) {
            let kind = kind_of(reference);
            if let Entry::Vacant(unwatched) = state.watched.entry(kind) {
                let watch = Watch::<DynamicObject>::of(resource.clone());
                let source = self.handle.add_referred::<DynamicObject, ByReference>(watch)?;
                unwatched.insert(Watched { resource: resource.clone(), source });
            }
        }
        state.used.insert(cx.key().clone(), references.map(kind_of).into());
        self.drop_unused(&mut state);
        Ok(found.try_into().expect("there must be as many resources as references"))
    }

    /// A sync is gone.
    pub fn forget(&self, sync: &ObjectKey) {
        let mut state = self.lock();
        state.used.remove(sync);
        self.drop_unused(&mut state);
    }

    /// The resource of a kind: as it is watched, or else as the server says.
    ///
    /// # Errors
    /// Returns an error if the server does not know the kind, or does not answer.
    pub async fn find(&self, reference: &Reference, cx: &RunContext) -> Result<Resource, Error> {
        let watched =
            |state: &State| Some(state.watched.get(&kind_of(reference))?.resource.clone());
        if let Some(resource) = watched(&self.lock()) {
            return Ok(resource);
        }
        let kind = reference.group_version_kind();
        let version = Some(kind.version.as_str());
        Ok(Resource::discover(cx.client(), &kind.group, version, &kind.kind).await?)
    }

    fn drop_unused(&self, state: &mut State) {
        let State { watched, used } = state;
        watched.retain(|kind, watched| {
            let is_used = used.values().flatten().any(|used| used == kind);
            is_used || !self.handle.remove(watched.source)
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kind_of(reference: &Reference) -> Kind {
    (reference.api_version.clone(), reference.kind.clone())
}
