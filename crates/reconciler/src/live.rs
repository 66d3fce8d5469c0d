//! Objects at the server, read and written by the rules of a controller.
//!
//! Nothing is replaced: a PUT of a typed object would erase the fields that the type does not know. What is written
//! is a difference, with the version that it was made from, or applied by the server, field by field. No error shows
//! what is in an object.

use std::fmt;
use std::marker::PhantomData;

use http::Request;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{Request as Requests, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_indexer::ObjectKey;
use windlass_informer::{CreatedName, Resource, Scope};

use crate::merge_patch::lists::{Unmatched, carry_over, replaces_objects};
use crate::merge_patch::{merge, set_version};
use crate::{Error, RunContext, is_controlled_by, set_owner};

/// How often a change is tried again on what somebody else has written meanwhile.
const CONFLICTS_MAX: u32 = 10;

/// The part of an object that is written on its own.
const STATUS: &str = "status";

/// What only the server writes in the metadata. Who applies says what is to be, not what was read.
const SERVER_METADATA: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Reads and writes objects of one type at the server. See [`RunContext::live`].
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_reconciler::{Action, RunContext, Error, Reconcile};
/// # struct Counter;
/// # impl Reconcile<ConfigMap> for Counter {
/// async fn reconcile(&self, object: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
///     let mut counted = ConfigMap::clone(&object);
///     let length = object.data.as_ref().map_or(0, |data| data.len());
///     counted.metadata.annotations.get_or_insert_default().insert("entries".into(), length.to_string());
///     // Sends what differs, and nothing if nothing does.
///     cx.live().update(&*object, &counted).await?;
///     Ok(Action::Done)
/// }
/// # }
/// ```
pub struct Live<'a, T> {
    cx: &'a RunContext,
    object: PhantomData<fn() -> T>,
}

/// An object cannot be written, because it lacks something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {kind} cannot be {done} without {lacks}: {advice}")]
pub struct Incomplete {
    kind: String,
    done: &'static str,
    lacks: &'static str,
    advice: &'static str,
}

/// The type and JSON do not fit together. What is in it is not shown.
#[derive(Debug, thiserror::Error)]
#[error("{what} {kind}: {problem:?} at line {line}, column {column}")]
struct Undecodable {
    what: &'static str,
    kind: String,
    problem: serde_json::error::Category,
    line: usize,
    column: usize,
}

/// An object that is to be owned belongs to somebody else.
#[derive(Debug, thiserror::Error)]
#[error(
    "the {kind} {name:?} is there already, and belongs to somebody else: delete it, or choose another name"
)]
struct Foreign {
    kind: String,
    name: String,
}

/// A list of an object cannot be changed without a loss.
#[derive(Debug, thiserror::Error)]
#[error("a {kind} cannot be updated, patch it yourself: {problem}")]
struct Lossy {
    kind: String,
    problem: Unmatched,
}

impl<'a, T: kube::Resource<DynamicType = (), Scope: Scope>> Live<'a, T> {
    pub(crate) fn new(cx: &'a RunContext) -> Self {
        Self { cx, object: PhantomData }
    }
}

