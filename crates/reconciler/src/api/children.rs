//! The objects that a controller makes for an owner, as a set.
//!
//! ```text
//!  prune: 1. look what is there      of the declared kinds, in the caches or at the server
//!         2. apply what is wanted    in the order given
//!            look what is left       of the retired kinds: if that fails, nothing is deleted
//!         3. confirm the owner       if there is a rest: it may ask for other things by now, or be
//!                                    deleted without its children
//!         4. delete the rest         only if everything was applied
//! ```
//!
//! The builder of the controller [declares](kinds) which kinds these are. Nothing is stored about
//! them, so a crash between two requests loses nothing: the next prune looks again.
//!
//! An object belongs to the set if the owner is its controller, by uid, and it has the label
//! [`CONTROLLER_LABEL`] with the name of this controller. The reference alone is not enough: two
//! controllers may make objects for one owner. And a label is better than the field manager: it can
//! be selected, and caches have it, while they drop `managedFields`. Nothing else is ever deleted.
//!
//! Reading order: this file, `kinds` (what is declared), `owner`, `existing` (what is there),
//! `retired` (what an earlier version has left), `report`.

mod existing;
pub(crate) mod kinds;
mod owner;
mod report;
pub(crate) mod retired;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::Value;
use windlass_indexer::ObjectKey;
use windlass_informer::{Resource, StaticResource};

use crate::api::live::access::Access;
use crate::api::live::apply::ApplyChange;
use crate::api::write_options::WriteOptions;
use crate::error::Error;
use crate::objects::any_object::{AnyObject, ObjectRef};
use crate::objects::child_labels::{CONTROLLER_LABEL, label_value};
use crate::run::context::RunContext;
use existing::Present;
use kinds::is_same;
use owner::SetOwner;

pub use report::{Child, ChildrenReport, DeletedChild};

/// The objects that a controller makes for an owner. See
/// [`RunContext::children`](crate::RunContext::children).
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
/// # use windlass_reconciler::{Action, Error, Reconcile, RunContext};
/// # struct Shops;
/// # fn settings(_: &ConfigMap) -> ConfigMap { ConfigMap::default() }
/// # fn service(_: &ConfigMap) -> Service { Service::default() }
/// # fn certificate(_: &ConfigMap) -> Option<Secret> { None }
/// # impl Reconcile<ConfigMap> for Shops {
/// async fn reconcile(&self, shop: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
///     let children = cx
///         .children(&shop)
///         .apply(settings(&shop))
///         .apply(service(&shop))
///         .apply_all(certificate(&shop)) // an `Option`: if there is none, an older one is deleted
///         .prune()
///         .await?;
///     for gone in children.deleted() {
///         cx.event(&shop).normal("Deleted", gone.to_string());
///     }
///     Ok(Action::done())
/// }
/// # }
/// ```
///
/// - What is added is applied in that order, by server-side apply, with `owner` as its controller.
///   It gets the label [`CONTROLLER_LABEL`], and the namespace of the owner if it has none.
/// - What this controller has made for this owner before, and what is not in the set any more, is
///   deleted. Nothing of anybody else is touched: an object that exists and that the owner does not
///   control is refused.
/// - The kinds of children are declared at the builder: by
///   [`owns`](crate::ControllerBuilder::owns), [`makes`](crate::ControllerBuilder::makes),
///   [`makes_of`](crate::ControllerBuilder::makes_of) or
///   [`makes_any`](crate::ControllerBuilder::makes_any), and kinds that only an earlier version
///   made by [`retires`](crate::ControllerBuilder::retires). Objects of all of these are found and
///   deleted when they are not wanted any more, and an object of another kind is refused.
/// - Before the first deletion, the metadata of the owner is read from the server: a cache that
///   lags behind does not delete what a newer version of the owner asks for. See
///   [`RunContext::confirm`].
/// - What an earlier version made with [`Live::apply_owned`](crate::Live::apply_owned) has no
///   label, and is not deleted unless it was part of a set once.
/// - Nothing is made for an owner that is being deleted: [`prune`](Self::prune) returns
///   [`OwnerDeleted`](crate::OwnerDeleted), which ends the run without being a failure. A set to
///   which nothing was added still deletes what there is, unless whoever deleted the owner wants
///   its children to stay (`kubectl delete --cascade=orphan`).
///
/// For kinds that the controller [owns](crate::ControllerBuilder::owns), an object costs no request
/// if it has not changed since it was last applied, not even its status. For others, and if their
/// cache has a label selector other than [`children_selector`](crate::children_selector), each
/// object is applied, and each prune lists each kind by its label, in the namespace of the owner.
///
/// An owner has one set of each controller: a second set would delete what the first has made.
#[must_use = "nothing is applied before `prune` is called"]
pub struct Children<'a> {
    cx: &'a RunContext,
    owner: Result<SetOwner<'a>, Error>,
    /// The first thing that is wrong with what was added.
    mistake: Option<Error>,
    wanted: Vec<Wanted>,
    /// Kinds to look at, besides those that are declared.
    pruned: Vec<Resource>,
    options: WriteOptions<'a>,
}

