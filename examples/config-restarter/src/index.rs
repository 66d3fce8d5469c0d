//! Which workloads refer to an object: the indexes that lead from a changed object to them.
//!
//! They are kept with the cache, and change in the same step: a workload that no longer asks for
//! restarts, or is deleted, leaves no trace.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::Deserialize;
use windlass::prelude::*;

use crate::annotation::{Annotations, asks_for_restarts};
use crate::reference::{Kind, references};

/// Workloads by the `ConfigMap`s that they refer to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByConfigMap;

/// Workloads by the Secrets that they refer to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BySecret;

/// What the indexes read of a workload. It is the same in all three kinds.
#[derive(Debug, Deserialize)]
pub struct View {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    annotations: Option<Annotations>,
}

#[derive(Debug, Deserialize)]
struct Spec {
    template: PodTemplateSpec,
}

impl Index for ByConfigMap {
    type View = View;
    type Value = ObjectKey;

    fn values(&self, head: &Head, view: View) -> impl IntoIterator<Item = ObjectKey> {
        view.refers_to(head, Kind::ConfigMap)
    }
}

impl Index for BySecret {
    type View = View;
    type Value = ObjectKey;

    fn values(&self, head: &Head, view: View) -> impl IntoIterator<Item = ObjectKey> {
        view.refers_to(head, Kind::Secret)
    }
}

impl View {
    fn refers_to(self, head: &Head, kind: Kind) -> Vec<ObjectKey> {
        let annotations = self.metadata.annotations.unwrap_or_default();
        if !asks_for_restarts(&annotations) {
            return Vec::new();
        }
        let namespace = head.namespace().unwrap_or_default();
        let all = references(namespace, &annotations, &self.spec.template).into_keys();
        all.filter_map(|(of, key)| (of == kind).then_some(key)).collect()
    }
}
