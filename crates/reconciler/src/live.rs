//! Objects at the server, read and written in the safe ways of a controller.
//!
//! Nothing is replaced by PUT: that would erase the fields that the type does not know. A write is
//! either a patch of the difference, with the version that it was made from, or server-side apply.
//! No error shows the content of an object.

use std::fmt;
use std::marker::PhantomData;

use http::Request;
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{Request as Requests, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_indexer::ObjectKey;
use windlass_informer::{CreatedName, Resource, Scope, status_of};

use crate::bounds::StaticResource;
use crate::error::{Class, Error};
use crate::merge_patch::lists::{carry_over, replaces_objects};
use crate::merge_patch::{merge, set_version};
use crate::ownership::{is_controlled_by, set_owner};

/// How often a change is repeated because somebody else has written meanwhile.
const CONFLICTS_MAX: u32 = 10;

/// The subresource that is written on its own.
const STATUS: &str = "status";

/// The fields of the metadata that only the server writes. They are not applied.
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

/// Reads and writes objects of one type at the server. See
/// [`RunContext::live`](crate::RunContext::live).
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_reconciler::{Action, RunContext, Error, Reconcile};
/// # struct Counter;
/// # impl Reconcile<ConfigMap> for Counter {
/// async fn reconcile(&self, object: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
///     let mut counted = ConfigMap::clone(&object);
///     let length = object.data.as_ref().map_or(0, |data| data.len()).to_string();
///     counted.metadata.annotations.get_or_insert_default().insert("entries".into(), length);
///     // Sends the difference, and nothing if there is none.
///     cx.live().update(&*object, &counted).await?;
///     Ok(Action::Done)
/// }
/// # }
/// ```
pub struct Live<'a, T> {
    client: &'a Client,
    /// The name of the controller, which owns the fields that it writes.
    controller: &'a str,
    object: PhantomData<fn() -> T>,
}

impl<'a, T> Live<'a, T> {
    pub(crate) fn new(client: &'a Client, controller: &'a str) -> Self {
        Self { client, controller, object: PhantomData }
    }
}

