//! Server-side apply: of what a controller wants of an object, and of objects that it owns.
//!
//! The same body again costs no request, if a cache still shows what came of it: see
//! [`Applied`](crate::writes::applied).
//!
//! Whether an object may be taken over is decided before it is written:
//!
//! - If a cache shows the object, its owner is known.
//! - Otherwise its metadata is read from the server.
//!
//! The known uid is sent along, and for an object that does not exist a [version](NO_VERSION) that
//! no object has. So if somebody else has created an object of the same name meanwhile, the server
//! refuses the write. If it refuses that version for all objects of a kind, they are created by a
//! POST, which is refused as well if there is an object.
//!
//! What a cache shows may be old: the owner may have let the object go since then. So its version
//! is sent along, too. If the server has another one, the metadata is read after all.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_indexer::{Head, HeadParser, Object, ObjectKey, Uid};
use windlass_informer::client::status_of;
use windlass_nesting::read_object;

use super::Live;
use super::access::{Access, STATUS, causes_of, request};
use crate::api::apply_conflict::ApplyConflict;
use crate::error::{Class, Error, has_code};
use crate::objects::SERVER_METADATA;
use crate::objects::any_object::{AnyObject, ObjectRef};
use crate::objects::ownership::{Owner, OwnershipError};
use crate::run::recording::WriteLog;
use crate::writes::applied::ApplyTarget;

/// The media type of what is applied. It is JSON, which is YAML, too.
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// The media type of a list of operations.
const JSON_PATCH: &str = "application/json-patch+json";

/// A version that no object has: the first write to a cluster makes a later one. A server creates
/// an object from a configuration that names it, and refuses the configuration if there is an
/// object. Recorded for kube-apiserver 1.36; older ones refuse it for some kinds, such as Services
/// (kubernetes/kubernetes#106745).
const NO_VERSION: &str = "1";

/// Which object an apply may write.
#[derive(Clone, Copy)]
pub(crate) enum Expected<'a> {
    /// Whichever has the name, and if there is none, a new one.
    Any,
    /// The one with this uid.
    Uid(&'a Uid),
    /// This one, in this version.
    Seen(&'a Head),
    /// A new one.
    Missing,
}

/// What an apply did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyChange {
    /// The object did not exist.
    Created,
    /// The object has another version now.
    Changed,
    /// The object was as it should be.
    Kept,
}

/// An object that was applied.
pub(crate) struct AppliedObject {
    pub(crate) head: Head,
    pub(crate) change: ApplyChange,
    /// As the server answered it, or as a cache has it.
    pub(crate) bytes: Bytes,
}

