//! Owner references: which object another belongs to, and goes with.
//!
//! The garbage collector takes a reference to an owner that it cannot find as the reference to one that is gone, and
//! deletes the child. So mistakes are refused here, before they are written: an owner in another namespace, or one that
//! was never read from a server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

/// An object cannot be the owner of another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnershipError {
    /// The owner was not read from a server.
    #[error(
        "{owner} cannot own anything, because it has no {missing}: use the object that the server answered with"
    )]
    NotRead {
        /// The owner.
        owner: String,
        /// What it lacks: its name or its uid.
        missing: &'static str,
    },
    /// Another object controls the child.
    #[error(
        "{child} is controlled by {controller}, and cannot be controlled by {owner} as well: an object has one \
         controller; leave it alone, or give yours another name"
    )]
    OtherController {
        /// The child.
        child: String,
        /// The owner that it was to get.
        owner: String,
        /// The one that it has.
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
        "{child} has no namespace, and cannot be owned by {owner}, which has one: set the namespace of the child to that \
         of its owner, or give an object of a cluster-scoped kind an owner that is cluster-scoped"
    )]
    NoNamespace {
        /// The child.
        child: String,
        /// The owner.
        owner: String,
    },
}

/// The reference by which `owner` controls another object. It holds up the owner's deletion in the foreground until the
/// other is gone. Some clusters allow that only to those who may update the `finalizers` subresource of the owner.
///
/// # Errors
/// If the owner has no name or no uid: then it was not read from a server.
pub fn owner_reference<O>(owner: &O) -> Result<OwnerReference, OwnershipError>
where
    O: Resource<DynamicType = ()>,
{
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

/// Makes `owner` the controller of `child`, which is then deleted with it. A reference to it that is there already is
/// brought up to date; those to other owners stay.
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
/// If another object controls the child, if they are not in the same namespace (an owner may be in none), or if the
/// owner was not read from a server.
pub fn set_owner<C, O>(child: &mut C, owner: &O) -> Result<(), OwnershipError>
where
    C: Resource<DynamicType = ()>,
    O: Resource<DynamicType = ()>,
{
    let reference = owner_reference(owner)?;
    check_namespaces(child, owner)?;
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

/// Whether `owner` is the controller of the object with this metadata: the same group, kind, name and uid. The version
/// does not count, because an object has many. Nor does the name alone: an owner that was deleted and made again is
/// another.
pub fn is_controlled_by<O>(child: &ObjectMeta, owner: &O) -> bool
where
    O: Resource<DynamicType = ()>,
{
    let references = child.owner_references.as_deref().unwrap_or_default();
    let Some(reference) = references.iter().find(|reference| is_controller(reference)) else {
        return false;
    };
    let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let meta = owner.meta();
    group == O::group(&())
        && reference.kind == O::kind(&())
        && Some(&reference.name) == meta.name.as_ref()
        && Some(&reference.uid) == meta.uid.as_ref()
}

fn is_controller(reference: &OwnerReference) -> bool {
    reference.controller == Some(true)
}

fn check_namespaces<C, O>(child: &C, owner: &O) -> Result<(), OwnershipError>
where
    C: Resource<DynamicType = ()>,
    O: Resource<DynamicType = ()>,
{
    match (namespace(child.meta()), namespace(owner.meta())) {
        (_, None) => Ok(()),
        (Some(child), Some(owner)) if child == owner => Ok(()),
        (Some(_), Some(_)) => {
            Err(OwnershipError::OtherNamespace { child: describe(child), owner: describe(owner) })
        }
        (None, Some(_)) => {
            Err(OwnershipError::NoNamespace { child: describe(child), owner: describe(owner) })
        }
    }
}

fn namespace(meta: &ObjectMeta) -> Option<&str> {
    meta.namespace.as_deref().filter(|namespace| !namespace.is_empty())
}

/// For errors: the kind, and where it is.
fn describe<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let meta = object.meta();
    let name = meta.name.as_deref().or(meta.generate_name.as_deref()).unwrap_or("without a name");
    let kind = K::kind(&());
    match namespace(meta) {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}