impl<T: StaticResource + Serialize + DeserializeOwned> Live<'_, T> {
    /// Reads an object; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns the error of the server.
    pub async fn get(self, key: &ObjectKey) -> Result<Option<T>, Error> {
        self.find(key.namespace(), key.name()).await
    }

    /// Creates an object. If it exists already, that is a conflict.
    ///
    /// # Errors
    /// Returns the error of the server, or an error if a namespaced object has no namespace.
    pub async fn create(self, object: &T) -> Result<T, Error> {
        let body = Self::body(object)?.to_string().into_bytes();
        let field_manager = Some(self.controller.to_owned());
        let parameters = PostParams { field_manager, ..PostParams::default() };
        let mut request = Self::requests(Self::namespace(object)?).create(&parameters, body);
        if let (Ok(request), Some(name)) = (&mut request, &object.meta().name) {
            // The path does not contain it, and an error should name the object.
            request.extensions_mut().insert(CreatedName(name.clone()));
        }
        decode(&self.send(request).await?)
    }

    /// Server-side apply in the name of the controller, with force: sets the fields of `object`,
    /// whoever wrote them before, and creates the object if it does not exist. Fields that the
    /// controller applied before and that `object` lacks are removed. The status and what only the
    /// server writes are left alone.
    ///
    /// # Errors
    /// Returns the error of the server, or an error if the object has no name, or a namespaced one
    /// no namespace.
    pub async fn apply(self, object: &T) -> Result<T, Error> {
        let mut body = Self::body(object)?;
        if let Some(fields) = body.as_object_mut() {
            fields.remove(STATUS);
        }
        if let Some(metadata) = body.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !SERVER_METADATA.contains(&field.as_str()));
        }
        let parameters = PatchParams::apply(self.controller).force();
        let requests = Self::requests(Self::namespace(object)?);
        let name = Self::name(object, "applied")?;
        decode(&self.send(requests.patch(name, &parameters, &Patch::Apply(body))).await?)
    }

    /// Like [`apply`](Self::apply), and makes `owner` the controller of the object, so that it is
    /// deleted with its owner. An existing object that `owner` does not control is left alone. An
    /// object that somebody creates between this check and the write is not noticed.
    ///
    /// # Errors
    /// Returns the error of the server, or an error if the object belongs to somebody else or
    /// cannot be owned by `owner`.
    pub async fn apply_owned<O>(self, mut object: T, owner: &O) -> Result<T, Error>
    where
        O: kube::Resource<DynamicType = ()> + Sync,
    {
        let (namespace, name) = (Self::namespace(&object)?, Self::name(&object, "applied")?);
        let present = self.find(namespace, name).await?;
        if present.is_some_and(|present| !is_controlled_by(present.meta(), owner)) {
            return Err(Error::msg(format!(
                "the {} {name:?} exists already, and belongs to somebody else: delete it, or \
                 choose another name",
                T::kind(&())
            )));
        }
        set_owner(&mut object, owner)?;
        self.apply(&object).await
    }

    /// Writes the difference between `old`, the object as it was read, and `new`. If somebody has
    /// written the object since then, that is a conflict. If there is no difference, nothing is
    /// sent. For kinds with a status subresource, the status is left alone: see
    /// [`update_status`](Self::update_status).
    ///
    /// Fields that the type does not know stay, also within lists: if a list of objects differs,
    /// the object is read first, and the unknown fields of the elements are sent along.
    ///
    /// # Errors
    /// Returns the error of the server, or an error if `old` was not read from a server, or if a
    /// list differs of which the type shows only a part of the elements.
    pub async fn update(self, old: &T, new: &T) -> Result<T, Error> {
        self.write_difference(old, new, None, None).await
    }

    /// Like [`update`](Self::update), but writes the status and nothing else.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub async fn update_status(self, old: &T, new: &T) -> Result<T, Error> {
        self.write_difference(old, new, Some(STATUS), None).await
    }

    /// Deletes this object, and not another one that has the same name by now. It is fine if the
    /// object is gone already.
    ///
    /// # Errors
    /// Returns the error of the server, or an error if the object was not read from a server.
    pub async fn delete(self, object: &T) -> Result<(), Error> {
        let uid = object.meta().uid.clone();
        let uid = Some(uid.ok_or_else(|| lacks::<T>("deleted", "a uid", AS_READ))?);
        let preconditions = Preconditions { uid, resource_version: None };
        self.delete_with(object, &DeleteParams::default().preconditions(preconditions)).await
    }

    /// Like [`delete`](Self::delete), with your own parameters: a propagation policy, a grace
    /// period, a precondition.
    ///
    /// # Errors
    /// Returns the error of the server.
    pub async fn delete_with(self, object: &T, parameters: &DeleteParams) -> Result<(), Error> {
        let (namespace, name) = (Self::namespace(object)?, Self::name(object, "deleted")?);
        let sent = self.send(Self::requests(namespace).delete(name, parameters)).await;
        let Err(error) = sent else { return Ok(()) };
        if is_not_found(&error) {
            return Ok(());
        }
        // If another object has this name by now, this one is gone.
        let is_gone = parameters.preconditions.is_some()
            && error.class() == Class::Conflict
            && self.find(namespace, name).await?.is_none_or(|o| o.meta().uid != object.meta().uid);
        if is_gone { Ok(()) } else { Err(error) }
    }

    /// Writes the difference of whole objects, or of a part of them. `text` is what `old` was
    /// decoded from, if the caller has it.
    async fn write_difference(
        self,
        old: &T,
        new: &T,
        part: Option<&'static str>,
        text: Option<String>,
    ) -> Result<T, Error> {
        let version = old.meta().resource_version.as_deref();
        let version = version.ok_or_else(|| lacks::<T>("updated", "a version", AS_READ))?;
        let (namespace, name) = (Self::namespace(old)?, Self::name(old, "updated")?);
        let (was, is) = (encode(old)?, encode(new)?);
        let Some(mut patch) = merge(within(&was, part), within(&is, part)) else {
            // Through JSON, so that the type need not be `Clone`.
            return serde_json::from_value(was)
                .map_err(|error| json_error::<T>("no copy can be made of this", &error));
        };
        let requests = Self::requests(namespace);
        if replaces_objects(&patch, within(&was, part)) {
            let text = match text {
                Some(text) => text,
                None => self.send(requests.get(name, &GetParams::default())).await?,
            };
            let raw = raw_of::<T>(&text, version)?;
            carry_over(&mut patch, within(&was, part), within(&raw, part)).map_err(|problem| {
                Error::msg(format!(
                    "a {} cannot be updated, patch it yourself: {problem}",
                    T::kind(&())
                ))
            })?;
        }
        if let Some(part) = part {
            patch = json!({ part: patch });
        }
        set_version(&mut patch, version.into());
        let field_manager = Some(self.controller.to_owned());
        let parameters = PatchParams { field_manager, ..PatchParams::default() };
        let patch = Patch::Merge(patch);
        let request = match part {
            None => requests.patch(name, &parameters, &patch),
            Some(part) => requests.patch_subresource(part, name, &parameters, &patch),
        };
        decode(&self.send(request).await?)
    }

    async fn find(self, namespace: Option<&str>, name: &str) -> Result<Option<T>, Error> {
        self.read(namespace, name).await?.map(|text| decode(&text)).transpose()
    }

    /// The JSON of an object; `None` if it does not exist.
    async fn read(self, namespace: Option<&str>, name: &str) -> Result<Option<String>, Error> {
        match self.send(Self::requests(namespace).get(name, &GetParams::default())).await {
            Err(error) if is_not_found(&error) => Ok(None),
            sent => sent.map(Some),
        }
    }

    async fn send(
        self,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<String, Error> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        // Decoded here and not by the client, which logs what it cannot decode.
        Ok(self.client.request_text(request).await?)
    }

    fn requests(namespace: Option<&str>) -> Requests {
        Requests::new(T::url_path(&(), namespace))
    }

    /// The object as JSON, with its type, which the Rust type does not contain.
    fn body(object: &T) -> Result<Value, Error> {
        let mut body = encode(object)?;
        if let Some(fields) = body.as_object_mut() {
            fields.insert("apiVersion".to_owned(), T::api_version(&()).into());
            fields.insert("kind".to_owned(), T::kind(&()).into());
        }
        Ok(body)
    }

    /// The namespace of an object; `None` for a cluster-scoped one.
    fn namespace(object: &T) -> Result<Option<&str>, Error> {
        if !T::Scope::NAMESPACED {
            return Ok(None);
        }
        let namespace = object.meta().namespace.as_deref();
        namespace
            .map(Some)
            .ok_or_else(|| lacks::<T>("written", "a namespace", "set metadata.namespace"))
    }

    fn name<'o>(object: &'o T, done: &str) -> Result<&'o str, Error> {
        let name = object.meta().name.as_deref();
        name.ok_or_else(|| lacks::<T>(done, "a name", "set metadata.name"))
    }
}