impl<T> Live<'_, T>
where
    T: kube::Resource<DynamicType = (), Scope: Scope> + Serialize + DeserializeOwned,
{
    /// The object as it is at the server; `None` if it is not there.
    ///
    /// # Errors
    /// As the server answers.
    pub async fn get(self, key: &ObjectKey) -> Result<Option<T>, Error> {
        self.read(key.namespace(), key.name()).await?.map(|text| Self::decode(&text)).transpose()
    }

    /// Makes an object. One that is there already is a conflict.
    ///
    /// # Errors
    /// As the server answers; if a namespaced object has no namespace.
    pub async fn create(self, object: &T) -> Result<T, Error> {
        let body = Self::body(object)?.to_string().into_bytes();
        let parameters =
            PostParams { field_manager: Some(self.manager()), ..PostParams::default() };
        let mut request = Self::requests(Self::namespace(object)?).create(&parameters, body);
        if let (Ok(request), Some(name)) = (&mut request, &object.meta().name) {
            // The path does not have it, and an error should name the object.
            request.extensions_mut().insert(CreatedName(name.clone()));
        }
        self.write(request).await
    }

    /// Makes the fields that `object` has as they are in it, whoever had written them before, and makes the object
    /// if it is not there: server-side apply, in the controller's name. Fields that it applied before and that
    /// `object` no longer has, go. The status is left alone, and so is what only the server writes.
    ///
    /// # Errors
    /// As the server answers; if the object has no name, or a namespaced one no namespace.
    pub async fn apply(self, object: &T) -> Result<T, Error> {
        let mut body = Self::body(object)?;
        if let Some(fields) = body.as_object_mut() {
            fields.remove(STATUS);
        }
        if let Some(metadata) = body.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !SERVER_METADATA.contains(&field.as_str()));
        }
        let parameters = PatchParams::apply(&self.manager()).force();
        let requests = Self::requests(Self::namespace(object)?);
        let name = Self::name(object, "applied")?;
        self.write(requests.patch(name, &parameters, &Patch::Apply(body))).await
    }

    /// As [`apply`](Self::apply), of an object that belongs to `owner`: that is noted on it, so that it goes with its owner,
    /// and it is left alone if it is there already as somebody else's. What another makes under this name between that look
    /// and the write is not noticed.
    ///
    /// # Errors
    /// As the server answers; if the object is somebody else's; if it cannot be owned by `owner`.
    pub async fn apply_owned<O>(self, mut object: T, owner: &O) -> Result<T, Error>
    where
        O: kube::Resource<DynamicType = ()> + Sync,
    {
        let (namespace, name) = (Self::namespace(&object)?, Self::name(&object, "applied")?);
        let present =
            self.read(namespace, name).await?.map(|text| Self::decode(&text)).transpose()?;
        if present.is_some_and(|present: T| !is_controlled_by(present.meta(), owner)) {
            return Err(Foreign { kind: kind::<T>(), name: name.to_owned() }.into());
        }
        set_owner(&mut object, owner)?;
        self.apply(&object).await
    }

    /// Writes what is in `new` otherwise than in `old`, where `old` is what was read. If somebody has written the
    /// object since then, that is a conflict; if nothing differs, nothing is sent. The status is left alone by kinds
    /// whose status is a part of its own: see [`update_status`](Self::update_status).
    ///
    /// Fields that the type does not know stay, also those within lists: if a list of objects differs, the object is
    /// read first, and what the elements have beyond the type is sent along.
    ///
    /// # Errors
    /// As the server answers; if `old` was not read from a server; if it has only a part of the elements that a list
    /// has at the server, and that list differs.
    pub async fn update(self, old: &T, new: &T) -> Result<T, Error> {
        self.write_difference(old, new, None, None).await
    }

    /// As [`update`](Self::update), of the status, and of that alone: nothing else that differs is sent.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub async fn update_status(self, old: &T, new: &T) -> Result<T, Error> {
        self.write_difference(old, new, Some(STATUS), None).await
    }

    /// Reads the object, changes it, and writes what differs; if somebody else has written meanwhile, again from the
    /// beginning. `None` if it is not there.
    ///
    /// # Errors
    /// As for [`update`](Self::update); a conflict, if others keep writing.
    pub async fn modify(
        self,
        key: &ObjectKey,
        change: impl FnMut(&mut T) + Send,
    ) -> Result<Option<T>, Error>
    where
        T: Clone,
    {
        self.modify_part(key, change, None).await
    }

    /// As [`modify`](Self::modify), of the status, and of that alone.
    ///
    /// # Errors
    /// As for [`modify`](Self::modify).
    pub async fn modify_status(
        self,
        key: &ObjectKey,
        change: impl FnMut(&mut T) + Send,
    ) -> Result<Option<T>, Error>
    where
        T: Clone,
    {
        self.modify_part(key, change, Some(STATUS)).await
    }

    /// Deletes this object, and not another one that has its name meanwhile. One that is gone is fine.
    ///
    /// # Errors
    /// As the server answers; if the object was not read from a server.
    pub async fn delete(self, object: &T) -> Result<(), Error> {
        let uid = object.meta().uid.clone().ok_or_else(|| Self::unread("deleted", "a uid"))?;
        let preconditions = Preconditions { uid: Some(uid), resource_version: None };
        self.delete_with(object, &DeleteParams::default().preconditions(preconditions)).await
    }

    /// As [`delete`](Self::delete), with parameters of your own: a propagation, a grace period, a precondition.
    ///
    /// # Errors
    /// As the server answers.
    pub async fn delete_with(self, object: &T, parameters: &DeleteParams) -> Result<(), Error> {
        let name = Self::name(object, "deleted")?;
        let request = Self::requests(Self::namespace(object)?).delete(name, parameters);
        let request = request.map_err(kube::Error::BuildRequest)?;
        match self.cx.client().request_text(request).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let error = Error::from(error);
                // Another one has its name: this one is gone.
                let is_other = parameters.preconditions.is_some() && is_conflict(&error);
                if is_not_found(&error) || (is_other && self.is_gone(object).await?) {
                    Ok(())
                } else {
                    Err(error)
                }
            }
        }
    }

    /// Whether this object is gone, though another may have its name.
    async fn is_gone(self, object: &T) -> Result<bool, Error> {
        let name = Self::name(object, "looked up")?;
        let Some(text) = self.read(Self::namespace(object)?, name).await? else { return Ok(true) };
        Ok(Self::decode(&text)?.meta().uid != object.meta().uid)
    }

    async fn modify_part(
        self,
        key: &ObjectKey,
        mut change: impl FnMut(&mut T) + Send,
        part: Option<&'static str>,
    ) -> Result<Option<T>, Error>
    where
        T: Clone,
    {
        let mut conflicts = 0;
        loop {
            let Some(text) = self.read(key.namespace(), key.name()).await? else { return Ok(None) };
            let old = Self::decode(&text)?;
            let mut new = old.clone();
            change(&mut new);
            match self.write_difference(&old, &new, part, Some(text)).await {
                Ok(object) => return Ok(Some(object)),
                Err(error) if is_not_found(&error) => return Ok(None),
                Err(error) if is_conflict(&error) && conflicts < CONFLICTS_MAX => conflicts += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Of the whole object or of a part. `text` is what `old` was decoded from, if that is at hand.
    async fn write_difference(
        self,
        old: &T,
        new: &T,
        part: Option<&'static str>,
        text: Option<String>,
    ) -> Result<T, Error> {
        let version = old.meta().resource_version.as_deref();
        let version = version.ok_or_else(|| Self::unread("updated", "a version"))?;
        let name = Self::name(old, "updated")?;
        let (was, is) = (Self::encode(old)?, Self::encode(new)?);
        let Some(mut patch) = merge(within(&was, part), within(&is, part)) else {
            // To be had again from its own JSON, so that no type has to be `Clone`.
            return serde_json::from_value(was)
                .map_err(|error| misfit::<T>("no copy can be made of this", &error).into());
        };
        if replaces_objects(&patch, within(&was, part)) {
            let raw = self.raw(old, name, version, text).await?;
            carry_over(&mut patch, within(&was, part), within(&raw, part))
                .map_err(|problem| Lossy { kind: kind::<T>(), problem })?;
        }
        if let Some(part) = part {
            patch = json!({ part: patch });
        }
        set_version(&mut patch, version.into());
        let requests = Self::requests(Self::namespace(old)?);
        let parameters =
            PatchParams { field_manager: Some(self.manager()), ..PatchParams::default() };
        let patch = Patch::Merge(patch);
        self.write(match part {
            None => requests.patch(name, &parameters, &patch),
            Some(part) => requests.patch_subresource(part, name, &parameters, &patch),
        })
        .await
    }

    /// The object as the server has it, with what the type does not know. A conflict, if that is not `version`.
    async fn raw(
        self,
        object: &T,
        name: &str,
        version: &str,
        text: Option<String>,
    ) -> Result<Value, Error> {
        let text = match text {
            Some(text) => text,
            None => self.text(Self::get_request(Self::namespace(object)?, name)).await?,
        };
        let raw: Value = serde_json::from_str(&text)
            .map_err(|error| misfit::<T>("the answer of the server is no", &error))?;
        if raw.pointer("/metadata/resourceVersion").and_then(Value::as_str) == Some(version) {
            return Ok(raw);
        }
        let message = format!("the {} has been written since version {version}", kind::<T>());
        let status = Status::failure(&message, "Conflict").with_code(409);
        Err(kube::Error::Api(status.boxed()).into())
    }

    /// The object as the server writes it; `None` if it is not there.
    async fn read(self, namespace: Option<&str>, name: &str) -> Result<Option<String>, Error> {
        match self.text(Self::get_request(namespace, name)).await {
            Ok(text) => Ok(Some(text)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(self, request: BuiltRequest) -> Result<T, Error> {
        Self::decode(&self.text(request).await?)
    }

    async fn text(self, request: BuiltRequest) -> Result<String, Error> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        // Not by the client's own decoding, which logs what it cannot decode.
        Ok(self.cx.client().request_text(request).await?)
    }

    fn decode(text: &str) -> Result<T, Error> {
        serde_json::from_str(text)
            .map_err(|error| misfit::<T>("the answer of the server is no", &error).into())
    }

    fn encode(object: &T) -> Result<Value, Undecodable> {
        serde_json::to_value(object)
            .map_err(|error| misfit::<T>("no JSON can be made of this", &error))
    }

    fn get_request(namespace: Option<&str>, name: &str) -> BuiltRequest {
        Self::requests(namespace).get(name, &GetParams::default())
    }

    fn requests(namespace: Option<&str>) -> Requests {
        Requests::new(T::url_path(&(), namespace))
    }

    /// The object as JSON, with the type that it does not carry itself.
    fn body(object: &T) -> Result<Value, Undecodable> {
        let mut body = Self::encode(object)?;
        if let Some(fields) = body.as_object_mut() {
            fields.insert("apiVersion".to_owned(), T::api_version(&()).into());
            fields.insert("kind".to_owned(), kind::<T>().into());
        }
        Ok(body)
    }

    /// Where the object is. Only what is in namespaces has one.
    fn namespace(object: &T) -> Result<Option<&str>, Incomplete> {
        let namespace = object.meta().namespace.as_deref();
        if T::Scope::NAMESPACED && namespace.is_none() {
            return Err(Self::lacks("written", "a namespace", "set metadata.namespace"));
        }
        Ok(namespace.filter(|_| T::Scope::NAMESPACED))
    }

    fn name<'o>(object: &'o T, done: &'static str) -> Result<&'o str, Incomplete> {
        let name = object.meta().name.as_deref();
        name.ok_or_else(|| Self::lacks(done, "a name", "set metadata.name"))
    }

    fn unread(done: &'static str, lacks: &'static str) -> Incomplete {
        Self::lacks(done, lacks, "pass the object as it was read")
    }

    fn lacks(done: &'static str, lacks: &'static str, advice: &'static str) -> Incomplete {
        Incomplete { kind: kind::<T>(), done, lacks, advice }
    }

    /// In whose name fields are written.
    fn manager(self) -> String {
        self.cx.controller().to_owned()
    }
}

type BuiltRequest = Result<Request<Vec<u8>>, kube::core::request::Error>;

fn kind<T: kube::Resource<DynamicType = ()>>() -> String {
    T::kind(&()).into_owned()
}

/// A part of an object, or all of it.
fn within<'v>(object: &'v Value, part: Option<&str>) -> &'v Value {
    part.map_or(object, |part| &object[part])
}

fn misfit<T: kube::Resource<DynamicType = ()>>(
    what: &'static str,
    error: &serde_json::Error,
) -> Undecodable {
    let (line, column) = (error.line(), error.column());
    Undecodable { what, kind: kind::<T>(), problem: error.classify(), line, column }
}

fn code(error: &Error) -> Option<u16> {
    match error.source().downcast_ref::<kube::Error>()? {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

fn is_not_found(error: &Error) -> bool {
    code(error) == Some(404)
}

fn is_conflict(error: &Error) -> bool {
    code(error) == Some(409)
}

impl<T> Clone for Live<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Live<'_, T> {}

impl<T: kube::Resource<DynamicType = (), Scope: Scope>> fmt::Debug for Live<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&Resource::of::<T>()).finish()
    }
}
