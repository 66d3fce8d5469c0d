//! Owner references: which object another one belongs to, and is deleted with.
//!
//! If the garbage collector cannot find an owner, it takes the owner for deleted, and deletes the
//! child. So mistakes are refused here, before they are written: an owner in another namespace, or
//! one that was never read from a server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::GroupVersionKind;
use windlass_indexer::{Head, KeyRef, ObjectKey, Uid};
use windlass_informer::Resource as WatchedResource;

use crate::objects::any_object::{AnyObject, describe};

/// An object cannot be the owner of another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnershipError {
    /// The owner was not read from a server.
    #[error(
        "{owner} cannot own anything, because it has no {missing}: use the object that the server \
         returned"
    )]
    NotRead {
        /// The owner.
        owner: String,
        /// What it lacks: its name, its uid or its kind.
        missing: &'static str,
    },
    /// Another object controls the child.
    #[error(
        "{child} is controlled by {controller}, and cannot be controlled by {owner} as well: an \
         object has one controller; leave it alone, or give yours another name"
    )]
    OtherController {
        /// The child.
        child: String,
        /// The owner that it should get.
        owner: String,
        /// The owner that controls it.
        controller: String,
    },
    /// The owner is in another namespace, where the garbage collector does not look for it.
    #[error("{child} cannot be owned by {owner}: both have to be in the same namespace")]
    OtherNamespace {
        /// The child.
        child: String,
        /// The owner.
        owner: String,
    },
    /// The child is in no namespace, but the owner is.
    #[error(
        "{child} has no namespace, and cannot be owned by {owner}, which has one: set the \
         namespace of the child to that of its owner, or give an object of a cluster-scoped kind \
         an owner that is cluster-scoped"
    )]
    NoNamespace {
        /// The child.
        child: String,
        /// The owner.
        owner: String,
    },
    /// The child is of a cluster-scoped kind, and the owner is in a namespace.
    #[error(
        "{child} is cluster-scoped, and cannot be owned by {owner}, which is in a namespace: the \
         garbage collector does not look for owners there; delete it in a finalizer \
         (Finalize::cleanup), or make the kind of the owner cluster-scoped"
    )]
    ClusterScoped {
        /// The child.
        child: String,
        /// The owner.
        owner: String,
    },
    /// An object with the name of the child exists, and the owner does not control it.
    #[error(
        "the {kind} {name:?} exists already, and belongs to somebody else: delete it, or choose \
         another name"
    )]
    Taken {
        /// The kind of the child.
        kind: String,
        /// The name of the child.
        name: String,
    },
}

/// An owner, as its children need it.
#[derive(Clone)]
pub(crate) struct Owner {
    /// As a controller that blocks the deletion of the owner.
    pub(crate) reference: OwnerReference,
    namespace: Option<String>,
    /// Whether it was being deleted when it was passed.
    pub(crate) is_deleted: bool,
    /// For errors.
    pub(crate) description: String,
}

