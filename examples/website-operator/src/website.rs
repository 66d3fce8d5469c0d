//! The type `Website`. Its definition for the server is generated from it: `website-operator crd`.

#![expect(unreachable_pub, reason = "kube's derive writes a copy of the struct into a function")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A few files that are served under a host name.
#[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus",
    shortname = "site",
    category = "all",
    doc = "A few files that are served under a host name.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.availableReplicas"
    ),
    printcolumn(name = "Host", type_ = "string", json_path = ".spec.host"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].message"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')")
        .message("the name must be a DNS label that begins with a letter, since a Service gets it"),
)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The host name. No two Websites have the same, and it cannot be changed.
    #[schemars(length(max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message(
        "the host cannot be changed: create another Website"
    ))]
    pub host: String,
    /// What is served: the content of each file by its name.
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = Rule::new("'index.html' in self").message("index.html is missing"))]
    #[x_kube(validation = Rule::new("self.all(name, name.matches('^[-._a-zA-Z0-9]+$'))").message(
        "names of files have letters, digits, '-', '_' and '.' only: there are no folders"
    ))]
    pub files: BTreeMap<String, String>,
    /// How many pods serve it.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 1, max = 10))]
    pub replicas: i32,
    /// The web server: it serves `/usr/share/nginx/html` on port 8080, and needs no root.
    #[serde(default = "default_image")]
    pub image: String,
}

/// What the operator knows of a Website.
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
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<Condition>,
}

fn default_replicas() -> i32 {
    1
}

fn default_image() -> String {
    "nginxinc/nginx-unprivileged:1.29-alpine".to_owned()
}

impl WebsiteSpec {
    /// A site with one page, and the defaults for the rest.
    pub fn new(host: impl Into<String>, page: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            files: [("index.html".to_owned(), page.into())].into(),
            replicas: default_replicas(),
            image: default_image(),
        }
    }
}

/// The schema of conditions as Kubernetes has it: one of each type, merged by type.
fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string"},
                "message": {"type": "string"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64"},
            },
        },
    })
}
