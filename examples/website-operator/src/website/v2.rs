//! The second version: the web server has settings of its own, and may listen on any port.

#![expect(unreachable_pub, reason = "kube's derive writes a copy of the struct into a function")]

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{IMAGE, WebsiteStatus};

/// A few files that are served under a host name.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "example.com",
    version = "v2",
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
    /// The web server.
    #[serde(default, skip_serializing_if = "Server::is_empty")]
    #[schemars(extend("default" = {}))]
    pub server: Server,
}

/// The web server of a Website.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
pub struct Server {
    /// The container image. It must serve `/usr/share/nginx/html` on `port`, and run without root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("default" = IMAGE))]
    pub image: Option<String>,
    /// The port that it listens on. Default: 8080.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1, max = 65535))]
    pub port: Option<u16>,
}

impl WebsiteSpec {
    /// A site with one page, and the defaults for the rest.
    pub fn new(host: impl Into<String>, page: impl Into<String>) -> Self {
        let files = [("index.html".to_owned(), page.into())].into();
        Self { host: host.into(), files, ..Self::default() }
    }

    /// How many pods serve it.
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }
}

impl Server {
    /// The image of the web server.
    pub fn image(&self) -> &str {
        self.image.as_deref().unwrap_or(IMAGE)
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(8080)
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
