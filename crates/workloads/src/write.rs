//! Writes, all of them tied to what they were decided on: patches carry the version that was read, deletions the uid.
//!
//! So a decision on an old cache ends in a conflict and is made anew, instead of being carried out.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass::reconciler::{Context, Error, difference};

/// An object that the controllers write.
pub(crate) trait Written:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
{
}

impl<K> Written for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
{
}

/// The resource in the namespace of the key that runs.
pub(crate) fn api<K: Written>(cx: &Context) -> Api<K> {
    Api::namespaced(cx.client().clone(), cx.key().namespace().unwrap_or_default())
}

pub(crate) async fn create<K: Written>(cx: &Context, object: &K) -> Result<K, kube::Error> {
    let params =
        PostParams { field_manager: Some(cx.controller().to_owned()), ..PostParams::default() };
    api(cx).create(&params, object).await
}

/// Writes what is different, if anything is.
pub(crate) async fn update<K: Written>(cx: &Context, old: &K, new: &K) -> Result<K, Error> {
    match difference(old, new)? {
        None => Ok(new.clone()),
        Some(patch) => {
            Ok(api(cx).patch(&old.name_any(), &params(cx), &Patch::Merge(patch)).await?)
        }
    }
}

/// The same for what is different in the status.
pub(crate) async fn update_status<K: Written>(cx: &Context, old: &K, new: &K) -> Result<K, Error> {
    match difference(old, new)? {
        None => Ok(new.clone()),
        Some(patch) => {
            Ok(api(cx).patch_status(&old.name_any(), &params(cx), &Patch::Merge(patch)).await?)
        }
    }
}

/// Deletes this very object, and not one that has its name by now. Whether it was there to be deleted.
pub(crate) async fn delete<K: Written>(
    cx: &Context,
    object: &K,
    params: DeleteParams,
) -> Result<bool, Error> {
    let preconditions = Preconditions { uid: object.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..params };
    match api::<K>(cx).delete(&object.name_any(), &params).await {
        Ok(_) => Ok(true),
        // It is gone, or another one has its name.
        Err(error) if is_status(&error, 404) || is_status(&error, 409) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the server answered with this code.
pub(crate) fn is_status(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

fn params(cx: &Context) -> PatchParams {
    PatchParams { field_manager: Some(cx.controller().to_owned()), ..PatchParams::default() }
}
