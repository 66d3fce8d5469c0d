//! The annotation of an owner that says which kinds of children it has.

use http::Method;
use kube::api::ApiResource;
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};
use windlass_indexer::ObjectKey;
use windlass_informer::Resource;

use super::children_annotation;
use super::existing::{self, Present};
use super::kinds::{Kinds, Name};
use crate::context::RunContext;
use crate::error::{Class, Error};
use crate::live::access::{AS_READ, Access, MERGE_PATCH, has_code};
use crate::live::difference::Backoff;
use crate::objects::AnyObject;
use crate::ownership::Owner;
use crate::write_options::WriteOptions;

/// An owner, and what is noted at it.
pub(super) struct OwnerNote {
    pub(super) owner: Owner,
    resource: Resource,
    key: ObjectKey,
    /// The version that the note was read from.
    version: String,
    noted: Kinds,
}

impl OwnerNote {
    pub(super) fn new<O: AnyObject>(cx: &RunContext, owner: &O) -> Result<Self, Error> {
        let (kind, meta) = (cx.kind_of(owner), owner.meta());
        let checked = Owner::new(kind.as_ref(), meta)?;
        let Some((kind, plural)) = kind.and_then(|kind| Some((kind.clone(), kind.plural?))) else {
            let kind = &checked.reference.kind;
            return Err(Error::msg(format!(
                "a dynamic object of kind {kind} does not say its plural: only the kind that the \
                 controller reconciles can be a dynamic owner of children"
            )));
        };
        let resource = ApiResource {
            api_version: kind.api_version(),
            group: kind.group,
            version: kind.version,
            kind: kind.kind,
            plural,
        };
        let resource = Resource::new(&resource, checked.namespace().is_some());
        let access = Access { cx, resource, options: WriteOptions::new() };
        let version = meta.resource_version.as_deref();
        let version = version.ok_or_else(|| access.lacks("an owner", "a version", AS_READ))?;
        let annotation = children_annotation(cx.controller());
        let annotations = meta.annotations.as_ref();
        let note = annotations.and_then(|annotations| annotations.get(&annotation));
        // This run may have noted something since it read the owner.
        let (version, note) = cx
            .rebased
            .follow(meta.uid.as_deref(), version)
            .unwrap_or_else(|| (version.to_owned(), note.cloned().unwrap_or_default()));
        Ok(Self {
            key: access.key(checked.namespace(), Some(&checked.reference.name), "an owner")?,
            version,
            noted: Kinds::parse(&note),
            resource: access.resource,
            owner: checked,
        })
    }

    pub(super) fn noted(&self) -> &Kinds {
        &self.noted
    }

    /// Changes the note, unless it is as it should be. If somebody has written the owner meanwhile,
    /// it is read again.
    pub(super) async fn write(
        &mut self,
        cx: &RunContext,
        change: impl Fn(&Kinds) -> Kinds + Send,
    ) -> Result<(), Error> {
        let resource = self.resource.clone();
        let access = Access { cx, resource, options: WriteOptions::new() };
        let mut backoff = Backoff::new(cx.run_id().seed());
        loop {
            let wanted = change(&self.noted);
            if wanted == self.noted {
                return Ok(());
            }
            let text = if wanted.is_empty() { Value::Null } else { wanted.to_string().into() };
            let patch = json!({"metadata": {
                "resourceVersion": self.version,
                "annotations": {children_annotation(cx.controller()): text},
            }});
            let draft = access
                .draft(Method::PATCH, self.key.namespace(), self.key.name(), None)
                .query(&access.options.query(cx.controller()))
                .body(MERGE_PATCH, &patch);
            match access.send(draft).await {
                Ok(answer) => {
                    let written: PartialObjectMeta = access.decode(&answer.bytes)?;
                    let version = written.metadata.resource_version.unwrap_or_default();
                    let (uid, note) = (&self.owner.reference.uid, wanted.to_string());
                    cx.rebased.add(uid, &self.version, &version, &note);
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
        debug_assert_eq!(conflict.class(), Class::Conflict);
        let Some(bytes) = access.read_metadata(&self.key).await? else { return Err(conflict) };
        let PartialObjectMeta { metadata, .. }: PartialObjectMeta = access.decode(&bytes)?;
        if metadata.uid.as_ref() != Some(&self.owner.reference.uid) {
            return Err(conflict);
        }
        let annotations = metadata.annotations.unwrap_or_default();
        let annotation = children_annotation(access.cx.controller());
        let note = annotations.get(&annotation).map_or("", String::as_str);
        self.noted = Kinds::parse(note);
        self.version = metadata.resource_version.unwrap_or_default();
        Ok(())
    }

    /// Removes kinds from the note that are not wanted and of which there is nothing. The server is
    /// asked, because a cache may lack what another process has made just now.
    pub(super) async fn forget_empty(
        &mut self,
        cx: &RunContext,
        wanted: &Kinds,
        present: &[Present],
    ) -> Result<(), Error> {
        let mut empty = Vec::new();
        for (name, version) in self.noted.iter().filter(|(name, _)| !wanted.contains(name)) {
            let has_some = present.iter().any(|present| name.is_of(&present.resource));
            let resource = existing::resource_of(cx, name, version, &[]);
            if !has_some && existing::list(cx, self, &resource).await?.is_empty() {
                empty.push(Name::clone(name));
            }
        }
        if empty.is_empty() {
            return Ok(());
        }
        self.write(cx, |noted| noted.without(&empty)).await
    }
}
