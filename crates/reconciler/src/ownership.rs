//! Owner references: which object another one belongs to, and is deleted with.
//!
//! If the garbage collector cannot find an owner, it takes the owner for deleted, and deletes the
//! child. So mistakes are refused here, before they are written: an owner in another namespace, or
//! one that was never read from a server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use windlass_indexer::{Head, ObjectKey, Uid};
use windlass_informer::Resource as WatchedResource;

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
        /// What it lacks: its name or its uid.
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
}

/// The reference by which `owner` controls another object. It blocks the owner's foreground
/// deletion until the other object is gone. Some clusters allow that only to accounts that may
/// update the `finalizers` subresource of the owner.
///
/// # Errors
/// Returns an error if the owner has no name or no uid, because it was not read from a server.
pub fn owner_reference<O: Resource<DynamicType = ()>>(
    owner: &O,
) -> Result<OwnerReference, OwnershipError> {
    let meta = owner.meta();
    let lacks = |missing| OwnershipError::NotRead { owner: describe(owner), missing };
    let present = |field: &Option<String>| field.clone().filter(|value| !value.is_empty());
    Ok(OwnerReference {
        api_version: O::api_version(&()).into_owned(),
        kind: O::kind(&()).into_owned(),
        name: present(&meta.name).ok_or_else(|| lacks("name"))?,
        uid: present(&meta.uid).ok_or_else(|| lacks("uid"))?,
        controller: Some(true),
        block_owner_deletion: Some(true),
    })
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
pub fn set_owner<C, O>(child: &mut C, owner: &O) -> Result<(), OwnershipError>
where
    C: Resource<DynamicType = ()>,
    O: Resource<DynamicType = ()>,
{
    let reference = owner_reference(owner)?;
    let (of_child, of_owner) = (namespace(child.meta()), namespace(owner.meta()));
    if of_owner.is_some() && of_child != of_owner {
        let is_elsewhere = of_child.is_some();
        let (child, owner) = (describe(child), describe(owner));
        return Err(if is_elsewhere {
            OwnershipError::OtherNamespace { child, owner }
        } else {
            OwnershipError::NoNamespace { child, owner }
        });
    }
    let mut references = child.meta().owner_references.clone().unwrap_or_default();
    let other = references.iter().find(|other| is_controller(other) && other.uid != reference.uid);
    if let Some(other) = other {
        return Err(OwnershipError::OtherController {
            child: describe(child),
            owner: describe(owner),
            controller: format!("{} {} (uid {})", other.kind, other.name, other.uid),
        });
    }
    match references.iter_mut().find(|present| present.uid == reference.uid) {
        Some(present) => *present = reference,
        None => references.push(reference),
    }
    child.meta_mut().owner_references = Some(references);
    Ok(())
}

/// Whether `owner` is the controller of the object with this metadata: the same group, kind, name
/// and uid. The API version does not matter, because an object can be read in several. The name
/// alone is not enough: an owner that was deleted and created again is another object.
pub fn is_controlled_by<O: Resource<DynamicType = ()>>(child: &ObjectMeta, owner: &O) -> bool {
    let references = child.owner_references.as_deref().unwrap_or_default();
    let Some(reference) = references.iter().find(|reference| is_controller(reference)) else {
        return false;
    };
    let meta = owner.meta();
    group_of(&reference.api_version) == O::group(&())
        && reference.kind == O::kind(&())
        && Some(&reference.name) == meta.name.as_ref()
        && Some(&reference.uid) == meta.uid.as_ref()
}

/// The keys and uids of the objects of the resource `owner` that an object refers to: of its
/// controller only, or of every owner.
pub(crate) fn owners_of<'h>(
    head: &'h Head,
    owner: &'h WatchedResource,
    is_controller_only: bool,
) -> impl Iterator<Item = (ObjectKey, &'h Uid)> {
    let references = head.owner_references().filter(move |reference| {
        (reference.controller || !is_controller_only)
            && group_of(reference.api_version) == owner.group()
            && reference.kind == owner.kind()
    });
    references.map(|reference| {
        let key = match head.namespace().filter(|_| owner.is_namespaced()) {
            Some(namespace) => ObjectKey::namespaced(namespace, reference.name),
            None => ObjectKey::cluster(reference.name),
        };
        (key, reference.uid)
    })
}

/// The group of an API version; empty for the core group.
fn group_of(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

fn is_controller(reference: &OwnerReference) -> bool {
    reference.controller == Some(true)
}

fn namespace(meta: &ObjectMeta) -> Option<&str> {
    meta.namespace.as_deref().filter(|namespace| !namespace.is_empty())
}

/// The kind, the namespace and the name of an object, for errors.
fn describe<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let meta = object.meta();
    let name = meta.name.as_deref().or(meta.generate_name.as_deref()).unwrap_or("without a name");
    let kind = K::kind(&());
    match namespace(meta) {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}