impl<T: StaticResource + Serialize + DeserializeOwned + Clone> Live<'_, T> {
    /// Reads the object, changes it, and writes the difference. Repeats this if somebody else has
    /// written meanwhile. Returns `None` if the object does not exist.
    ///
    /// # Errors
    /// As for [`update`](Self::update); a conflict, if others keep writing.
    pub async fn modify(
        self,
        key: &ObjectKey,
        change: impl FnMut(&mut T) + Send,
    ) -> Result<Option<T>, Error> {
        self.modify_part(key, change, None).await
    }

    /// Like [`modify`](Self::modify), but writes the status and nothing else.
    ///
    /// # Errors
    /// As for [`modify`](Self::modify).
    pub async fn modify_status(
        self,
        key: &ObjectKey,
        change: impl FnMut(&mut T) + Send,
    ) -> Result<Option<T>, Error> {
        self.modify_part(key, change, Some(STATUS)).await
    }

    async fn modify_part(
        self,
        key: &ObjectKey,
        mut change: impl FnMut(&mut T) + Send,
        part: Option<&'static str>,
    ) -> Result<Option<T>, Error> {
        let mut conflicts = 0;
        loop {
            let read = self.read(key.namespace(), key.name()).await?;
            let Some(text) = read else { return Ok(None) };
            let old: T = decode(&text)?;
            let mut new = old.clone();
            change(&mut new);
            match self.write_difference(&old, &new, part, Some(text)).await {
                Ok(object) => return Ok(Some(object)),
                Err(error) if is_not_found(&error) => return Ok(None),
                Err(error) if error.class() == Class::Conflict && conflicts < CONFLICTS_MAX => {
                    conflicts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What to do about an object that lacks what only the server sets.
const AS_READ: &str = "pass the object as it was read";

fn lacks<T: StaticResource>(done: &str, what: &str, advice: &str) -> Error {
    Error::msg(format!("a {} cannot be {done} without {what}: {advice}", T::kind(&())))
}

fn decode<T: StaticResource + DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| json_error::<T>("the server did not return a valid", &error))
}

fn encode<T: StaticResource + Serialize>(object: &T) -> Result<Value, Error> {
    serde_json::to_value(object)
        .map_err(|error| json_error::<T>("no JSON can be made of this", &error))
}

/// The type and JSON do not match. The message of the error may show content, so it is not shown.
fn json_error<T: StaticResource>(what: &str, error: &serde_json::Error) -> Error {
    let (problem, line, column) = (error.classify(), error.line(), error.column());
    let kind = T::kind(&());
    Error::msg(format!("{what} {kind}: {problem:?} at line {line}, column {column}"))
}

/// An object with the fields that the type does not know. A conflict, if its version is not
/// `version`.
fn raw_of<T: StaticResource>(text: &str, version: &str) -> Result<Value, Error> {
    let raw: Value = serde_json::from_str(text)
        .map_err(|error| json_error::<T>("the server did not return a valid", &error))?;
    if raw["metadata"]["resourceVersion"] == version {
        return Ok(raw);
    }
    let message = format!("the {} has been written since version {version}", T::kind(&()));
    let status = Status::failure(&message, "Conflict").with_code(409);
    Err(kube::Error::Api(status.boxed()).into())
}

/// A part of an object, or all of it.
fn within<'v>(object: &'v Value, part: Option<&str>) -> &'v Value {
    part.map_or(object, |part| &object[part])
}

fn is_not_found(error: &Error) -> bool {
    status_of(error.source()).is_some_and(|status| status.code == 404)
}

impl<T> Clone for Live<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Live<'_, T> {}

impl<T: StaticResource> fmt::Debug for Live<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&Resource::of::<T>()).finish()
    }
}
