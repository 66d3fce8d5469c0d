//! The owner of a set of children.

use windlass_informer::Resource;

use crate::api::confirm::ReadObject;
use crate::api::live::access::Access;
use crate::api::write_options::WriteOptions;
use crate::error::Error;
use crate::objects::any_object::AnyObject;
use crate::objects::ownership::Owner;
use crate::run::context::RunContext;

/// The finalizer of an owner whose children the garbage collector lets go, because whoever deleted
/// it has asked for that (`kubectl delete --cascade=orphan`).
const ORPHAN: &str = "orphan";

/// An owner, as the run saw it.
pub(super) struct SetOwner<'a> {
    pub(super) cx: &'a RunContext,
    pub(super) owner: Owner,
    read: ReadObject,
}

impl<'a> SetOwner<'a> {
    pub(super) fn new<O: AnyObject>(cx: &'a RunContext, owner: &O) -> Result<Self, Error> {
        Ok(Self { cx, owner: cx.owner(owner)?, read: ReadObject::new(cx, owner)? })
    }

    /// Confirms that the owner still is as the run saw it: what it asks for decides what is
    /// deleted. Returns whether anything may be deleted: not as long as the garbage
    /// collector is about to orphan the children, which refer to the owner until it has done so.
    ///
    /// # Errors
    /// Returns a [`StaleRead`](crate::StaleRead) if it has changed.
    pub(super) async fn confirm(&self) -> Result<bool, Error> {
        let live = self.read.confirm(self.cx).await?;
        let orphans = live.finalizers.is_some_and(|it| it.iter().any(|one| one == ORPHAN));
        Ok(live.deletion_timestamp.is_none() || !orphans)
    }

    /// Requests about a resource, with no options.
    pub(super) fn access(&self, resource: &Resource) -> Access<'a> {
        Access { cx: self.cx, resource: resource.clone(), options: WriteOptions::new() }
    }
}
