//! The first version. It knows the image of the web server, which listens on port 8080.

#![expect(unreachable_pub, reason = "kube's derive writes a copy of the struct into a function")]

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{IMAGE, WebsiteStatus};

/// A few files that are served under a host name.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Deserialize, Serialize)]
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
        .message("the name must be a DNS label that begins with a letter, because the Service has the same name"),
)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The host name. No two Websites have the same, and it cannot be changed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(!default)] // required
    #[schemars(length(max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message(
        "the host cannot be changed: create another Website"
    ))]
    pub host: String,
    /// What is served: the content of each file by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(!default)] // required
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = Rule::new("'index.html' in self").message("index.html is missing"))]
    #[x_kube(validation = Rule::new("self.all(name, name.matches('^[-._a-zA-Z0-9]+$'))").message(
        "names of files have letters, digits, '-', '_' and '.' only: there are no folders"
    ))]
    pub files: BTreeMap<String, String>,
    /// How many pods serve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1, max = 10), extend("default" = 1))]
    pub replicas: Option<i32>,
    /// The container image of the web server. It must serve `/usr/share/nginx/html` on port 8080,
    /// and run without root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("default" = IMAGE))]
    pub image: Option<String>,
}
