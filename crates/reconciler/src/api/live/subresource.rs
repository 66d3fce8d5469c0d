//! Scale and eviction.

use http::Method;
use k8s_openapi::api::autoscaling::v1::Scale;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use windlass_indexer::ObjectKey;

use super::Live;
use super::access::{JSON, request, unless_missing};
use crate::error::Error;
use crate::objects::any_object::ObjectRef;

/// The subresource with the number of replicas, which many kinds have.
const SCALE: &str = "scale";

/// The subresource of pods that deletes them, if no budget is against it.
const EVICTION: &str = "eviction";

impl<T: kube::Resource + Serialize + DeserializeOwned> Live<'_, T> {
    /// Reads how many replicas an object should have and has; `None` if it does not exist, or its
    /// kind has no scale.
    ///
    /// # Errors
    /// Returns the error of the server.
    pub async fn scale(self, key: &ObjectKey) -> Result<Option<Scale>, Error> {
        let access = self.access();
        let scale = access.get(&access.path(key, Some(SCALE)), JSON).await?;
        scale.map(|scale| access.decode(&scale)).transpose()
    }

    /// Sets how many replicas an object should have, whichever kind it is. This needs rights on the
    /// `scale` subresource, and none on the object. Returns `None` as [`scale`](Self::scale) does.
    ///
    /// # Errors
    /// Returns the error of the server.
    pub async fn set_scale(self, key: &ObjectKey, replicas: i32) -> Result<Option<Scale>, Error> {
        let access = self.access();
        let patch = json!({"spec": {"replicas": replicas}});
        let scale = unless_missing(access.patch(key, Some(SCALE), &patch).await)?;
        scale.map(|scale| access.decode(scale.body())).transpose()
    }

    /// Deletes a pod, unless a `PodDisruptionBudget` is against it. It is fine if the pod is gone
    /// already. The next run does not wait until the cache shows the eviction.
    ///
    /// # Errors
    /// Returns the error of the server: a 429, which is
    /// [`Class::Throttled`](crate::Class::Throttled), if a budget does not allow the eviction now.
    /// Returns an error if the object is no pod, or was not read from a server.
    pub async fn evict(self, pod: &impl ObjectRef<T>) -> Result<(), Error> {
        let (access, meta) = (self.access(), pod.as_object().meta());
        if access.resource.plural() != "pods" || !access.resource.group().is_empty() {
            let kind = access.resource.kind();
            return Err(Error::msg(format!("a {kind} cannot be evicted: only pods can")));
        }
        let (uid, key) = (access.uid(meta, "evicted")?, access.key(meta, "evicted")?);
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": key.name(), "namespace": key.namespace()},
            "deleteOptions": self.options.delete_options(uid, meta.resource_version.as_deref()),
        });
        let (path, query) = (access.path(&key, Some(EVICTION)), self.options.dry_query());
        let request = request(Method::POST, &path, query.as_slice(), JSON, &body)?;
        unless_missing(access.send(request).await).map(drop)
    }
}
