//! Confirms with the server what a run has read, before something is deleted because of it.
//!
//! A cache may lag behind, most of all that of a replica that has just become the leader. What it
//! shows may have been true once; an object that was deleted because of it would be missing now. So
//! one live read of the metadata precedes the first deletion, and if the object has changed, the
//! run ends as [stale](StaleRead). Its key runs again when the cache shows what the server does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ApiResource;
use kube::core::{GroupVersionKind, PartialObjectMeta};
use windlass_indexer::{HeadParser, ObjectKey, Uid};
use windlass_informer::{Resource, Written};

use crate::api::live::access::Access;
use crate::api::write_options::WriteOptions;
use crate::error::{Error, StaleRead};
use crate::objects::any_object::{AnyObject, ObjectRef};
use crate::run::context::RunContext;

impl RunContext {
    /// Confirms with the server that an object still is what this run has read, by one live read of
    /// its metadata. Call it before you delete something because of what the object says or does
    /// not say. [`Children::prune`](crate::Children::prune) does so for the owner.
    ///
    /// The object has changed if its uid or its generation is another one, or if its deletion has
    /// begun. A kind without generations, such as a `ConfigMap`, must have the version that was
    /// read, or one that this run itself has made of it by [`Live::update`](crate::Live::update) or
    /// [`Live::update_status`](crate::Live::update_status). For kinds that have generations, labels
    /// and annotations do not count.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use windlass_reconciler::{Action, Error, RunContext};
    /// # async fn reconcile(web: Arc<Deployment>, cx: &RunContext) -> Result<Action, Error> {
    /// let wanted = web.spec.replicas.unwrap_or(1);
    /// let pods = cx.owned::<Pod>()?;
    /// let excess: Vec<_> = pods.iter().skip(wanted as usize).collect();
    /// if !excess.is_empty() {
    ///     cx.confirm(&web).await?;
    /// }
    /// for pod in excess {
    ///     cx.live().delete(&*pod.get()?).await?;
    /// }
    /// # Ok(Action::done())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns a [`StaleRead`] if the object has changed, the error of the server, or an error if
    /// the object was not read from a server.
    pub async fn confirm<O: AnyObject>(&self, object: &impl ObjectRef<O>) -> Result<(), Error> {
        let object = object.as_object();
        ReadObject::new(self, object)?.confirm(self).await.map(drop)
    }
}

/// An object as a run has read it.
pub(crate) struct ReadObject {
    resource: Resource,
    key: ObjectKey,
    uid: String,
    version: String,
    generation: Option<i64>,
    is_deleted: bool,
}

impl ReadObject {
    /// # Errors
    /// Returns an error if the object was not read from a server, or is a dynamic one that does not
    /// say enough of its kind.
    pub(crate) fn new<O: AnyObject>(cx: &RunContext, object: &O) -> Result<Self, Error> {
        let (kind, meta) = (cx.kind_of(object), object.meta());
        let primary = cx.resource();
        let is_primary =
            |kind: &GroupVersionKind| kind.kind == primary.kind() && kind.group == primary.group();
        let plural_of = |kind: &GroupVersionKind| {
            let plural = object.object_plural();
            plural.or_else(|| is_primary(kind).then(|| primary.plural().to_owned()))
        };
        let kind_and_plural = kind.clone().and_then(|kind| Some((plural_of(&kind)?, kind)));
        let Some((plural, kind)) = kind_and_plural else {
            let kind = kind.map(|kind| kind.kind).unwrap_or_default();
            return Err(Error::msg(format!(
                "a dynamic object of kind {kind:?} does not say its plural: of dynamic objects, \
                 only those of the kind that the controller reconciles can be owners of children, \
                 or be confirmed"
            )));
        };
        let is_namespaced = meta.namespace.as_deref().is_some_and(|name| !name.is_empty());
        let resource =
            Resource::new(&ApiResource::from_gvk_with_plural(&kind, &plural), is_namespaced);
        let access = Access { cx, resource, options: WriteOptions::new() };
        let (uid, version) = (access.uid(meta, "confirmed")?, access.version(meta, "confirmed")?);
        Ok(Self {
            key: access.key(meta, "confirmed")?,
            uid: uid.to_owned(),
            version: version.to_owned(),
            generation: meta.generation,
            is_deleted: meta.deletion_timestamp.is_some(),
            resource: access.resource,
        })
    }

    /// The object that a run reconciles; `None` if it did not exist.
    pub(crate) fn reconciled(cx: &RunContext) -> Option<Self> {
        let head = cx.object.as_ref()?.head();
        Some(Self {
            resource: cx.resource().clone(),
            key: cx.key.clone(),
            uid: head.uid().to_string(),
            version: head.resource_version().to_string(),
            generation: head.generation(),
            is_deleted: head.deletion_timestamp().is_some(),
        })
    }

    /// Reads the metadata of the object, and checks that it still exists and that its deletion has
    /// not begun.
    pub(crate) async fn confirm_exists(&self, cx: &RunContext) -> Result<(), Error> {
        self.read(cx, |live| self.end(live)).await.map(drop)
    }

    /// Reads the metadata of the object, and compares it. Returns what it has read.
    pub(crate) async fn confirm(&self, cx: &RunContext) -> Result<ObjectMeta, Error> {
        self.read(cx, |live| self.end(live).or_else(|| self.change(cx, live))).await
    }

    async fn read(
        &self,
        cx: &RunContext,
        change: impl FnOnce(&ObjectMeta) -> Option<&'static str> + Send,
    ) -> Result<ObjectMeta, Error> {
        let access = Access { cx, resource: self.resource.clone(), options: WriteOptions::new() };
        let bytes = access.read_metadata(&self.key).await?;
        let (change, written) = match &bytes {
            None => ("is gone", self.gone()),
            Some(bytes) => {
                let live: PartialObjectMeta = access.decode(bytes)?;
                let Some(change) = change(&live.metadata) else {
                    return Ok(live.metadata);
                };
                (change, Written::Object(HeadParser::default().parse(bytes)?))
            }
        };
        cx.expect_to_see(&self.resource, written);
        let (kind, key) = (self.resource.kind().to_owned(), self.key.clone());
        Err(StaleRead { kind, key, version: self.version.clone(), change }.into())
    }

    /// How it has ended, if it has.
    fn end(&self, live: &ObjectMeta) -> Option<&'static str> {
        if live.uid.as_ref() != Some(&self.uid) {
            return Some("was replaced by another object of its name");
        }
        if live.deletion_timestamp.is_some() && !self.is_deleted {
            return Some("is being deleted");
        }
        None
    }

    /// Whether it has changed.
    fn change(&self, cx: &RunContext, live: &ObjectMeta) -> Option<&'static str> {
        let version = live.resource_version.as_deref();
        let is_same = match (self.generation, live.generation) {
            (Some(read), Some(live)) => read == live,
            _ => version == Some(&*cx.own_version(&self.uid, &self.version)),
        };
        (!is_same).then_some("has changed")
    }

    pub(crate) fn uid(&self) -> &str {
        &self.uid
    }

    fn gone(&self) -> Written {
        Written::Gone { key: self.key.clone(), uid: Uid::new(&self.uid) }
    }
}
