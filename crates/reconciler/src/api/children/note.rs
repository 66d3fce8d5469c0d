//! The annotation of an owner that says which kinds of children it has.

use kube::api::ApiResource;
use kube::core::{GroupVersionKind, PartialObjectMeta};
use serde_json::{Value, json};
use windlass_indexer::ObjectKey;
use windlass_informer::Resource;

use super::kinds::Kinds;
use crate::api::live::access::Access;
use crate::api::live::difference::Backoff;
use crate::api::write_options::WriteOptions;
use crate::error::Error;
use crate::error::has_code;
use crate::objects::any_object::AnyObject;
use crate::objects::child_labels::children_annotation;
use crate::objects::ownership::Owner;
use crate::run::context::RunContext;

/// An owner, and what is noted at it.
pub(super) struct OwnerNote<'a> {
    pub(super) cx: &'a RunContext,
    pub(super) owner: Owner,
    resource: Resource,
    key: ObjectKey,
    /// The version that the note was read from.
    version: String,
    pub(super) noted: Kinds,
}

impl<'a> OwnerNote<'a> {
    pub(super) fn new<O: AnyObject>(cx: &'a RunContext, owner: &O) -> Result<Self, Error> {
        let (kind, meta) = (cx.kind_of(owner), owner.meta());
        let checked = Owner::new(kind.as_ref(), meta)?;
        let primary = cx.resource();
        let is_primary =
            |kind: &GroupVersionKind| kind.kind == primary.kind() && kind.group == primary.group();
        let plural_of = |kind: &GroupVersionKind| {
            let plural = owner.object_plural();
            plural.or_else(|| is_primary(kind).then(|| primary.plural().to_owned()))
        };
        let Some((plural, kind)) = kind.and_then(|kind| Some((plural_of(&kind)?, kind))) else {
            let kind = &checked.reference.kind;
            return Err(Error::msg(format!(
                "a dynamic object of kind {kind} does not say its plural: only the kind that the \
                 controller reconciles can be a dynamic owner of children"
            )));
        };
        let resource = ApiResource::from_gvk_with_plural(&kind, &plural);
        let resource = Resource::new(&resource, checked.namespace().is_some());
        let access = Access { cx, resource, options: WriteOptions::new() };
        let (version, key) = (access.version(meta, "an owner")?, access.key(meta, "an owner")?);
        let annotation = children_annotation(cx.controller());
        let annotations = meta.annotations.as_ref();
        let note = annotations.and_then(|annotations| annotations.get(&annotation));
        // This run may have noted something since it read the owner.
        let (version, note) = cx
            .own_versions
            .replacement_of(meta.uid.as_deref(), version)
            .unwrap_or_else(|| (version.to_owned(), note.cloned().unwrap_or_default()));
        let noted = Kinds::parse(&note);
        Ok(Self { cx, owner: checked, resource: access.resource, key, version, noted })
    }

    /// Requests about a resource, with no options.
    pub(super) fn access(&self, resource: &Resource) -> Access<'a> {
        Access { cx: self.cx, resource: resource.clone(), options: WriteOptions::new() }
    }

    /// Changes the note, unless it is as it should be. If somebody has written the owner meanwhile,
    /// it is read again.
    pub(super) async fn write(
        &mut self,
        change: impl Fn(&Kinds) -> Kinds + Send,
    ) -> Result<(), Error> {
        let (cx, access) = (self.cx, self.access(&self.resource));
        let mut backoff = Backoff::new(cx.run_id().seed());
        loop {
            let wanted = change(&self.noted);
            let note = wanted.to_string();
            if note == self.noted.to_string() {
                return Ok(());
            }
            let text = if note.is_empty() { Value::Null } else { note.as_str().into() };
            let patch = json!({"metadata": {
                "resourceVersion": self.version,
                "annotations": {children_annotation(cx.controller()): text},
            }});
            match access.patch(&self.key, None, &patch).await {
                Ok(answer) => {
                    let written: PartialObjectMeta = access.decode(answer.body())?;
                    let version = written.metadata.resource_version.unwrap_or_default();
                    let uid = &self.owner.reference.uid;
                    cx.own_versions.add(uid, &self.version, &version, &note);
                    (self.version, self.noted) = (version, wanted);
                    return Ok(());
                }
                Err(error) if has_code(&error, 409) && backoff.has_more() => {
                    backoff.wait().await;
                    self.read(&access, error.into()).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads the note again. If the owner is another object by now, that is the conflict.
    async fn read(&mut self, access: &Access<'_>, conflict: Error) -> Result<(), Error> {
        let Some(bytes) = access.read_metadata(&self.key).await? else { return Err(conflict) };
        let PartialObjectMeta { metadata, .. }: PartialObjectMeta = access.decode(&bytes)?;
        if metadata.uid.as_ref() != Some(&self.owner.reference.uid) {
            return Err(conflict);
        }
        let annotations = metadata.annotations.unwrap_or_default();
        let annotation = children_annotation(self.cx.controller());
        let note = annotations.get(&annotation).map_or("", String::as_str);
        self.noted = Kinds::parse(note);
        self.version = metadata.resource_version.unwrap_or_default();
        Ok(())
    }
}
