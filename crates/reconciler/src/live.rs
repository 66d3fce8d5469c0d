//! Objects at the server, read and written by the rules of a controller.
//!
//! Nothing is replaced: a PUT of a typed object would erase the fields that the type does not know. What is written
//! is a difference, with the version that it was made from, or applied by the server, field by field.

use std::fmt;
use std::marker::PhantomData;

use http::Request;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request as Requests;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_indexer::ObjectKey;
use windlass_informer::{Resource, Scope};

use crate::{Context, Error, difference};

/// How often a change is tried again on what somebody else has written meanwhile.
const CONFLICTS_MAX: u32 = 10;

/// Reads and writes objects of one type at the server. See [`Context::live`].
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_reconciler::{Action, Context, Error, Reconcile};
/// # struct Counter;
/// # impl Reconcile<ConfigMap> for Counter {
/// async fn reconcile(&self, object: Arc<ConfigMap>, cx: &Context) -> Result<Action, Error> {
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
    cx: &'a Context,
    resource: Resource,
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

/// What the server answered is not an object of the type. Its content is not shown.
#[derive(Debug, thiserror::Error)]
#[error("the answer of the server is no {kind}: {problem:?} at line {line}, column {column}")]
struct Undecodable {
    kind: String,
    problem: serde_json::error::Category,
    line: usize,
    column: usize,
}