/// An object of the set.
struct Wanted {
    resource: Resource,
    key: ObjectKey,
    body: Value,
}

impl RunContext {
    /// The objects that the controller makes for `owner`, as a set: those that are added are
    /// applied, and [`Children::prune`] deletes those that are not wanted any more.
    pub fn children<O: AnyObject>(&self, owner: &impl ObjectRef<O>) -> Children<'_> {
        Children::new(self, owner.as_object())
    }
}

impl<'a> Children<'a> {
    fn new<O: AnyObject>(cx: &'a RunContext, owner: &O) -> Self {
        Self {
            cx,
            owner: SetOwner::new(cx, owner),
            mistake: None,
            wanted: Vec::new(),
            pruned: Vec::new(),
            options: WriteOptions::new(),
        }
    }

    /// How objects are applied and deleted. Call it before objects are added.
    pub fn with(self, options: WriteOptions<'a>) -> Self {
        Self { options, ..self }
    }

    /// Adds an object to the set.
    pub fn apply<T: StaticResource + Serialize>(self, child: T) -> Self {
        self.apply_of(&Resource::of::<T>(), child)
    }

    /// Adds several objects of one type: a list, or an `Option`.
    pub fn apply_all<T: StaticResource + Serialize>(
        self,
        children: impl IntoIterator<Item = T>,
    ) -> Self {
        children.into_iter().fold(self, Self::apply)
    }

    /// Adds an object of a resource that is known at run time.
    pub fn apply_of<T: kube::Resource + Serialize>(
        mut self,
        resource: &Resource,
        child: T,
    ) -> Self {
        if let Err(error) = self.add(resource, child) {
            self.mistake.get_or_insert(error);
        }
        self
    }

    /// Looks for children of this kind, too, and deletes those that are not in the set. For a kind
    /// that is neither declared nor in the set, which needs
    /// [`makes_any`](crate::ControllerBuilder::makes_any).
    pub fn prune_of(mut self, resource: &Resource) -> Self {
        match self.cx.core.child_kinds.check(self.cx.controller(), resource) {
            Ok(()) => self.pruned.push(resource.clone()),
            Err(error) => drop(self.mistake.get_or_insert(error)),
        }
        self
    }

    fn add<T: kube::Resource + Serialize>(
        &mut self,
        resource: &Resource,
        mut child: T,
    ) -> Result<(), Error> {
        let Ok(SetOwner { owner, .. }) = &self.owner else { return Ok(()) };
        self.cx.core.child_kinds.check(self.cx.controller(), resource)?;
        let meta = child.meta_mut();
        if resource.is_namespaced() && meta.namespace.as_deref().is_none_or(str::is_empty) {
            meta.namespace = owner.namespace().map(str::to_owned);
        }
        let label = (CONTROLLER_LABEL.to_owned(), label_value(self.cx.controller()));
        meta.labels.get_or_insert_default().extend([label]);
        let access = Access { cx: self.cx, resource: resource.clone(), options: self.options };
        let (key, body) = access.owned_body(&mut child, owner)?;
        self.wanted.push(Wanted { resource: resource.clone(), key, body });
        Ok(())
    }