impl<T: kube::Resource + Serialize + DeserializeOwned> Live<'_, T> {
    /// Server-side apply in the name of the controller, with force: sets the fields of `object`,
    /// whoever wrote them before, and creates the object if it does not exist. Fields that the
    /// controller applied before and that `object` lacks are removed. The status and what only the
    /// server writes are left alone.
    ///
    /// If the controller has applied the same before, and its cache still shows the version that
    /// came of it, nothing is sent. Then the object is returned as the cache has it, which is
    /// without `managedFields`. This needs a cache of the whole objects: one with a transform, of
    /// metadata, or with the resident layout does not count.
    ///
    /// # Errors
    /// Returns the error of the server, or an error if the object has no name, or a namespaced one
    /// no namespace. If it is not [forced](crate::WriteOptions::unforced), an
    /// [`ApplyConflict`] says who has written the same fields.
    /// [`OwnerDeleted`](crate::OwnerDeleted) if it refers to the reconciled object as an owner, and
    /// that is being deleted.
    pub async fn apply(self, object: &T) -> Result<T, Error> {
        self.apply_part(object, None).await
    }

    /// Like [`apply`](Self::apply), but of the status and nothing else. The object has to exist.
    ///
    /// # Errors
    /// As for [`apply`](Self::apply).
    pub async fn apply_status(self, object: &T) -> Result<T, Error> {
        self.apply_part(object, Some(STATUS)).await
    }

    /// Like [`apply`](Self::apply), and makes `owner` the controller of the object, so that it is
    /// deleted with its owner. An existing object that `owner` does not control is left alone.
    ///
    /// If no cache shows the object, its metadata is read from the server before each apply: that
    /// is a second request, which a kind that the controller [owns](crate::ControllerBuilder::owns)
    /// costs only for a new object. If somebody else creates the object between that question and
    /// the apply, the server refuses the apply.
    ///
    /// # Errors
    /// Returns the error of the server, or an [`OwnershipError`] if the object belongs to somebody
    /// else or cannot be owned by `owner`, or [`OwnerDeleted`](crate::OwnerDeleted) if `owner` is
    /// being deleted.
    pub async fn apply_owned<O: AnyObject>(
        self,
        mut object: T,
        owner: &impl ObjectRef<O>,
    ) -> Result<T, Error> {
        let (access, owner) = (self.access(), self.cx.owner(owner.as_object())?);
        let (key, body) = access.owned_body(&mut object, &owner)?;
        let applied = access.apply_owned(&key, body, &owner, None).await?;
        access.decode(&applied.bytes)
    }

    async fn apply_part(self, object: &T, part: Option<&'static str>) -> Result<T, Error> {
        let access = self.access();
        let key = access.key(object.meta(), "applied")?;
        // A part of an object makes none.
        if part.is_none() {
            access.check_owners(object.meta())?;
            if access.shown(&key).is_none() {
                let owners = object.meta().owner_references.as_deref().unwrap_or_default();
                access.confirm_owner_of_deleted(key.namespace(), Some(key.name()), owners).await?;
            }
        }
        let body = access.apply_body(object, part)?;
        let applied = access.apply(&key, body, part, Expected::Any).await?;
        access.decode(&applied.bytes)
    }
}

