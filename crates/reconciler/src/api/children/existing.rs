//! Which children are there: in a cache that has all of them, or at the server.

use kube::api::ListParams;
use serde_json::Value;
use windlass_indexer::{ByController, Head, HeadParser, Selector};
use windlass_informer::Resource;

use super::kinds::{Kinds, is_same, resource_named};
use super::note::OwnerNote;
use crate::api::live::access::{JSON, METADATA_LIST};
use crate::error::Error;
use crate::error::has_code;
use crate::objects::child_labels::{CONTROLLER_LABEL, children_selector, label_value};

/// How many owners are remembered whose retired kinds were already searched, 16 bytes each and
/// their place. Others are searched again. One search for each process is enough, because no
/// running version creates these kinds.
pub(crate) const CHECKED_OWNERS_MAX: usize = 65_536;

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

impl OwnerNote<'_> {
    /// The children of all kinds that are wanted, noted, or not made any more.
    pub(super) async fn find_existing(&self, wanted: &Kinds) -> Result<Vec<Present>, Error> {
        let (core, uid) = (&self.cx.core, self.owner.uid());
        let is_checked = core.retired.is_empty() || core.checked_owners.lock().get(&uid).is_some();
        let mut kinds = Kinds::of(self.noted.iter().map(|noted| self.as_watched(noted)));
        if !is_checked {
            kinds = kinds.union(&Kinds::of(core.retired.iter().cloned()));
        }
        let mut present = Vec::new();
        for resource in kinds.union(wanted).iter() {
            match self.cached(resource) {
                Some(children) => present.extend(children),
                None => present.extend(self.list(resource).await?),
            }
        }
        let is_retired = |present: &Present| {
            core.retired.iter().any(|retired| is_same(retired, &present.resource))
        };
        if !is_checked && !present.iter().any(is_retired) {
            core.checked_owners.lock().insert(uid, ());
        }
        Ok(present)
    }

    /// Removes kinds from the note that are not wanted and of which there is nothing. The server is
    /// asked, because a cache may lack what another process has made just now.
    pub(super) async fn forget_empty(
        &mut self,
        wanted: &Kinds,
        present: &[Present],
    ) -> Result<(), Error> {
        let mut empty = Vec::new();
        for noted in self.noted.iter().filter(|noted| !wanted.contains(noted)) {
            let resource = self.as_watched(noted);
            let has_some = present.iter().any(|present| is_same(&present.resource, &resource));
            if !has_some && self.list(&resource).await?.is_empty() {
                empty.push(resource);
            }
        }
        let empty = Kinds::of(empty);
        self.write(|noted| noted.without(&empty)).await
    }

    /// A resource that was noted, in the version that the controller watches, if it does.
    pub(super) fn as_watched(&self, noted: &Resource) -> Resource {
        let watched = self.cx.core.sources.resource(|resource| is_same(resource, noted));
        watched.unwrap_or_else(|| noted.clone())
    }

    /// What a cache shows of a kind; `None` if there is no cache that has all of it.
    fn cached(&self, resource: &Resource) -> Option<Vec<Present>> {
        if self.cx.cache_behind() {
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
    pub(super) async fn list(&self, resource: &Resource) -> Result<Vec<Present>, Error> {
        if let Some(present) = self.list_in_version(resource).await? {
            return Ok(present);
        }
        // The version may not be served any more. The core group has no other.
        let access = self.access(resource);
        let group = match resource.group() {
            "" => None,
            group => access.get(&format!("/apis/{group}"), JSON).await?,
        };
        let group: Value =
            group.map(|group| access.decode(&group)).transpose()?.unwrap_or_default();
        let version = group.pointer("/preferredVersion/version").and_then(Value::as_str);
        let Some(version) = version.filter(|version| *version != resource.version()) else {
            return Ok(Vec::new());
        };
        let resource = resource_named(resource.plural(), version, resource.group());
        Ok(self.list_in_version(&resource).await?.unwrap_or_default())
    }

    /// What the server has of a kind; `None` if it does not know the kind in this version.
    async fn list_in_version(&self, resource: &Resource) -> Result<Option<Vec<Present>>, Error> {
        let access = self.access(resource);
        let selected = ListParams::default().labels(&children_selector(self.cx.controller()));
        let parser = HeadParser::default();
        let head = |item: Value| Ok(parser.parse(item.to_string().as_bytes())?);
        match access.list(self.owner.namespace(), selected, METADATA_LIST, head).await {
            Ok(heads) => Ok(Some(self.children_of(resource, heads))),
            Err(error) if has_code(error.source(), 404) => Ok(None),
            Err(error) => Err(error),
        }
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