impl Owner {
    /// # Errors
    /// Returns an error if the owner has no name, uid or kind.
    pub(crate) fn new(
        kind: Option<&GroupVersionKind>,
        meta: &ObjectMeta,
    ) -> Result<Self, OwnershipError> {
        let description = describe(kind.map(|kind| &*kind.kind), meta);
        let lacks = |missing| OwnershipError::NotRead { owner: description.clone(), missing };
        let present = |field: &Option<String>| field.clone().filter(|value| !value.is_empty());
        let kind = kind.ok_or_else(|| lacks("kind"))?;
        let reference = OwnerReference {
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            name: present(&meta.name).ok_or_else(|| lacks("name"))?,
            uid: present(&meta.uid).ok_or_else(|| lacks("uid"))?,
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        let is_deleted = meta.deletion_timestamp.is_some();
        let namespace = namespace(meta).map(str::to_owned);
        Ok(Self { reference, namespace, is_deleted, description })
    }

    /// An owner that says its kind.
    fn of<O: AnyObject>(owner: &O) -> Result<Self, OwnershipError> {
        Self::new(owner.object_kind().as_ref(), owner.meta())
    }

    /// The same, with a reference that does not block the deletion of the owner.
    pub(crate) fn non_blocking(mut self) -> Self {
        self.reference.block_owner_deletion = None;
        self
    }

    /// The same, with a reference that does not control the child.
    fn plain(mut self) -> Self {
        self.reference.controller = None;
        self.non_blocking()
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn uid(&self) -> Uid {
        Uid::new(&self.reference.uid)
    }

    /// Whether it is the controller of an object.
    pub(crate) fn controls(&self, child: &Head) -> bool {
        child.controller().is_some_and(|controller| *controller.uid == self.uid())
    }

    /// Adds the reference to a child that may say its kind.
    fn own_object<C: AnyObject>(&self, child: &mut C) -> Result<(), OwnershipError> {
        let kind = child.object_kind().map(|kind| kind.kind);
        self.own(child.meta_mut(), kind.as_deref(), false)
    }

    /// Adds the reference to a child. `kind` is the kind of the child; it is only used for errors.
    ///
    /// # Errors
    /// Returns an error if the child cannot have this owner.
    pub(crate) fn own(
        &self,
        child: &mut ObjectMeta,
        kind: Option<&str>,
        is_cluster_scoped: bool,
    ) -> Result<(), OwnershipError> {
        let told = |child: &ObjectMeta| (describe(kind, child), self.description.clone());
        if self.namespace.is_some() && namespace(child) != self.namespace() {
            let (described, owner) = told(child);
            return Err(match namespace(child) {
                Some(_) => OwnershipError::OtherNamespace { child: described, owner },
                None if is_cluster_scoped => {
                    OwnershipError::ClusterScoped { child: described, owner }
                }
                None => OwnershipError::NoNamespace { child: described, owner },
            });
        }
        let references = child.owner_references.as_deref().unwrap_or_default();
        let is_other =
            |other: &&OwnerReference| is_controller(other) && other.uid != self.reference.uid;
        let is_controlling = is_controller(&self.reference);
        if let Some(other) = references.iter().find(is_other).filter(|_| is_controlling) {
            let controller = format!("{} {} (uid {})", other.kind, other.name, other.uid);
            let (child, owner) = told(child);
            return Err(OwnershipError::OtherController { child, owner, controller });
        }
        let references = child.owner_references.get_or_insert_default();
        match references.iter_mut().find(|present| present.uid == self.reference.uid) {
            Some(present) => *present = self.reference.clone(),
            None => references.push(self.reference.clone()),
        }
        Ok(())
    }
}

/// The reference by which `owner` controls another object. It blocks the owner's foreground
/// deletion until the other object is gone. Some clusters allow that only to accounts that may
/// update the `finalizers` subresource of the owner.
///
/// # Errors
/// Returns an error if the owner has no name or no uid, because it was not read from a server, or
/// is a dynamic object that does not say its kind.
pub fn owner_reference<O: AnyObject>(owner: &O) -> Result<OwnerReference, OwnershipError> {
    Ok(Owner::of(owner)?.reference)
}

/// Makes `owner` the controller of `child`, which is then deleted with it. An existing reference to
/// the owner is updated; references to other owners stay.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_reconciler::{is_controlled_by, set_owner};
/// # fn object(name: &str, uid: &str) -> ConfigMap {
/// #     let mut object = ConfigMap::default();
/// #     object.metadata.name = Some(name.to_owned());
/// #     object.metadata.namespace = Some("shop".to_owned());
/// #     object.metadata.uid = Some(uid.to_owned());
/// #     object
/// # }
/// # let (mut child, owner) = (object("child", ""), object("owner", "5c1b"));
/// set_owner(&mut child, &owner)?;
/// assert!(is_controlled_by(&child.metadata, &owner));
/// # Ok::<(), windlass_reconciler::OwnershipError>(())
/// ```
///
/// # Errors
/// Returns an error if another object controls the child, if they are not in the same namespace (a
/// cluster-scoped owner is fine), or if the owner was not read from a server.
pub fn set_owner<C: AnyObject, O: AnyObject>(
    child: &mut C,
    owner: &O,
) -> Result<(), OwnershipError> {
    Owner::of(owner)?.own_object(child)
}

/// Makes `owner` one of the owners of `child`, but not its controller: the child is deleted when
/// all of its owners are gone, and the deletion of this one does not wait for it. An existing
/// reference to the owner is replaced.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_reconciler::{add_owner, is_controlled_by, remove_owner};
/// # fn object(name: &str, uid: &str) -> ConfigMap {
/// #     let mut object = ConfigMap::default();
/// #     object.metadata.name = Some(name.to_owned());
/// #     object.metadata.uid = Some(uid.to_owned());
/// #     object
/// # }
/// # let (mut shared, user) = (object("shared", ""), object("user", "5c1b"));
/// add_owner(&mut shared, &user)?;
/// assert!(!is_controlled_by(&shared.metadata, &user));
/// assert!(remove_owner(&mut shared, &user));
/// assert!(!remove_owner(&mut shared, &user));
/// # Ok::<(), windlass_reconciler::OwnershipError>(())
/// ```
///
/// # Errors
/// Returns an error if they are not in the same namespace (a cluster-scoped owner is fine), or if
/// the owner was not read from a server.
pub fn add_owner<C: AnyObject, O: AnyObject>(
    child: &mut C,
    owner: &O,
) -> Result<(), OwnershipError> {
    Owner::of(owner)?.plain().own_object(child)
}

/// Removes the reference to `owner`, whether it controls the child or not. Returns whether there
/// was one. Others stay.
pub fn remove_owner<C: kube::Resource, O: kube::Resource>(child: &mut C, owner: &O) -> bool {
    let Some(uid) = &owner.meta().uid else { return false };
    let Some(references) = &mut child.meta_mut().owner_references else { return false };
    let before = references.len();
    references.retain(|reference| reference.uid != *uid);
    let is_removed = references.len() < before;
    if references.is_empty() {
        child.meta_mut().owner_references = None;
    }
    is_removed
}

/// Whether `owner` is the controller of the object with this metadata: the same group, kind, name
/// and uid. The API version does not matter, because an object can be read in several. The name
/// alone is not enough: an owner that was deleted and created again is another object.
pub fn is_controlled_by<O: AnyObject>(child: &ObjectMeta, owner: &O) -> bool {
    let references = child.owner_references.as_deref().unwrap_or_default();
    let Some(reference) = references.iter().find(|reference| is_controller(reference)) else {
        return false;
    };
    // A dynamic object need not say its kind. Its uid is enough then.
    let is_kind = owner.object_kind().is_none_or(|kind| {
        group_of(&reference.api_version) == kind.group && reference.kind == kind.kind
    });
    let meta = owner.meta();
    is_kind
        && Some(&reference.name) == meta.name.as_ref()
        && Some(&reference.uid) == meta.uid.as_ref()
}

/// An owner, as an object refers to it.
pub(crate) struct ReferredOwner<'h> {
    pub(crate) key: ObjectKey,
    pub(crate) uid: &'h Uid,
}

/// The owners of the resource `owner` that an object refers to: its controller only, or all.
pub(crate) fn owners_of<'h>(
    head: &'h Head,
    owner: &'h WatchedResource,
    is_controller_only: bool,
) -> impl Iterator<Item = ReferredOwner<'h>> {
    let references = head.owner_references().filter(move |reference| {
        (reference.controller || !is_controller_only)
            && group_of(reference.api_version) == owner.group()
            && reference.kind == owner.kind()
    });
    references.map(|reference| {
        let namespace = head.namespace().filter(|_| owner.is_namespaced());
        let key = KeyRef::new(namespace, reference.name).into();
        ReferredOwner { key, uid: reference.uid }
    })
}

/// The group of an API version; empty for the core group.
pub(crate) fn group_of(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

fn is_controller(reference: &OwnerReference) -> bool {
    reference.controller == Some(true)
}

fn namespace(meta: &ObjectMeta) -> Option<&str> {
    meta.namespace.as_deref().filter(|namespace| !namespace.is_empty())
}