impl Access<'_> {
    /// The key of an object, and what is sent to apply it with `owner` as its controller.
    pub(crate) fn owned_body<T: kube::Resource + Serialize>(
        &self,
        object: &mut T,
        owner: &Owner,
    ) -> Result<(ObjectKey, Value), Error> {
        let key = self.key(object.meta(), "applied")?;
        let (kind, is_cluster_scoped) = (self.resource.kind(), !self.resource.is_namespaced());
        self.check_owner(object.meta(), owner)?;
        let mut owner = owner.clone();
        // A foreground deletion would delete at once what blocks it.
        if self.options.is_owner_unblocked || self.is_deleted(&owner) {
            owner = owner.non_blocking();
        }
        owner.own(object.meta_mut(), Some(kind), is_cluster_scoped)?;
        Ok((key, self.apply_body(object, None)?))
    }

    /// What is sent to apply an object, or a part of it.
    fn apply_body(&self, object: &impl Serialize, part: Option<&str>) -> Result<Value, Error> {
        let mut body = self.body(object)?;
        let Some(fields) = body.as_object_mut() else { return Ok(body) };
        match part {
            None => drop(fields.remove(STATUS)),
            Some(part) => fields.retain(|field, _| {
                matches!(field.as_str(), "apiVersion" | "kind" | "metadata") || field == part
            }),
        }
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| match part {
                None => !SERVER_METADATA.contains(&field.as_str()),
                Some(_) => matches!(field.as_str(), "name" | "namespace"),
            });
        }
        Ok(body)
    }

    /// Applies a body to the expected object, unless that is known to change nothing.
    pub(crate) async fn apply(
        &self,
        key: &ObjectKey,
        mut body: Value,
        part: Option<&'static str>,
        expected: Expected<'_>,
    ) -> Result<AppliedObject, Error> {
        let mut query = self.options.query(self.cx.controller());
        if !self.options.is_unforced {
            query.push(("force", "true"));
        }
        let applied = &self.cx.core.applied;
        let (target, hash) = (self.target(key, part), applied.hash(&query, &body.to_string()));
        let shown = self.shown(key);
        if let Some(object) = &shown
            && object.bytes().is_some()
            && !self.options.is_dry
            && !self.is_cache_outdated(key)
            && applied.is_current(&target, hash, object.head())
        {
            let bytes = Bytes::from_owner(CachedBytes(Arc::clone(object)));
            let head = object.head().clone();
            return Ok(AppliedObject { head, change: ApplyChange::Kept, bytes });
        }
        let (uid, version) = match expected {
            Expected::Any => (None, None),
            Expected::Uid(uid) => (Some(uid), None),
            Expected::Seen(head) => (Some(head.uid()), Some(head.resource_version().to_string())),
            Expected::Missing => (None, Some(NO_VERSION.to_owned())),
        };
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            if let Some(uid) = uid {
                metadata.insert("uid".to_owned(), uid.to_string().into());
            }
            if let Some(version) = version.filter(|version| !version.is_empty()) {
                metadata.insert("resourceVersion".to_owned(), version.into());
            }
        }
        if matches!(expected, Expected::Missing) {
            // A creation takes nothing over. A server that does not look at the version then leaves
            // the fields of others as they are.
            query.retain(|(name, _)| *name != "force");
        }
        let path = self.path(key, part);
        let answer = self.send(request(Method::PATCH, &path, &query, APPLY_PATCH, &body)?).await;
        let name = || format!("{} {key}", self.resource.kind());
        let answer = answer.map_err(|error| ApplyConflict::explain(name, error))?;
        let head = HeadParser::default().parse(answer.body())?;
        if uid.is_some_and(|uid| uid != head.uid()) && answer.status() != StatusCode::CREATED {
            // The server has ignored the uid.
            return Err(Box::pin(self.give_back(key, &head)).await?.into());
        }
        if !self.options.is_dry {
            applied.note(target, hash, &head);
        }
        let is_same = |shown: &Arc<Object>| {
            let shown = shown.head();
            shown.uid() == head.uid() && shown.resource_version() == head.resource_version()
        };
        let change = match answer.status() {
            StatusCode::CREATED => ApplyChange::Created,
            _ if shown.as_ref().is_some_and(is_same) => ApplyChange::Kept,
            _ => ApplyChange::Changed,
        };
        Ok(AppliedObject { head, change, bytes: answer.into_body() })
    }

    /// Applies a body that contains the reference to `owner`, unless the object belongs to somebody
    /// else. `listed` is the object, if the caller has just seen that `owner` controls it.
    ///
    /// That this controller has applied the object before says nothing: the owner may have let it
    /// go since then.
    pub(crate) async fn apply_owned(
        &self,
        key: &ObjectKey,
        body: Value,
        owner: &Owner,
        listed: Option<&Head>,
    ) -> Result<AppliedObject, Error> {
        let seen = self.cached_child(key, owner)?.or_else(|| listed.cloned());
        let known = match &seen {
            Some(_) => None,
            // A cache may lack an object that somebody else has just created.
            None => self.read_uid(key, owner).await?,
        };
        let result = match &seen {
            Some(head) => self.apply(key, body.clone(), None, Expected::Seen(head)).await,
            None => self.apply_if_owned(key, body.clone(), owner, known.as_ref()).await,
        };
        let is_outdated = |error: &Error| match (&seen, &known) {
            (Some(_), _) => {
                is_other_uid(error) || is_other_version(error) || is_version_refused(error)
            }
            (None, Some(_)) => is_other_uid(error),
            (None, None) => false,
        };
        let result = match result {
            // The object is another one by now, or gone, or it may have been let go.
            Err(error) if is_outdated(&error) => {
                let known = self.read_uid(key, owner).await?;
                self.apply_if_owned(key, body, owner, known.as_ref()).await
            }
            result => result,
        };
        match result {
            Err(error) if is_other_controller(&error) => Err(self.taken(key).into()),
            result => result,
        }
    }

    /// Applies a body to the object with this uid, which `owner` controls, or creates one.
    async fn apply_if_owned(
        &self,
        key: &ObjectKey,
        body: Value,
        owner: &Owner,
        known: Option<&Uid>,
    ) -> Result<AppliedObject, Error> {
        let Some(uid) = known else { return self.create_owned(key, body, owner).await };
        self.apply(key, body, None, Expected::Uid(uid)).await
    }

    /// Creates an object. One that somebody else creates meanwhile is left alone.
    async fn create_owned(
        &self,
        key: &ObjectKey,
        body: Value,
        owner: &Owner,
    ) -> Result<AppliedObject, Error> {
        let owners = std::slice::from_ref(&owner.reference);
        self.confirm_owner_of_deleted(key.namespace(), Some(key.name()), owners).await?;
        let created = match self.apply(key, body.clone(), None, Expected::Missing).await {
            // The server has ignored the version.
            Ok(applied) if applied.change != ApplyChange::Created => {
                return Err(self.give_back(key, &applied.head).await?.into());
            }
            Err(error) if is_version_refused(&error) => self.create_by_post(key, &body).await,
            result => result,
        };
        match created {
            Err(error) if error.class() == Class::Conflict => {
                match self.read_uid(key, owner).await? {
                    // Another replica of this controller has created it.
                    Some(uid) => self.apply(key, body, None, Expected::Uid(&uid)).await,
                    None => Err(error),
                }
            }
            result => result,
        }
    }

    /// Creates an object of a kind for which the server refuses a version at creation. A POST never
    /// touches an object that is there.
    ///
    /// Then the object is applied, so that later applies remove what they lack. If the process ends
    /// right after the POST, they leave alone what the POST alone has set.
    async fn create_by_post(&self, key: &ObjectKey, body: &Value) -> Result<AppliedObject, Error> {
        let answer = self.post(key.namespace(), Some(key.name()), body).await?;
        let head = HeadParser::default().parse(answer.body())?;
        if self.options.is_dry || self.cx.is_plan() {
            // There is no object that could be applied.
            let bytes = answer.into_body();
            return Ok(AppliedObject { head, change: ApplyChange::Created, bytes });
        }
        self.mark_applied(key, answer.body()).await?;
        let applied = self.apply(key, body.clone(), None, Expected::Uid(head.uid())).await?;
        Ok(AppliedObject { change: ApplyChange::Created, ..applied })
    }

    /// Makes the fields that a POST has set those of an apply. Otherwise they would belong to the
    /// controller twice, and the next apply that lacks one would remove one of both claims only.
    async fn mark_applied(&self, key: &ObjectKey, created: &[u8]) -> Result<(), Error> {
        let manager = self.manager();
        let is_ours = |entry: &Value| entry["manager"] == manager && entry["operation"] == "Update";
        let place = read_object(created, |object| {
            let entries = object["metadata"]["managedFields"].as_array();
            let place = entries.and_then(|entries| entries.iter().position(is_ours));
            place.map(|place| (place, object["metadata"]["uid"].clone()))
        });
        // Some servers have none.
        let Some((place, uid)) = place.flatten() else { return Ok(()) };
        let entry = format!("/metadata/managedFields/{place}");
        let operation = format!("{entry}/operation");
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": format!("{entry}/manager"), "value": manager},
            {"op": "test", "path": operation, "value": "Update"},
            {"op": "replace", "path": operation, "value": "Apply"},
        ]);
        let query = self.options.query(self.cx.controller());
        let target = self.path(key, None);
        self.send(request(Method::PATCH, &target, &query, JSON_PATCH, &patch)?).await?;
        Ok(())
    }

    /// Removes what an apply has added to an object that belongs to somebody else, by applying an
    /// empty configuration. Returns the error that the object is taken. This is only for servers
    /// that ignore the version or the uid of an apply, which no known one does. What an apply by
    /// force has changed stays.
    async fn give_back(&self, key: &ObjectKey, head: &Head) -> Result<OwnershipError, Error> {
        let mut nothing = self.body(&json!({"metadata": {"name": key.name()}}))?;
        if let Some(namespace) = key.namespace() {
            nothing["metadata"]["namespace"] = namespace.into();
        }
        let given_back = self.apply(key, nothing, None, Expected::Uid(head.uid())).await;
        match given_back {
            // It is gone, or another one.
            Err(error) if !is_other_uid(&error) => Err(error),
            _ => Ok(self.taken(key)),
        }
    }

    /// Whether a cache may not show what this run, or an earlier one, has written to an object.
    fn is_cache_outdated(&self, key: &ObjectKey) -> bool {
        let has_unseen_write =
            |(_, log): &(_, WriteLog)| log.has_unseen_write(&self.cx.core, &self.resource, key);
        self.cx.is_cache_behind(&self.resource)
            || self.cx.recording.get().is_some_and(has_unseen_write)
    }

    /// The object as a cache shows it.
    ///
    /// # Errors
    /// Returns an error if it belongs to somebody else.
    fn cached_child(&self, key: &ObjectKey, owner: &Owner) -> Result<Option<Head>, OwnershipError> {
        if self.is_cache_outdated(key) {
            return Ok(None);
        }
        let sources = &self.cx.core.sources;
        let Some(object) = sources.find_cache(&self.resource, |cache| cache.reader().get(key))
        else {
            return Ok(None);
        };
        self.check_owned(object.head(), owner)?;
        Ok(Some(object.head().clone()))
    }

    /// Asks the server for the uid of an object; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if it belongs to somebody else.
    async fn read_uid(&self, key: &ObjectKey, owner: &Owner) -> Result<Option<Uid>, Error> {
        let Some(bytes) = self.read_metadata(key).await? else { return Ok(None) };
        let head = HeadParser::default().parse(&bytes)?;
        self.check_owned(&head, owner)?;
        Ok(Some(head.uid().clone()))
    }

    fn check_owned(&self, head: &Head, owner: &Owner) -> Result<(), OwnershipError> {
        if owner.controls(head) { Ok(()) } else { Err(self.taken(head.key())) }
    }

    fn taken(&self, key: &ObjectKey) -> OwnershipError {
        let (kind, name) = (self.resource.kind().to_owned(), key.name().to_owned());
        OwnershipError::Taken { kind, name }
    }

    /// The object as a cache has it that holds whole objects.
    fn shown(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.cx.core.sources.find_cache(&self.resource, |cache| {
            if cache.is_whole() { cache.reader().get(key) } else { None }
        })
    }

    /// In whose name fields are written.
    fn manager(&self) -> &str {
        self.options.field_manager.unwrap_or(self.cx.controller())
    }

    fn target(&self, key: &ObjectKey, part: Option<&'static str>) -> ApplyTarget {
        ApplyTarget {
            resource: self.resource.clone(),
            key: key.clone(),
            subresource: part,
            manager: self.manager().to_owned(),
        }
    }
}

