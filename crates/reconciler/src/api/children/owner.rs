//! The owner of a set of children.

use windlass_informer::Resource;

use crate::api::confirm::ReadObject;
use crate::api::live::access::Access;
use crate::api::write_options::WriteOptions;
use crate::error::Error;
use crate::objects::any_object::AnyObject;
use crate::objects::ownership::Owner;
use crate::run::context::RunContext;

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
    /// deleted.
    ///
    /// # Errors
    /// Returns a [`StaleRead`](crate::StaleRead) if it has changed.
    pub(super) async fn confirm(&self) -> Result<(), Error> {
        self.read.confirm(self.cx).await
    }

    /// Requests about a resource, with no options.
    pub(super) fn access(&self, resource: &Resource) -> Access<'a> {
        Access { cx: self.cx, resource: resource.clone(), options: WriteOptions::new() }
    }
}
