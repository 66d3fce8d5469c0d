//! Services and endpoint slices.

use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::resource;

/// A Service.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Service {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceSpec {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(rename = "clusterIP")]
    pub(crate) cluster_ip: Option<String>,
    #[serde(default)]
    pub(crate) ip_families: Vec<String>,
    #[serde(default)]
    pub(crate) selector: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) ports: Vec<ServicePort>,
    #[serde(default)]
    pub(crate) publish_not_ready_addresses: bool,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServicePort {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) protocol: Option<String>,
    pub(crate) app_protocol: Option<String>,
    #[serde(default)]
    pub(crate) port: i32,
    #[serde(default)]
    pub(crate) target_port: Value,
}

/// An `EndpointSlice`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointSlice {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) address_type: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(crate) endpoints: Vec<Endpoint>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub(crate) ports: Vec<EndpointPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Endpoint {
    #[serde(default)]
    pub(crate) addresses: Vec<String>,
    #[serde(default)]
    pub(crate) conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hostname: Option<String>,
    #[serde(default)]
    pub(crate) target_ref: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<String>,
    /// Lists are written as a whole, so the fields of other writers have to be kept.
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Conditions {
    pub(crate) ready: Option<bool>,
    pub(crate) serving: Option<bool>,
    pub(crate) terminating: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointPort {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) port: Option<i32>,
    pub(crate) protocol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) app_protocol: Option<String>,
}

resource!(Service, NamespaceResourceScope, "", "v1", "Service", "services");
resource!(
    EndpointSlice,
    NamespaceResourceScope,
    "discovery.k8s.io",
    "v1",
    "EndpointSlice",
    "endpointslices"
);

impl Service {
    /// Returns whether it has no cluster IP.
    pub(crate) fn is_headless(&self) -> bool {
        self.spec.cluster_ip.as_deref() == Some("None")
    }
}

fn null_is_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}
