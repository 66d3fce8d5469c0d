//! Objects at the server, read and written in the safe ways of a controller.
//!
//! Nothing is replaced by PUT: that would erase the fields that the type does not know. A write is
//! either a patch of the difference, with the version that it was made from, or server-side apply.
//! No error shows the content of an object.
//!
//! [`Live`] is a typed face on [`Access`], which knows a resource and no types. Each file below has
//! one kind of request: `apply`, `difference`, `subresource`, `wait`.

pub(crate) mod access;
pub(crate) mod apply;
pub(crate) mod difference;
mod listed;
mod owner_check;
mod subresource;
mod wait;

use std::fmt;
use std::marker::PhantomData;

use kube::api::ListParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_indexer::ObjectKey;
use windlass_informer::{Resource, StaticResource};

use crate::api::write_options::WriteOptions;
use crate::error::Error;
use crate::objects::any_object::ObjectRef;
use crate::run::context::RunContext;
use access::{Access, JSON};

pub use wait::WaitTimeout;

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
///     cx.live().update(&object, &counted).await?;
///     Ok(Action::done())
/// }
/// # }
/// ```
///
/// Methods take the object that was read by reference, or an `Arc` of it. Dropping one of their
/// futures half-way leaves it unknown whether the server got the request; the next run sees that in
/// [`cache_behind`](crate::RunContext::cache_behind).
pub struct Live<'a, T> {
    cx: &'a RunContext,
    resource: LiveResource<'a>,
    options: WriteOptions<'a>,
    object: PhantomData<fn() -> T>,
}

/// Which resource it is.
#[derive(Clone, Copy)]
enum LiveResource<'a> {
    /// That of the type.
    OfType(fn() -> Resource),
    /// One that is known at run time.
    Given(&'a Resource),
}

impl RunContext {
    /// Reads and writes objects of a type at the server, in the safe ways of a controller.
    pub fn live<T: StaticResource>(&self) -> Live<'_, T> {
        Live::new(self, LiveResource::OfType(Resource::of::<T>))
    }

    /// Like [`live`](Self::live), for a resource that is known at run time, from discovery: with
    /// [`DynamicObject`](kube::api::DynamicObject),
    /// [`PartialObjectMeta`](kube::core::PartialObjectMeta), or a type of your own.
    pub fn live_of<'a, T: kube::Resource>(&'a self, resource: &'a Resource) -> Live<'a, T> {
        Live::new(self, LiveResource::Given(resource))
    }
}

impl<'a, T> Live<'a, T> {
    fn new(cx: &'a RunContext, resource: LiveResource<'a>) -> Self {
        Self { cx, resource, options: WriteOptions::new(), object: PhantomData }
    }

    /// The same, with other options.
    #[must_use]
    pub fn with(self, options: WriteOptions<'a>) -> Self {
        Self { options, ..self }
    }

    fn access(self) -> Access<'a> {
        let resource = match self.resource {
            LiveResource::OfType(resource) => resource(),
            LiveResource::Given(resource) => resource.clone(),
        };
        Access { cx: self.cx, resource, options: self.options }
    }
}

impl<T: kube::Resource + Serialize + DeserializeOwned> Live<'_, T> {
    /// Reads an object; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns the error of the server.
    pub async fn get(self, key: &ObjectKey) -> Result<Option<T>, Error> {
        let access = self.access();
        access.read(key).await?.map(|bytes| access.decode(&bytes)).transpose()
    }

    /// Reads the objects of a namespace; of all namespaces, or of a cluster-scoped kind, if that is
    /// `None`. It asks for pages of 500 objects, unless `parameters` has another limit, and returns
    /// all of them. If a server ignores the selectors, as some aggregated ones do, objects that
    /// show that they are not selected are left out.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use windlass_reconciler::{Error, RunContext};
    /// use kube::api::ListParams;
    ///
    /// # async fn example(cx: &RunContext) -> Result<(), Error> {
    /// let web = ListParams::default().labels("app=web");
    /// let pods: Vec<Pod> = cx.live().list(Some("shop"), &web).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the error of the server, or an error that names an object that cannot be decoded, or
    /// of which `T` has more than 100 nested levels. If the list takes so long that the server has
    /// forgotten its version, that is a 410, and the list has to be started again.
    pub async fn list(
        self,
        namespace: Option<&str>,
        parameters: &ListParams,
    ) -> Result<Vec<T>, Error>
    where
        T: Send,
    {
        let access = self.access();
        let convert = |item: &str| access.decode_item(item);
        access.list(namespace, parameters.clone(), JSON, convert).await
    }

    /// Creates an object. If it exists already, that is a conflict.
    ///
    /// # Errors
    /// Returns the error of the server, or an error if a namespaced object has no namespace.
    /// [`OwnerDeleted`](crate::OwnerDeleted) if the object refers to the reconciled one as an
    /// owner, and that is being deleted.
    pub async fn create(self, object: &T) -> Result<T, Error> {
        let access = self.access();
        let answer = access.create(object.meta(), &access.body(object)?).await?;
        access.decode(answer.body())
    }

    /// Deletes this object, and not another one that has the same name by now. It is fine if the
    /// object is gone already. See [`WriteOptions`] for propagation and grace period.
    ///
    /// # Errors
    /// Returns the error of the server, or an error if the object was not read from a server.
    pub async fn delete(self, object: &impl ObjectRef<T>) -> Result<(), Error> {
        let (access, meta) = (self.access(), object.as_object().meta());
        let (uid, key) = (access.uid(meta, "deleted")?, access.key(meta, "deleted")?);
        access.delete(&key, uid, meta.resource_version.as_deref()).await
    }
}

impl<T> Clone for Live<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Live<'_, T> {}

impl<T> fmt::Debug for Live<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&self.access().resource).finish()
    }
}
