//! Which children are there: in a cache that has all of them, or at the server.

use std::sync::Mutex;

use hashlink::LruCache;
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;
use windlass_indexer::{ByController, Head, KeyRef, Object, ObjectKey, Selector, Uid};
use windlass_informer::Resource;

use super::kinds::{Kinds, Name};
use super::note::OwnerNote;
use super::{CONTROLLER_LABEL, Wanted, children_selector, label_value};
use crate::context::RunContext;
use crate::error::Error;
use crate::live::access::{Access, Draft, has_code};
use crate::lock::lock;
use crate::write_options::WriteOptions;

/// The owners whose retired kinds were already searched. One search for each process is enough,
/// because no running version creates these kinds.
pub(crate) struct CheckedOwners {
    owners: Mutex<LruCache<Uid, ()>>,
}

/// How many owners are remembered, 16 bytes each and their place. Others are searched again.
const CHECKED_MAX: usize = 65_536;

/// The size of the pages of a list. As in client-go.
const PAGE: &str = "500";

/// A child that exists.
#[derive(Debug)]
pub(super) struct Present {
    pub(super) resource: Resource,
    pub(super) key: ObjectKey,
    pub(super) uid: String,
    pub(super) version: String,
    /// Whether it is being deleted.
    pub(super) is_terminating: bool,
}

/// A page of a list of metadata.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    /// `null` if there are none.
    #[serde(default)]
    items: Option<Vec<Item>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    token: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: ObjectMeta,
}

impl CheckedOwners {
    pub(crate) fn new() -> Self {
        Self { owners: Mutex::new(LruCache::new(CHECKED_MAX)) }
    }

    fn contains(&self, owner: &Uid) -> bool {
        lock(&self.owners).get(owner).is_some()
    }

    fn insert(&self, owner: Uid) {
        lock(&self.owners).insert(owner, ());
    }
}

impl Present {
    /// Whether it is this object, in this version.
    pub(super) fn is(&self, resource: &Resource, head: &Head) -> bool {
        super::kinds::is_same(&self.resource, resource)
            && self.key == *head.key()
            && self.uid == head.uid().to_string()
            && self.version == head.resource_version().to_string()
    }
}

/// The children of all kinds that are wanted, noted, or not made any more.
pub(super) async fn find_existing(
    cx: &RunContext,
    owner: &OwnerNote,
    wanted: &[Wanted],
) -> Result<Vec<Present>, Error> {
    let tools = &cx.tools;
    let wanted: Vec<&Resource> = wanted.iter().map(|wanted| &wanted.resource).collect();
    let mut kinds = owner.noted().union(&Kinds::of(wanted.iter().copied()));
    let is_checked = tools.retired.is_empty() || tools.checked_owners.contains(&owner.owner.uid());
    if !is_checked {
        kinds = kinds.union(&Kinds::of(&tools.retired));
    }
    let mut present = Vec::new();
    for (name, version) in kinds.iter() {
        let resource = resource_of(cx, name, version, &wanted);
        match cached(cx, owner, &resource) {
            Some(children) => present.extend(children),
            None => present.extend(list(cx, owner, &resource).await?),
        }
    }
    let is_retired = |present: &Present| {
        tools.retired.iter().any(|retired| super::kinds::is_same(retired, &present.resource))
    };
    if !is_checked && !present.iter().any(is_retired) {
        tools.checked_owners.insert(owner.owner.uid());
    }
    Ok(present)
}