/// The bytes of a cached object, shared with the cache.
struct CachedBytes(Arc<Object>);

impl AsRef<[u8]> for CachedBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes().unwrap_or_default()
    }
}

/// Whether a configuration was refused because it names a version, and not because of an object
/// that has another one.
fn is_version_refused(error: &Error) -> bool {
    status_of(error.source())
        .is_some_and(|status| status.code != 409 && status.message.contains("resourceVersion"))
}

/// Whether an apply was refused because the object has another uid than the body, or is gone.
fn is_other_uid(error: &Error) -> bool {
    let has_words = |words| status_of(error.source()).is_some_and(|it| it.message.contains(words));
    let is_conflict = has_code(error.source(), 409);
    is_conflict && (has_words("uid mismatch") || has_words("UID in precondition"))
        || causes_of(error.source(), 422).any(|cause| cause.field == "metadata.uid")
}

/// Whether an apply was refused because the object has another version than the body.
fn is_other_version(error: &Error) -> bool {
    error.class() == Class::Conflict && ApplyConflict::of(error).is_none()
}

/// Whether an apply was refused because another object is the controller already.
fn is_other_controller(error: &Error) -> bool {
    causes_of(error.source(), 422).any(|cause| {
        cause.field == "metadata.ownerReferences"
            && cause.message.contains("Only one reference can have Controller set to true")
    })
}
