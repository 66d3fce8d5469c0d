//! The requests that the test itself sends, with all rights.

use std::fmt::Debug;
use std::panic::Location;

use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectList;
use kube::core::request::Request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass::informer::Scope;
use windlass::reconciler::StaticResource;

use crate::report::{causes, fail};
use crate::test_cluster::TestCluster;

/// A type of objects that tests create and read: types of `k8s-openapi`, and derived custom
/// resources. Implemented for every type that fits.
pub trait TestObject:
    StaticResource + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<T> TestObject for T where
    T: StaticResource + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

/// A requested object; displayed as `ConfigMap default/web`.
pub(crate) struct ObjectName {
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// In these calls, the name `web` means an object in the namespace of the test, and `other/web` one
/// in the namespace `other`. Every call fails the test if the server refuses it.
impl TestCluster {
    /// Creates an object: in its own namespace if it has one, otherwise in that of the test.
    /// Returns it as the server stores it.
    #[track_caller]
    pub fn create<K: TestObject>(&self, object: &K) -> impl Future<Output = K> {
        let at = Location::caller();
        async move {
            let mut object = object.clone();
            let named = self.named::<K>(object.meta().name.as_deref().unwrap_or_default());
            let namespace = object.meta().namespace.clone().or(named.namespace.clone());
            object.meta_mut().namespace.clone_from(&namespace);
            let sent = async {
                let bytes = serde_json::to_vec(&object).map_err(kube::Error::SerdeError)?;
                let request = Request::new(K::url_path(&(), namespace.as_deref()));
                let request = request.create(&PostParams::default(), bytes);
                self.client().request(request.map_err(kube::Error::BuildRequest)?).await
            };
            expect_accepted(at, "created", &named, sent.await)
        }
    }

    /// Returns an object.
    #[track_caller]
    pub fn get<K: TestObject>(&self, name: &str) -> impl Future<Output = K> {
        let (at, named) = (Location::caller(), self.named::<K>(name));
        async move {
            match expect_accepted(at, "read", &named, self.find::<K>(&named).await) {
                Some(found) => found,
                None => fail(at, &format!("there is no {named}")),
            }
        }
    }

    /// Returns an object; `None` if it does not exist.
    #[track_caller]
    pub fn get_opt<K: TestObject>(&self, name: &str) -> impl Future<Output = Option<K>> {
        let (at, named) = (Location::caller(), self.named::<K>(name));
        async move { expect_accepted(at, "read", &named, self.find::<K>(&named).await) }
    }

    /// Returns all objects of a type in the namespace of the test, or in the cluster for a
    /// cluster-scoped type.
    #[track_caller]
    pub fn list<K: TestObject>(&self) -> impl Future<Output = Vec<K>> {
        let (at, named) = (Location::caller(), self.named::<K>("*"));
        async move {
            let sent = async {
                let request = Request::new(K::url_path(&(), named.namespace.as_deref()));
                let request = request.list(&ListParams::default());
                let list: ObjectList<K> =
                    self.client().request(request.map_err(kube::Error::BuildRequest)?).await?;
                Ok(list.items)
            };
            expect_accepted(at, "listed", &named, sent.await)
        }
    }

    /// Changes an object by a merge patch: `json!({"spec": {"replicas": 3}})`. Returns it as the
    /// server stores it.
    #[track_caller]
    pub fn patch<K: TestObject>(&self, name: &str, patch: Value) -> impl Future<Output = K> {
        self.patch_at(Location::caller(), self.named::<K>(name), None, patch)
    }

    /// Changes the status of an object by a merge patch: `json!({"status": {"ready": true}})`.
    #[track_caller]
    pub fn patch_status<K: TestObject>(&self, name: &str, patch: Value) -> impl Future<Output = K> {
        self.patch_at(Location::caller(), self.named::<K>(name), Some("status"), patch)
    }

    async fn patch_at<K: TestObject>(
        &self,
        at: &Location<'_>,
        named: ObjectName,
        subresource: Option<&str>,
        patch: Value,
    ) -> K {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let sent = async {
            let request = Request::new(K::url_path(&(), named.namespace.as_deref()));
            let request = match subresource {
                Some(part) => request.patch_subresource(part, &named.name, &params, &patch),
                None => request.patch(&named.name, &params, &patch),
            };
            self.client().request(request.map_err(kube::Error::BuildRequest)?).await
        };
        expect_accepted(at, "patched", &named, sent.await)
    }

    /// Deletes an object. It may stay until its finalizers are gone: see
    /// [`eventually_gone`](Self::eventually_gone).
    #[track_caller]
    pub fn delete<K: TestObject>(&self, name: &str) -> impl Future<Output = ()> {
        let (at, named) = (Location::caller(), self.named::<K>(name));
        async move { self.delete_at::<K>(at, &named, &DeleteParams::default()).await }
    }

    pub(crate) async fn delete_at<K: TestObject>(
        &self,
        at: &Location<'_>,
        named: &ObjectName,
        params: &DeleteParams,
    ) {
        let sent = async {
            let request = Request::new(K::url_path(&(), named.namespace.as_deref()));
            let request = request.delete(&named.name, params);
            let request = request.map_err(kube::Error::BuildRequest)?;
            self.client().request::<Value>(request).await
        };
        expect_accepted(at, "deleted", named, sent.await);
    }

    /// Deletes the namespace of the test on the cluster of a kubeconfig. Elsewhere it ends with the
    /// server.
    #[track_caller]
    pub fn delete_namespace(&self) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            let named = ObjectName {
                kind: "Namespace".to_owned(),
                namespace: None,
                name: self.namespace().to_owned(),
            };
            let sent = async {
                let request = Request::new("/api/v1/namespaces");
                let request = request.delete(&named.name, &DeleteParams::default());
                let request = request.map_err(kube::Error::BuildRequest)?;
                self.client().request::<Value>(request).await
            };
            expect_accepted(at, "deleted", &named, sent.await);
        }
    }

    /// Returns an object as the server stores it; `None` if it does not exist.
    pub(crate) async fn find<K: TestObject>(
        &self,
        named: &ObjectName,
    ) -> Result<Option<K>, kube::Error> {
        let request = Request::new(K::url_path(&(), named.namespace.as_deref()));
        let request = request.get(&named.name, &GetParams::default());
        match self.client().request(request.map_err(kube::Error::BuildRequest)?).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the object that a test means by `name`.
    pub(crate) fn named<K: TestObject>(&self, name: &str) -> ObjectName {
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (namespace, name),
            None => (self.namespace(), name),
        };
        let namespace = <K::Scope as Scope>::NAMESPACED.then(|| namespace.to_owned());
        ObjectName { kind: K::kind(&()).into_owned(), namespace, name: name.to_owned() }
    }
}

/// Returns the result of a request that must succeed.
#[track_caller]
pub(crate) fn expect_accepted<T>(
    at: &Location<'_>,
    verb: &str,
    named: &ObjectName,
    answer: Result<T, kube::Error>,
) -> T {
    match answer {
        Ok(answer) => answer,
        Err(error) => fail(at, &format!("{named} cannot be {verb}: {}", causes(&error))),
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}