/// A resource that was noted, in a version that this program uses, if it does.
pub(super) fn resource_of(
    cx: &RunContext,
    name: &Name,
    version: &str,
    wanted: &[&Resource],
) -> Resource {
    let is_it = |resource: &&Resource| name.is_of(resource);
    let known = wanted.iter().copied().find(is_it);
    let known = known.or_else(|| cx.tools.retired.iter().find(is_it)).cloned();
    let known = known.or_else(|| cx.tools.sources.resource(|resource| name.is_of(resource)));
    known.unwrap_or_else(|| name.resource(version))
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
        let is_ours = |object: &&std::sync::Arc<Object>| {
            let head = object.head();
            owner.owner.controls(head) && head.labels().get(CONTROLLER_LABEL) == Some(&*label)
        };
        let present = |object: &std::sync::Arc<Object>| {
            let head = object.head();
            Present {
                resource: resource.clone(),
                key: head.key().clone(),
                uid: head.uid().to_string(),
                version: head.resource_version().to_string(),
                is_terminating: head.deletion_timestamp().is_some(),
            }
        };
        Some(objects.iter().filter(is_ours).map(present).collect())
    })
}

/// What the server has of a kind; nothing if it does not know the kind.
pub(super) async fn list(
    cx: &RunContext,
    owner: &OwnerNote,
    resource: &Resource,
) -> Result<Vec<Present>, Error> {
    match list_in_version(cx, owner, resource).await {
        Err(ListError::NoKind) => {}
        Err(ListError::Other(error)) => return Err(error),
        Ok(present) => return Ok(present),
    }
    // The version may not be served any more.
    let access = Access { cx, resource: resource.clone(), options: WriteOptions::new() };
    if resource.group().is_empty() {
        return Ok(Vec::new());
    }
    let draft = Draft::new(Method::GET, format!("/apis/{}", resource.group()));
    let group: Value = match access.send(draft).await {
        Ok(answer) => access.decode(&answer.bytes)?,
        Err(error) if has_code(&error, 404) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let version = group.pointer("/preferredVersion/version").and_then(Value::as_str);
    let Some(version) = version.filter(|version| *version != resource.version()) else {
        return Ok(Vec::new());
    };
    match list_in_version(cx, owner, &Name::of(resource).resource(version)).await {
        Err(ListError::NoKind) => Ok(Vec::new()),
        Err(ListError::Other(error)) => Err(error),
        Ok(present) => Ok(present),
    }
}

/// Why there is no list.
enum ListError {
    /// The server does not know the kind in this version.
    NoKind,
    Other(Error),
}

async fn list_in_version(
    cx: &RunContext,
    owner: &OwnerNote,
    resource: &Resource,
) -> Result<Vec<Present>, ListError> {
    let access = Access { cx, resource: resource.clone(), options: WriteOptions::new() };
    let (selector, label) = (children_selector(cx.controller()), label_value(cx.controller()));
    let mut present = Vec::new();
    let mut token = String::new();
    loop {
        let mut query = vec![("labelSelector", selector.as_str()), ("limit", PAGE)];
        if !token.is_empty() {
            query.push(("continue", &token));
        }
        let bytes = match access.list_metadata(owner.owner.namespace(), &query).await {
            Ok(bytes) => bytes,
            Err(error) if has_code(&error, 404) => return Err(ListError::NoKind),
            Err(error) => return Err(ListError::Other(error.into())),
        };
        let page: Page = access.decode(&bytes).map_err(ListError::Other)?;
        for Item { metadata } in page.items.into_iter().flatten() {
            let uid = &owner.owner.reference.uid;
            let mut references = metadata.owner_references.iter().flatten();
            let is_controlled =
                references.any(|one| one.controller == Some(true) && one.uid == *uid);
            let labels = metadata.labels.as_ref();
            let is_labelled =
                labels.and_then(|labels| labels.get(CONTROLLER_LABEL)) == Some(&label);
            if is_controlled && is_labelled {
                let name = metadata.name.unwrap_or_default();
                let key = KeyRef::new(metadata.namespace.as_deref(), &name);
                present.push(Present {
                    resource: resource.clone(),
                    key: key.into(),
                    uid: metadata.uid.unwrap_or_default(),
                    version: metadata.resource_version.unwrap_or_default(),
                    is_terminating: metadata.deletion_timestamp.is_some(),
                });
            }
        }
        token = page.metadata.token;
        if token.is_empty() {
            return Ok(present);
        }
    }
}
