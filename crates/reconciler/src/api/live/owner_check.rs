//! Nothing is made for an owner that is being deleted.
//!
//! A foreground deletion waits until the owner's children are gone, and each child that goes runs
//! the owner. A controller that made the child again would keep the deletion from ever ending. In
//! an orphan deletion, it would take the children back that the user wants to keep.
//!
//! So whatever makes an object with an owner asks here first. The owner counts as deleted if it was
//! passed so; the reconciled object also if the cache shows it so by now, since a run may take
//! long.
//!
//! The cache may lag behind. If a run is there because a child was deleted, the garbage collector
//! may have done that, since its owner is gone; made again, the child would be collected again, and
//! so on until the cache has caught up. So the server is asked once, before such a child is made.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use windlass_indexer::{ObjectKey, Uid};

use super::access::Access;
use crate::api::children::kinds::is_same;
use crate::api::confirm::ReadObject;
use crate::cause::{Cause, Change};
use crate::error::{Error, OwnerDeleted};
use crate::objects::any_object::describe;
use crate::objects::ownership::Owner;

impl Access<'_> {
    /// Whether an owner is being deleted.
    pub(crate) fn is_deleted(&self, owner: &Owner) -> bool {
        owner.is_deleted || self.is_reconciled_and_deleted(&owner.uid())
    }

    /// Checks that a child may be made for an owner.
    pub(crate) fn check_owner(
        &self,
        child: &ObjectMeta,
        owner: &Owner,
    ) -> Result<(), OwnerDeleted> {
        if self.options.is_deleted_owner_allowed || !self.is_deleted(owner) {
            return Ok(());
        }
        Err(self.refusal(child, owner.description.clone()))
    }

    /// Checks that a child may be made for the owners that it says itself. Only the reconciled
    /// object is known, and not what other owners are doing.
    pub(crate) fn check_owners(&self, child: &ObjectMeta) -> Result<(), OwnerDeleted> {
        let mut owners = child.owner_references.iter().flatten();
        let is_deleted = owners.any(|owner| self.is_reconciled_and_deleted(&Uid::new(&owner.uid)));
        if self.options.is_deleted_owner_allowed || !is_deleted {
            return Ok(());
        }
        Err(self.refusal(child, format!("{} {}", self.cx.resource().kind(), self.cx.key())))
    }

    /// Checks with the server that the reconciled object exists and is not being deleted, if it
    /// owns this child, and if the child was deleted before this run. The name is `None` if the
    /// server generates it: then any deleted object of the kind may be the child.
    pub(crate) async fn confirm_owner_of_deleted(
        &self,
        namespace: Option<&str>,
        name: Option<&str>,
        owners: &[OwnerReference],
    ) -> Result<(), Error> {
        let Some(owner) = ReadObject::reconciled(self.cx) else { return Ok(()) };
        let is_owned = owners.iter().any(|reference| reference.uid == owner.uid());
        let is_checked = is_owned && !self.options.is_deleted_owner_allowed;
        if is_checked && self.was_deleted(namespace, name) {
            owner.confirm_exists(self.cx).await?;
        }
        Ok(())
    }

    /// Whether a child may have been deleted before this run.
    fn was_deleted(&self, namespace: Option<&str>, name: Option<&str>) -> bool {
        let is_child = |object: &ObjectKey| {
            object.namespace() == namespace && name.is_none_or(|name| name == object.name())
        };
        let mut causes = self.cx.causes.iter();
        self.cx.causes_omitted > 0
            || causes.any(|cause| match cause {
                Cause::Changed { resource, object, change: Change::Deleted, .. } => {
                    is_same(resource, &self.resource) && is_child(object)
                }
                _ => false,
            })
    }

    fn is_reconciled_and_deleted(&self, uid: &Uid) -> bool {
        let by_now = self.cx.core.objects.get(self.cx.key());
        self.cx.object.iter().chain(&by_now).any(|object| {
            let head = object.head();
            head.uid() == uid && head.deletion_timestamp().is_some()
        })
    }

    fn refusal(&self, child: &ObjectMeta, owner: String) -> OwnerDeleted {
        OwnerDeleted { owner, child: describe(Some(self.resource.kind()), child) }
    }
}
