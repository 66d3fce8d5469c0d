//! Adoption and release of objects by selector, as all workload controllers do it.
//!
//! An object belongs to the controller that its owner reference names by uid. An object without a
//! controller is adopted by a controller with a matching selector; an object that no longer matches
//! is released. An object of another controller is never touched.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use kube::core::{Selector, SelectorExt as _};
use windlass_indexer::{Cached, Head, Index, Lister, ObjectKey, Uid};
use windlass_reconciler::{Error, RunContext, owner_reference};

use crate::objects::Managed;

/// The index of objects without a controller, by namespace: candidates for adoption.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Orphans;

impl Index for Orphans {
    type View = ();
    type Value = String;

    fn values(&self, head: &Head, (): ()) -> impl IntoIterator<Item = String> {
        let is_orphan = head.controller().is_none();
        is_orphan.then(|| head.namespace().unwrap_or_default().to_owned())
    }
}

/// Whether an object belongs to a controller, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// Belongs to the controller.
    Ours,
    /// Belongs to no controller; to be adopted.
    Adopt,
    /// Belongs to the controller, but no longer matches; to be released.
    Release,
    /// Unrelated.
    Foreign,
}

/// Parses the selector of a controller. Returns `None` if it would select everything, which is
/// never intended.
///
/// # Errors
/// If the selector is invalid. No retry helps.
pub(crate) fn selector(selector: &LabelSelector) -> Result<Option<Selector>, Error> {
    let selector =
        Selector::try_from(selector.clone()).map_err(|error| Error::from(error).terminal())?;
    Ok(Some(selector).filter(|selector| !selector.selects_all()))
}

/// Returns how `object` relates to the controller `owner`.
pub(crate) fn ownership(object: &ObjectMeta, owner: &ObjectMeta, selector: &Selector) -> Ownership {
    let nothing = BTreeMap::new();
    let matches = selector.matches(object.labels.as_ref().unwrap_or(&nothing));
    let owner_is_deleted = owner.deletion_timestamp.is_some();
    match controller(object) {
        Some(reference) if Some(&reference.uid) != owner.uid.as_ref() => Ownership::Foreign,
        Some(_) if matches => Ownership::Ours,
        Some(_) if owner_is_deleted => Ownership::Foreign,
        Some(_) => Ownership::Release,
        None if !matches || owner_is_deleted || object.deletion_timestamp.is_some() => {
            Ownership::Foreign
        }
        None => Ownership::Adopt,
    }
}