impl<'a, T: kube::Resource<DynamicType = (), Scope: Scope>> Live<'a, T> {
    pub(crate) fn new(cx: &'a Context) -> Self {
        Self { cx, resource: Resource::of::<T>(), object: PhantomData }
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
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<T>, Error> {
        let request = self.requests(key.namespace()).get(key.name(), &GetParams::default());
        match self.send(request).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes an object. One that is there already is a conflict.
    ///
    /// # Errors
    /// As the server answers; if a namespaced object has no namespace.
    pub async fn create(&self, object: &T) -> Result<T, Error> {
        let body = serde_json::to_vec(object)?;
        let parameters =
            PostParams { field_manager: Some(self.manager()), ..PostParams::default() };
        self.send(self.requests(self.namespace(object)?).create(&parameters, body)).await
    }

    /// Makes the fields that `object` has as they are in it, whoever had written them before, and makes the object
    /// if it is not there: server-side apply, in the controller's name. Fields that it applied before and that
    /// `object` no longer has, go.
    ///
    /// # Errors
    /// As the server answers; if the object has no name, or a namespaced one no namespace.
    pub async fn apply(&self, object: &T) -> Result<T, Error> {
        let mut body = self.body(object)?;
        if let Some(metadata) = body.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            // Who applies says what is to be, not what was read.
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
        }
        let parameters = PatchParams::apply(&self.manager()).force();
        let requests = self.requests(self.namespace(object)?);
        let name = self.name(object, "applied")?;
        self.send(requests.patch(name, &parameters, &Patch::Apply(body))).await
    }

    /// Writes what is in `new` otherwise than in `old`, where `old` is what was read. If somebody has written the
    /// object since then, that is a conflict; if nothing differs, nothing is sent. The status is left alone by kinds
    /// whose status is a part of its own: see [`update_status`](Self::update_status).
    ///
    /// # Errors
    /// As the server answers; if `old` was not read from a server.
    pub async fn update(&self, old: &T, new: &T) -> Result<T, Error> {
        self.write_difference(old, new, None).await
    }

    /// As [`update`](Self::update), of the status, and of that alone.
    ///
    /// # Errors
    /// As the server answers; if `old` was not read from a server.
    pub async fn update_status(&self, old: &T, new: &T) -> Result<T, Error> {
        self.write_difference(old, new, Some("status")).await
    }

    /// Reads the object, changes it, and writes what differs; if somebody else has written meanwhile, again from the
    /// beginning. `None` if it is not there.
    ///
    /// # Errors
    /// As the server answers; a conflict, if others keep writing.
    pub async fn modify(
        &self,
        key: &ObjectKey,
        mut change: impl FnMut(&mut T) + Send,
    ) -> Result<Option<T>, Error>
    where
        T: Clone,
    {
        let mut conflicts = 0;
        loop {
            let Some(old) = self.get(key).await? else { return Ok(None) };
            let mut new = old.clone();
            change(&mut new);
            match self.update(&old, &new).await {
                Ok(object) => return Ok(Some(object)),
                Err(error) if is_not_found(&error) => return Ok(None),
                Err(error) if is_conflict(&error) && conflicts < CONFLICTS_MAX => conflicts += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Deletes this object, and not another one that has its name meanwhile. One that is gone is fine.
    ///
    /// # Errors
    /// As the server answers; if the object was not read from a server.
    pub async fn delete(&self, object: &T) -> Result<(), Error> {
        let uid = object.meta().uid.clone().ok_or_else(|| self.unread("deleted", "a uid"))?;
        let preconditions = Preconditions { uid: Some(uid), resource_version: None };
        self.delete_with(object, &DeleteParams::default().preconditions(preconditions)).await
    }

    /// As [`delete`](Self::delete), with parameters of your own: a propagation, a grace period, a precondition.
    ///
    /// # Errors
    /// As the server answers.
    pub async fn delete_with(&self, object: &T, parameters: &DeleteParams) -> Result<(), Error> {
        let name = self.name(object, "deleted")?;
        let request = self.requests(self.namespace(object)?).delete(name, parameters);
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
    async fn is_gone(&self, object: &T) -> Result<bool, Error> {
        let name = self.name(object, "looked up")?;
        let request = self.requests(self.namespace(object)?).get(name, &GetParams::default());
        match self.send::<T>(request).await {
            Ok(present) => Ok(present.meta().uid != object.meta().uid),
            Err(error) if is_not_found(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn write_difference(&self, old: &T, new: &T, part: Option<&str>) -> Result<T, Error> {
        if old.meta().resource_version.is_none() {
            return Err(self.unread("updated", "a version").into());
        }
        let name = self.name(old, "updated")?;
        let Some(patch) = difference(old, new)? else {
            // To be had again from its own JSON, so that no type has to be `Clone`.
            return Ok(serde_json::from_value(serde_json::to_value(old)?)?);
        };
        let requests = self.requests(self.namespace(old)?);
        let parameters =
            PatchParams { field_manager: Some(self.manager()), ..PatchParams::default() };
        let patch = Patch::Merge(patch);
        self.send(match part {
            None => requests.patch(name, &parameters, &patch),
            Some(part) => requests.patch_subresource(part, name, &parameters, &patch),
        })
        .await
    }

    async fn send<R: DeserializeOwned>(
        &self,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<R, Error> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        // Not by the client's own decoding, which logs what it cannot decode.
        let answer = self.cx.client().request_text(request).await?;
        Ok(serde_json::from_str(&answer).map_err(|error| Undecodable {
            kind: self.resource.kind().to_owned(),
            problem: error.classify(),
            line: error.line(),
            column: error.column(),
        })?)
    }

    fn requests(&self, namespace: Option<&str>) -> Requests {
        Requests::new(self.resource.path(namespace))
    }

    /// The object as JSON, with the type that it does not carry itself.
    fn body(&self, object: &T) -> Result<Value, Error> {
        let mut body = serde_json::to_value(object)?;
        if let Some(fields) = body.as_object_mut() {
            fields.insert("apiVersion".to_owned(), self.resource.api_version().into());
            fields.insert("kind".to_owned(), self.resource.kind().into());
        }
        Ok(body)
    }

    /// Where the object is. Only what is in namespaces has one.
    fn namespace<'o>(&self, object: &'o T) -> Result<Option<&'o str>, Incomplete> {
        let namespace = object.meta().namespace.as_deref();
        if self.resource.is_namespaced() && namespace.is_none() {
            return Err(self.lacks("written", "a namespace", "set metadata.namespace"));
        }
        Ok(namespace.filter(|_| self.resource.is_namespaced()))
    }

    fn name<'o>(&self, object: &'o T, done: &'static str) -> Result<&'o str, Incomplete> {
        let name = object.meta().name.as_deref();
        name.ok_or_else(|| self.lacks(done, "a name", "set metadata.name"))
    }

    fn unread(&self, done: &'static str, lacks: &'static str) -> Incomplete {
        self.lacks(done, lacks, "pass the object as it was read")
    }

    fn lacks(&self, done: &'static str, lacks: &'static str, advice: &'static str) -> Incomplete {
        Incomplete { kind: self.resource.kind().to_owned(), done, lacks, advice }
    }

    /// In whose name fields are written.
    fn manager(&self) -> String {
        self.cx.controller().to_owned()
    }
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

impl<T> fmt::Debug for Live<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&self.resource).finish()
    }
}
