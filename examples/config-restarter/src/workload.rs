//! What the three kinds of workloads have in common.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::annotation::HASH;

/// An object with a pod template: if that changes, its pods are replaced.
pub trait Workload:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The template of its pods.
    fn template(&self) -> &PodTemplateSpec;

    /// The template of its pods, to change it.
    fn template_mut(&mut self) -> &mut PodTemplateSpec;

    /// The hash at its template.
    fn hash(&self) -> Option<&str> {
        let annotations = self.template().metadata.as_ref()?.annotations.as_ref()?;
        annotations.get(HASH).map(String::as_str)
    }
}

macro_rules! workloads {
    ($($kind:ty),*) => {$(
        impl Workload for $kind {
            fn template(&self) -> &PodTemplateSpec {
                &self.spec.template
            }

            fn template_mut(&mut self) -> &mut PodTemplateSpec {
                &mut self.spec.template
            }
        }
    )*};
}

workloads!(DaemonSet, Deployment, StatefulSet);