/// Returns the owner reference of the controller.
pub(crate) fn controller(object: &ObjectMeta) -> Option<&OwnerReference> {
    object.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns the owners that may adopt an object without a controller: those with a matching
/// selector.
pub(crate) fn adopters<O: Managed, K>(
    owners: &Lister<O>,
    object: &Cached<K>,
    selector_of: fn(&O) -> &LabelSelector,
) -> Vec<ObjectKey> {
    let head = object.head();
    if head.controller().is_some() || head.labels().is_empty() {
        return Vec::new();
    }
    let labels = head.labels().iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let labels = labels.collect();
    let is_match = |owner: &O| {
        let selector = selector(selector_of(owner));
        matches!(selector, Ok(Some(selector)) if selector.matches(&labels))
    };
    let owners = owners.in_namespace(head.namespace().unwrap_or_default());
    // An owner that cannot be decoded is reported when the owner itself is reconciled.
    let wanting = owners.iter().filter(|owner| owner.get().is_ok_and(|owner| is_match(&owner)));
    wanting.map(|owner| owner.key().clone()).collect()
}

/// Returns the cached objects that belong to `owner` or may be adopted by it. Needs the index by
/// owner and [`Orphans`].
///
/// # Errors
/// If an object cannot be decoded.
pub(crate) fn candidates<O: Managed, K: Managed>(
    cx: &RunContext,
    owner: &O,
    objects: &Lister<K>,
) -> Result<Vec<Arc<K>>, Error> {
    let held = objects.by_owner(&Uid::new(&owner.uid().unwrap_or_default()))?;
    let orphans = objects.by_index::<Orphans>(cx.key().namespace().unwrap_or_default())?;
    // An object that it owns without being its controller is an orphan, and would appear twice.
    let held = held.iter().filter(|object| object.head().controller().is_some());
    held.chain(&orphans).map(|object| Ok(object.get()?)).collect()
}

/// Like [`candidates`], for objects with generated names: only counting prevents duplicates. Reads
/// from the server if the cache may not show our own writes yet.
///
/// # Errors
/// If an object cannot be decoded, or the server does not answer.
pub(crate) async fn trusted_candidates<O: Managed, K: Managed>(
    cx: &RunContext,
    owner: &O,
    objects: &Lister<K>,
) -> Result<Vec<Arc<K>>, Error> {
    // After a failed run, nobody knows what was written: the response may have been lost.
    if !cx.cache_behind() && cx.attempt() == 1 {
        return candidates(cx, owner, objects);
    }
    let objects: Api<K> =
        Api::namespaced(cx.client().clone(), cx.key().namespace().unwrap_or_default());
    let live = objects.list(&ListParams::default()).await?;
    let uid = owner.meta().uid.as_ref();
    let is_candidate =
        |object: &K| controller(object.meta()).is_none_or(|owner| Some(&owner.uid) == uid);
    Ok(live.items.into_iter().filter(is_candidate).map(Arc::new).collect())
}

/// Adopts and releases as needed, and returns the `objects` that belong to `owner`.
///
/// # Errors
/// If a write fails, including because the object has changed or is gone: then the cache is behind.
pub(crate) async fn claim_all<O: Managed, K: Managed>(
    cx: &RunContext,
    owner: &O,
    selector: &Selector,
    objects: Vec<Arc<K>>,
) -> Result<Vec<Arc<K>>, Error> {
    claim_all_with(cx, owner, selector, objects, |_| {}).await
}

/// Like [`claim_all`]; `adopt` changes each adopted object in the same write.
///
/// # Errors
/// As for [`claim_all`].
pub(crate) async fn claim_all_with<O: Managed, K: Managed>(
    cx: &RunContext,
    owner: &O,
    selector: &Selector,
    objects: Vec<Arc<K>>,
    adopt: fn(&mut K),
) -> Result<Vec<Arc<K>>, Error> {
    let mut ours = Vec::with_capacity(objects.len());
    let mut may_adopt = None;
    for object in objects {
        match ownership(object.meta(), owner.meta(), selector) {
            Ownership::Foreign => {}
            Ownership::Ours => ours.push(object),
            Ownership::Release => {
                let uid = owner.uid().unwrap_or_default();
                let mut free = K::clone(&object);
                free.owner_references_mut().retain(|reference| reference.uid != uid);
                cx.live().update(&*object, &free).await?;
            }
            Ownership::Adopt => {
                // The cache may not show yet that the owner is being deleted or was replaced.
                let allowed = match may_adopt {
                    Some(allowed) => allowed,
                    None => *may_adopt.insert(is_alive(cx, owner).await?),
                };
                if !allowed {
                    continue;
                }
                let mut adopted = K::clone(&object);
                adopted.owner_references_mut().push(owner_reference(owner)?);
                adopt(&mut adopted);
                ours.push(Arc::new(cx.live().update(&*object, &adopted).await?));
            }
        }
    }
    Ok(ours)
}

/// Returns whether the owner still exists with the same uid and is not being deleted.
async fn is_alive<O: Managed>(cx: &RunContext, owner: &O) -> Result<bool, Error> {
    let live = cx.live::<O>().get(cx.key()).await?;
    Ok(live
        .is_some_and(|live| live.uid() == owner.uid() && live.meta().deletion_timestamp.is_none()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn meta(value: Value) -> ObjectMeta {
        serde_json::from_value(value).expect("metadata")
    }

    fn object(label: &str, owner: Option<&str>) -> ObjectMeta {
        let owners: Vec<_> = owner
            .iter()
            .map(|uid| json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": true}))
            .collect();
        meta(json!({"labels": {"app": label}, "ownerReferences": owners}))
    }

    fn claimed(object: &ObjectMeta, owner: &ObjectMeta) -> Ownership {
        let only_web = LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            ..LabelSelector::default()
        };
        let selector = selector(&only_web).expect("valid").expect("not everything");
        ownership(object, owner, &selector)
    }

    #[test]
    fn ownership_follows_from_uid_and_selector() {
        let owner = meta(json!({"name": "x", "uid": "1"}));
        assert_eq!(claimed(&object("web", Some("1")), &owner), Ownership::Ours);
        assert_eq!(claimed(&object("web", Some("2")), &owner), Ownership::Foreign);
        assert_eq!(claimed(&object("web", None), &owner), Ownership::Adopt);
        assert_eq!(claimed(&object("api", Some("1")), &owner), Ownership::Release);
        assert_eq!(claimed(&object("api", None), &owner), Ownership::Foreign);
    }

    #[test]
    fn nothing_is_adopted_or_released_during_a_deletion() {
        let deleted = "2026-01-01T00:00:00Z";
        let going = meta(json!({"name": "x", "uid": "1", "deletionTimestamp": deleted}));
        assert_eq!(claimed(&object("web", Some("1")), &going), Ownership::Ours);
        assert_eq!(claimed(&object("web", None), &going), Ownership::Foreign);
        assert_eq!(claimed(&object("api", Some("1")), &going), Ownership::Foreign);
        let owner = meta(json!({"name": "x", "uid": "1"}));
        let mut orphan = object("web", None);
        orphan.deletion_timestamp = going.deletion_timestamp;
        assert_eq!(claimed(&orphan, &owner), Ownership::Foreign);
    }

    #[test]
    fn selector_of_everything_selects_nothing() {
        assert!(selector(&LabelSelector::default()).expect("valid").is_none());
    }
}
