//! Which children are there: in a cache that has all of them, or at the server.
//!
//! A child is deleted because it is shown here and is not wanted, never because something is not
//! shown. A cache that lacks a child leaves it for the next run, which the event of the child
//! leads to.

use bytes::Bytes;
use kube::api::{ApiResource, ListParams};
use kube::core::GroupVersionKind;
use serde_json::Value;
use windlass_indexer::{ByController, Head, HeadParser, Selector};
use windlass_informer::Resource;

use super::kinds::is_same;
use super::owner::SetOwner;
use crate::api::live::access::{Access, JSON, METADATA_LIST};
use crate::error::{Error, has_code};
use crate::objects::child_labels::{CONTROLLER_LABEL, children_selector, label_value};

/// A child that exists.
pub(super) struct Present {
    pub(super) resource: Resource,
    pub(super) head: Head,
}

impl Present {
    /// Whether it is this object, in this version.
    pub(super) fn is(&self, resource: &Resource, head: &Head) -> bool {
        is_same(&self.resource, resource)
            && self.head.key() == head.key()
            && self.head.uid() == head.uid()
            && self.head.resource_version() == head.resource_version()
    }
}

impl SetOwner<'_> {
    /// The children of the declared kinds, and of those of `more`.
    pub(super) async fn find_existing(&self, more: &[&Resource]) -> Result<Vec<Present>, Error> {
        let mut resources: Vec<Resource> = Vec::new();
        for resource in self.cx.core.child_kinds.made().iter().chain(more.iter().copied()) {
            // The garbage collector would not find an owner that is in a namespace.
            let can_be_owned = resource.is_namespaced() || self.owner.namespace().is_none();
            if can_be_owned && !resources.iter().any(|one| is_same(one, resource)) {
                resources.push(self.as_watched(resource));
            }
        }
        let mut present = Vec::new();
        for resource in &resources {
            match self.cached(resource) {
                Some(children) => present.extend(children),
                None => present.extend(self.list(resource).await?),
            }
        }
        Ok(present)
    }

    /// The children of retired kinds. Each is read from the server, because the list of them was
    /// made when the controller started.
    pub(super) async fn leftovers(&self) -> Result<Vec<Present>, Error> {
        let (retired, uid) = (&self.cx.core.retired_children, self.owner.uid());
        let mut present = Vec::new();
        for (resource, key) in retired.of_owner(self.cx, &uid).await? {
            let bytes = self.access(&resource).read_metadata(&key).await?;
            let head = bytes.map(|bytes: Bytes| HeadParser::default().parse(&bytes)).transpose()?;
            match self.children_of(&resource, head).pop() {
                Some(child) if child.head.deletion_timestamp().is_none() => present.push(child),
                // Nothing is left to do about one that waits for its finalizers.
                _ => retired.forget(&uid, &resource, &key),
            }
        }
        Ok(present)
    }

    /// A resource in the version that the controller watches, if it does.
    fn as_watched(&self, resource: &Resource) -> Resource {
        let watched = self.cx.core.sources.resource(|watched| is_same(watched, resource));
        watched.unwrap_or_else(|| resource.clone())
    }

    /// What a cache shows of a kind; `None` if there is no cache that has all of it.
    fn cached(&self, resource: &Resource) -> Option<Vec<Present>> {
        if self.cx.may_lack_own_writes(resource) {
            return None;
        }
        let (uid, namespace) = (self.owner.uid(), self.owner.namespace());
        let label = label_value(self.cx.controller());
        let selector = Selector::everything().equals(CONTROLLER_LABEL, &label);
        self.cx.core.sources.find_cache(resource, |cache| {
            if !cache.holds_all(namespace, &selector) {
                return None;
            }
            let snapshot = cache.snapshot();
            let objects = match (snapshot.by_index::<ByController>(&uid), namespace) {
                (Ok(found), _) => found,
                (Err(_), Some(namespace)) => snapshot.all().in_namespace(namespace),
                (Err(_), None) => snapshot.all(),
            };
            Some(self.children_of(resource, objects.iter().map(|object| object.head().clone())))
        })
    }

    /// What the server has of a kind; nothing if it does not know the kind.
    async fn list(&self, resource: &Resource) -> Result<Vec<Present>, Error> {
        let mut present = Vec::new();
        for namespace in self.namespaces_of(resource) {
            for (resource, head) in labelled(&self.access(resource), namespace.as_deref()).await? {
                present.extend(self.children_of(&resource, [head]));
            }
        }
        Ok(present)
    }

    /// Where children of a kind may be: `None` stands for all namespaces, and for no namespace. For
    /// an owner without one, these are the namespaces in which the controller watches the kind.
    fn namespaces_of(&self, resource: &Resource) -> Vec<Option<String>> {
        if let Some(namespace) = self.owner.namespace() {
            return vec![Some(namespace.to_owned())];
        }
        let watched = self.cx.core.sources.find_cache(resource, |cache| {
            Some(cache.namespaces().map(|namespace| namespace.map(str::to_owned)).collect())
        });
        watched.unwrap_or_else(|| vec![None])
    }

    /// Those objects that the controller has made for the owner.
    fn children_of(
        &self,
        resource: &Resource,
        heads: impl IntoIterator<Item = Head>,
    ) -> Vec<Present> {
        let label = label_value(self.cx.controller());
        let is_child = |head: &Head| {
            self.owner.controls(head) && head.labels().get(CONTROLLER_LABEL) == Some(&*label)
        };
        let heads = heads.into_iter().filter(is_child);
        heads.map(|head| Present { resource: resource.clone(), head }).collect()
    }
}

/// The objects of a kind that have the label of the controller, each with the resource that it was
/// found as; none if the server does not know the kind.
pub(super) async fn labelled(
    access: &Access<'_>,
    namespace: Option<&str>,
) -> Result<Vec<(Resource, Head)>, Error> {
    if let Some(heads) = list_in_version(access, namespace).await? {
        return Ok(heads);
    }
    // The version may not be served any more. The core group has no other.
    let resource = &access.resource;
    let group = match resource.group() {
        "" => None,
        group => access.get(&format!("/apis/{group}"), JSON).await?,
    };
    let group: Value = group.map(|group| access.decode(&group)).transpose()?.unwrap_or_default();
    let version = group.pointer("/preferredVersion/version").and_then(Value::as_str);
    let Some(version) = version.filter(|version| *version != resource.version()) else {
        return Ok(Vec::new());
    };
    let kind = GroupVersionKind::gvk(resource.group(), version, resource.kind());
    let served = ApiResource::from_gvk_with_plural(&kind, resource.plural());
    let resource = Resource::new(&served, resource.is_namespaced());
    let access = Access { resource, ..access.clone() };
    Ok(list_in_version(&access, namespace).await?.unwrap_or_default())
}

/// The same; `None` if the server does not know the kind in this version.
async fn list_in_version(
    access: &Access<'_>,
    namespace: Option<&str>,
) -> Result<Option<Vec<(Resource, Head)>>, Error> {
    let selected = ListParams::default().labels(&children_selector(access.cx.controller()));
    let parser = HeadParser::default();
    let found = |item: &str| Ok((access.resource.clone(), parser.parse(item.as_bytes())?));
    match access.list(namespace, selected, METADATA_LIST, found).await {
        Ok(heads) => Ok(Some(heads)),
        Err(error) if has_code(error.source(), 404) => Ok(None),
        Err(error) => Err(error),
    }
}
