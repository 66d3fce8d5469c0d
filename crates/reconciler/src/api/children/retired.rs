//! What is left of the kinds of children that a controller does not make any more.
//!
//! Each retired kind is listed once after the controller has started, for all owners, by the first
//! prune that comes. A prune deletes those of its own owner, so an owner that is paused keeps them,
//! and a plan shows them. No running version makes such objects, so the list cannot miss one for
//! long: a controller that starts again, because it leads again, lists them again.
//!
//! The list is as long as there are such objects. It only says where to look: before one is
//! deleted, it is read from the server.
//!
//! Workers wait for the same list. If it fails, all of them get that error, and so do those that
//! come [soon after](FAILURE_KEPT).

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use windlass_indexer::{ObjectKey, Uid};
use windlass_informer::Resource;

use super::existing::labelled;
use crate::api::live::access::Access;
use crate::api::write_options::WriteOptions;
use crate::error::Error;
use crate::run::context::RunContext;

/// How long a list that failed is not repeated. Every key that runs would send it again.
const FAILURE_KEPT: Duration = Duration::from_secs(10);

/// The children of retired kinds.
#[derive(Default)]
pub(crate) struct RetiredChildren {
    /// Replaced when the controller starts.
    listing: Mutex<Arc<Listing>>,
}

/// The list, once it is made.
#[derive(Default)]
struct Listing {
    found: OnceCell<Found>,
    /// When it failed the last time, and why.
    failure: Mutex<Option<(Instant, CannotList)>>,
}

/// Where they are, by the uid of their controller.
type Found = Mutex<HashMap<Uid, Vec<(Resource, ObjectKey)>, RandomState>>;

/// The list failed. The error of several runs.
#[derive(Clone, Debug)]
struct CannotList(Arc<dyn StdError + Send + Sync>);

impl fmt::Display for CannotList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "children of the kinds that the controller retires cannot be listed, so nothing is \
             deleted",
        )
    }
}

impl StdError for CannotList {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.0)
    }
}

impl RetiredChildren {
    /// Lists them again when the next prune comes.
    pub(crate) fn reset(&self) {
        *self.listing.lock() = Arc::default();
    }

    /// Those of an owner.
    ///
    /// Cancel safe: if it is dropped while it lists them, the next call begins again.
    pub(super) async fn of_owner(
        &self,
        cx: &RunContext,
        owner: &Uid,
    ) -> Result<Vec<(Resource, ObjectKey)>, Error> {
        if cx.core.child_kinds.retired().is_empty() {
            return Ok(Vec::new());
        }
        let listing = Arc::clone(&self.listing.lock());
        let found = listing.found.get_or_try_init(|| listing.list(cx)).await?.lock();
        Ok(found.get(owner).cloned().unwrap_or_default())
    }

    /// This one is gone or about to go, or belongs to somebody else.
    pub(super) fn forget(&self, owner: &Uid, resource: &Resource, key: &ObjectKey) {
        let listing = Arc::clone(&self.listing.lock());
        let Some(mut found) = listing.found.get().map(Mutex::lock) else { return };
        if let Some(children) = found.get_mut(owner) {
            children.retain(|(one, its_key)| (one, its_key) != (resource, key));
            if children.is_empty() {
                found.remove(owner);
            }
        }
    }
}

impl Listing {
    /// Lists them, unless that has just failed.
    async fn list(&self, cx: &RunContext) -> Result<Found, CannotList> {
        let failure = self.failure.lock().clone();
        if let Some((_, failure)) = failure.filter(|(at, _)| at.elapsed() < FAILURE_KEPT) {
            return Err(failure);
        }
        list_all(cx).await.map_err(|error| {
            let failure = CannotList(Arc::from(error.into_source()));
            *self.failure.lock() = Some((Instant::now(), failure.clone()));
            failure
        })
    }
}

/// Lists the retired kinds in the namespaces in which the controller watches owners.
async fn list_all(cx: &RunContext) -> Result<Found, Error> {
    let mut found = HashMap::<_, Vec<_>, _>::default();
    let is_owner_namespaced = cx.resource().is_namespaced();
    for resource in cx.core.child_kinds.retired() {
        if is_owner_namespaced && !resource.is_namespaced() {
            continue;
        }
        let access = Access { cx, resource: resource.clone(), options: WriteOptions::new() };
        let namespaces = cx.core.owner_namespaces();
        for namespace in &namespaces {
            for (resource, head) in labelled(&access, namespace.as_deref()).await? {
                if let Some(controller) = head.controller() {
                    let children = found.entry(controller.uid.clone()).or_default();
                    children.push((resource, head.key().clone()));
                }
            }
        }
    }
    Ok(Mutex::new(found))
}
