//! Which children are there: in a cache that has all of them, or at the server.

use std::sync::Mutex;

use hashlink::LruCache;
use kube::api::ListParams;
use serde_json::Value;
use windlass_indexer::{ByController, Head, HeadParser, Interner, Selector, Uid};
use windlass_informer::Resource;

use super::kinds::{Kinds, is_same, resource_named};
use super::note::OwnerNote;
use super::{CONTROLLER_LABEL, children_selector, label_value};
use crate::context::RunContext;
use crate::error::Error;
use crate::live::access::{Access, JSON, METADATA_LIST, has_code};
use crate::lock::lock;
use crate::write_options::WriteOptions;

/// The owners whose retired kinds were already searched. One search for each process is enough,
/// because no running version creates these kinds.
pub(crate) struct CheckedOwners {
    owners: Mutex<LruCache<Uid, ()>>,
}

/// How many owners are remembered, 16 bytes each and their place. Others are searched again.
const CHECKED_MAX: usize = 65_536;

/// A child that exists.
#[derive(Debug)]
pub(super) struct Present {
    pub(super) resource: Resource,
    pub(super) head: Head,
}

impl CheckedOwners {
    pub(crate) fn new() -> Self {
        Self { owners: Mutex::new(LruCache::new(CHECKED_MAX)) }
    }
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

/// The children of all kinds that are wanted, noted, or not made any more.
pub(super) async fn find_existing(
    cx: &RunContext,
    owner: &OwnerNote,
    wanted: &Kinds,
) -> Result<Vec<Present>, Error> {
    let (tools, uid) = (&cx.tools, owner.owner.uid());
    let is_checked =
        tools.retired.is_empty() || lock(&tools.checked_owners.owners).get(&uid).is_some();
    let mut kinds = Kinds::of(owner.noted.iter().map(|noted| as_watched(cx, noted)));
    if !is_checked {
        kinds = kinds.union(&Kinds::of(tools.retired.iter().cloned()));
    }
    let mut present = Vec::new();
    for resource in kinds.union(wanted).iter() {
        match cached(cx, owner, resource) {
            Some(children) => present.extend(children),
            None => present.extend(list(cx, owner, resource).await?),
        }
    }
    let is_retired =
        |present: &Present| tools.retired.iter().any(|retired| is_same(retired, &present.resource));
    if !is_checked && !present.iter().any(is_retired) {
        lock(&tools.checked_owners.owners).insert(uid, ());
    }
    Ok(present)
}

/// A resource that was noted, in the version that the controller watches, if it does.
pub(super) fn as_watched(cx: &RunContext, noted: &Resource) -> Resource {
    let watched = cx.tools.sources.resource(|resource| is_same(resource, noted));
    watched.unwrap_or_else(|| noted.clone())
}

/// What a cache shows of a kind; `None` if there is no cache that has all of it.
fn cached(cx: &RunContext, owner: &OwnerNote, resource: &Resource) -> Option<Vec<Present>> {
    if cx.cache_behind() {
        return None;
    }
    let (uid, namespace) = (owner.owner.uid(), owner.owner.namespace());
    let label = label_value(cx.controller());
    let selector = Selector::everything().equals(CONTROLLER_LABEL, &label);
    cx.tools.sources.find_cache(resource, |cache| {
        if !cache.holds_all(namespace, &selector) {
            return None;
        }
        let snapshot = cache.reader().snapshot();
        let objects = match (snapshot.by_index::<ByController>(&uid), namespace) {
            (Ok(found), _) => found,
            (Err(_), Some(namespace)) => snapshot.in_namespace(namespace),
            (Err(_), None) => snapshot.all(),
        };
        Some(children_of(cx, owner, resource, objects.iter().map(|object| object.head().clone())))
    })
}

/// What the server has of a kind; nothing if it does not know the kind.
pub(super) async fn list(
    cx: &RunContext,
    owner: &OwnerNote,
    resource: &Resource,
) -> Result<Vec<Present>, Error> {
    if let Some(present) = list_in_version(cx, owner, resource).await? {
        return Ok(present);
    }
    // The version may not be served any more. The core group has no other.
    let access = Access { cx, resource: resource.clone(), options: WriteOptions::new() };
    let group = match resource.group() {
        "" => None,
        group => access.get(&format!("/apis/{group}"), JSON).await?,
    };
    let group: Value = group.map(|group| access.decode(&group)).transpose()?.unwrap_or_default();
    let version = group.pointer("/preferredVersion/version").and_then(Value::as_str);
    let Some(version) = version.filter(|version| *version != resource.version()) else {
        return Ok(Vec::new());
    };
    let resource = resource_named(resource.plural(), version, resource.group());
    Ok(list_in_version(cx, owner, &resource).await?.unwrap_or_default())
}

/// What the server has of a kind; `None` if it does not know the kind in this version.
async fn list_in_version(
    cx: &RunContext,
    owner: &OwnerNote,
    resource: &Resource,
) -> Result<Option<Vec<Present>>, Error> {
    let access = Access { cx, resource: resource.clone(), options: WriteOptions::new() };
    let selected = ListParams::default().labels(&children_selector(cx.controller()));
    let parser = HeadParser::new(Interner::new());
    let head = |item: Value| Ok(parser.parse(item.to_string().as_bytes())?);
    match access.list(owner.owner.namespace(), selected, METADATA_LIST, head).await {
        Ok(heads) => Ok(Some(children_of(cx, owner, resource, heads))),
        Err(error) if has_code(error.source(), 404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Those objects that the controller has made for the owner.
fn children_of(
    cx: &RunContext,
    owner: &OwnerNote,
    resource: &Resource,
    heads: impl IntoIterator<Item = Head>,
) -> Vec<Present> {
    let label = label_value(cx.controller());
    let is_child = |head: &Head| {
        owner.owner.controls(head) && head.labels().get(CONTROLLER_LABEL) == Some(&*label)
    };
    let heads = heads.into_iter().filter(is_child);
    heads.map(|head| Present { resource: resource.clone(), head }).collect()
}