    /// Applies the objects, and deletes those that were part of the set before and are not now.
    /// Says what it did.
    ///
    /// # Errors
    /// Returns the first error, and then does nothing more: if an object cannot be applied, none is
    /// deleted. An [`OwnershipError`](crate::OwnershipError) says if an object belongs to somebody
    /// else, or cannot be owned, [`OwnerDeleted`](crate::OwnerDeleted) if the owner is being
    /// deleted and objects were added, and a [`StaleRead`](crate::StaleRead) if something would
    /// have to be deleted but the owner has [changed](RunContext::confirm) since the run saw it. A
    /// run that is repeated goes on where this one ended.
    ///
    /// # Cancel safety
    /// Dropping it half-way leaves a part of the work done. The next run does the rest.
    pub async fn prune(self) -> Result<ChildrenReport, Error> {
        let Self { cx, owner, mistake, wanted, pruned, options } = self;
        let owner = owner?;
        if let Some(mistake) = mistake.or_else(|| twice(&wanted)) {
            return Err(mistake);
        }
        let access = |resource: &Resource| Access { cx, resource: resource.clone(), options };
        let more: Vec<_> = wanted.iter().map(|one| &one.resource).chain(&pruned).collect();
        let mut present = owner.find_existing(&more).await?;

        let mut children = Vec::with_capacity(wanted.len());
        for Wanted { resource, key, body } in &wanted {
            let is_match =
                |one: &&Present| is_same(&one.resource, resource) && one.head.key() == key;
            let listed = present.iter().find(is_match).map(|present| &present.head);
            let access = access(resource);
            let applied = access.apply_owned(key, body.clone(), &owner.owner, listed).await?;
            let was_there = present.iter().any(|present| present.is(resource, &applied.head));
            let change = match applied.change {
                ApplyChange::Changed if was_there => ApplyChange::Kept,
                change => change,
            };
            children.push(Child::new(resource, applied, change));
        }

        // Not earlier: a kind of an earlier version that cannot be read must not keep this one from
        // doing its work.
        present.extend(owner.leftovers().await?);
        let mut deleted = Vec::new();
        for Present { resource, head } in &present {
            let is_match =
                |wanted: &Wanted| is_same(&wanted.resource, resource) && wanted.key == *head.key();
            if head.deletion_timestamp().is_none() && !wanted.iter().any(is_match) {
                if deleted.is_empty() && !owner.confirm().await? {
                    break;
                }
                // Only in the version that was looked at: its owner may have let it go since then.
                let options = options.same_version();
                let access = Access { cx, resource: resource.clone(), options };
                let (uid, version) = (head.uid().to_string(), head.resource_version().to_string());
                access.delete(head.key(), &uid, Some(&version)).await?;
                deleted.push(DeletedChild { resource: resource.clone(), key: head.key().clone() });
            }
        }
        Ok(ChildrenReport { children, deleted })
    }
}

/// The error about an object that is in the set twice, if there is one.
fn twice(wanted: &[Wanted]) -> Option<Error> {
    let mut seen = BTreeSet::new();
    let again = wanted.iter().find(|wanted| !seen.insert((&wanted.resource, &wanted.key)));
    again.map(|Wanted { resource, key, .. }| {
        let kind = resource.kind();
        Error::msg(format!("the {kind} {key} is in the set of children twice: add it once"))
    })
}

impl fmt::Debug for Children<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.wanted.iter().map(|wanted| &wanted.key).collect();
        f.debug_struct("Children").field("wanted", &keys).finish_non_exhaustive()
    }
}
