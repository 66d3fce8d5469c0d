//! The kind `Website` in its two versions, and the definition that the server gets.
//!
//! - [`v1`]: the first version, in which Websites are stored;
//! - [`v2`]: the version that the operator works with, and the hub of the conversion;
//! - `convert`: how one becomes the other;
//! - `admission`: what is corrected and refused when somebody writes a Website.
//!
//! Websites stay stored as `v1` in the release that brings `v2`: this release can be rolled back,
//! and clients that read `v1` need no conversion while its first replica starts. A later release
//! stores `v2`.
//!
//! The fields of both specs are optional, and a field that is not there is not written. Server-side
//! apply also converts parts of objects, and a field that a conversion adds to a part could never
//! be removed by its owner again. The schema requires and defaults what it has to.

pub(crate) mod admission;
pub(crate) mod convert;
pub mod v1;
pub mod v2;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResourceExt as _;
use kube::core::crd::merge_crds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::webhook::ClientTarget;

/// The web server of Websites that name none.
const IMAGE: &str = "nginxinc/nginx-unprivileged:1.29-alpine";

/// What the operator knows of a Website. It is the same in both versions.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// The generation of the spec that this is about.
    pub observed_generation: Option<i64>,
    /// How many pods serve it.
    #[serde(default)]
    pub available_replicas: i32,
    /// `Ready`: all pods serve it. `Progressing`: pods are being started or replaced.
    #[serde(default)]
    #[schemars(schema_with = "windlass::reconciler::conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// The definition, with both versions. They are converted by the operator that `deploy/` deploys;
/// an operator that runs elsewhere says so when it installs the definition.
///
/// # Panics
/// Never: the versions are of one kind.
pub fn definition() -> CustomResourceDefinition {
    let versions = vec![v1::Website::crd(), v2::Website::crd()];
    let mut definition = merge_crds(versions, "v1").expect("versions of one kind must merge");
    let (namespace, name) = (crate::NAME.to_owned(), crate::NAME.to_owned());
    let service = ClientTarget::Service { namespace, name, port: None };
    let conversion = serde_json::from_value(crate::webhooks().conversion_of_crd(&service));
    definition.spec.conversion = Some(conversion.expect("a conversion must decode"));
    definition
}
