//! A cluster with broken webhooks, and kubectl for it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use http::Request;
use kube::Client;
use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use windlass_testserver::TestServer;

use crate::webhook_failures::rows::{ADMISSION, Broken, CONVERSION, Row};
use crate::webhook_failures::servers::Servers;

const SETTINGS: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
const CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The document with all kinds of the server.
const DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Much longer than a server takes to notice a configuration or a definition.
const PATIENCE: Duration = Duration::from_mins(2);

/// The patterns of what differs between two servers, and their replacements.
static PLACEHOLDERS: LazyLock<[(Regex, &str); 4]> = LazyLock::new(|| {
    [
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r"current time \S+", "current time NOW"),
        // Go has several messages for a conversion that took too long; which one is random.
        (r#"(/never\?timeout=30s": ).*(deadline|canceled|closed idle).*"#, "${1}request canceled"),
        // Each row has a kind in a group of its own.
        (r"[a-z]+\.example\.com/v", "example.com/v"),
    ]
    .map(|(pattern, instead)| (Regex::new(pattern).expect("a pattern"), instead))
});

pub(crate) struct Cluster {
    client: Client,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    /// The home and working folder of kubectl.
    home: TempDir,
}

impl Cluster {
    pub(crate) fn new(cluster: &TestServer, kubeconfig: &Path) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        std::fs::write(home.path().join("settings.yaml"), SETTINGS).expect("a file");
        Self {
            client: cluster.client().expect("a client"),
            kubectl: windlass_testserver::kubectl().expect("kubectl"),
            kubeconfig: kubeconfig.to_owned(),
            home,
        }
    }

    /// Installs all webhooks and kinds, and waits until the server uses them.
    pub(crate) async fn prepare(&self, servers: &Servers) {
        for row in CONVERSION {
            self.install_kind(row, servers).await;
        }
        for row in ADMISSION {
            if !row.is_own() {
                let ignored = format!("{}-ignored", row.id);
                self.install_webhook(&ignored, "Ignore", row.broken, servers).await;
            }
            let is_ignored = matches!(row.broken, Broken::Own(path) if path.ends_with("/ignore"));
            let policy = if is_ignored { "Ignore" } else { "Fail" };
            self.install_webhook(row.id, policy, row.broken, servers).await;
        }
        // The last one fails at once. A server that uses it uses all before it.
        let last = ADMISSION.last().expect("there are rows").id;
        let path = format!("/api/v1/namespaces/{last}/configmaps?dryRun=All");
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
        self.until(async || self.post(&path, &object).await.is_err()).await;
        for row in CONVERSION {
            let api_version = format!("{}.example.com/v1", row.id);
            let path = format!("/apis/{api_version}/namespaces/default/websites");
            let object = json!({
                "apiVersion": api_version, "kind": "Website",
                "metadata": {"name": "main"}, "spec": {"host": "x"},
            });
            self.until(async || self.post(&path, &object).await.is_ok()).await;
        }
        // kubectl looks up kinds in this document, which real servers update last.
        let is_listed = async || {
            let request = Request::get("/apis").header("accept", DISCOVERY).body(Vec::new());
            let request = request.expect("a request");
            let groups = self.client.request_text(request).await.unwrap_or_default();
            CONVERSION.iter().all(|row| groups.contains(&format!("\"{}.example.com\"", row.id)))
        };
        self.until(is_listed).await;
    }

    /// Installs a webhook for the objects of a separate namespace.
    async fn install_webhook(
        &self,
        namespace: &str,
        policy: &str,
        broken: Broken,
        servers: &Servers,
    ) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace}});
        self.post("/api/v1/namespaces", &object).await.expect("a namespace");
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": [{
                "name": "settings.example.com",
                "clientConfig": servers.client_config(broken),
                "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                    "resources": ["configmaps"]}],
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": policy,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        });
        self.post(CONFIGURATIONS, &configuration).await.expect("a configuration");
    }

    /// Installs a kind with two versions that the webhook converts.
    async fn install_kind(&self, row: &Row, servers: &Servers) {
        let group = format!("{}.example.com", row.id);
        let version = |name: &str, storage: bool| {
            json!({
                "name": name, "served": true, "storage": storage,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            })
        };
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("websites.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"plural": "websites", "singular": "website", "kind": "Website",
                    "listKind": "WebsiteList"},
                "versions": [version("v1", true), version("v2", false)],
                "conversion": {"strategy": "Webhook", "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": servers.client_config(row.broken),
                }},
            },
        });
        self.post(DEFINITIONS, &definition).await.expect("a definition");
    }

    async fn post(&self, path: &str, object: &Value) -> Result<Value, kube::Error> {
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(object.to_string().into_bytes()).expect("a request");
        self.client.request(request).await
    }

    async fn until(&self, holds: impl AsyncFn() -> bool) {
        let waiting = async {
            while !holds().await {
                // The server is another process: polling its answers is the only way.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("the server must notice it");
    }

    /// Returns the output of kubectl when the object is applied in a namespace.
    pub(crate) async fn apply(&self, namespace: &str) -> String {
        self.kubectl(&["apply", "-f", "settings.yaml", "--namespace", namespace]).await
    }

    /// Returns the output of kubectl when it reads an object that must be converted.
    pub(crate) async fn get(&self, id: &str) -> String {
        let kind = format!("websites.v2.{id}.example.com");
        self.kubectl(&["get", &kind, "main", "--namespace", "default"]).await
    }

    /// Returns the complete output of kubectl. Its exit status tells whether that is an error.
    async fn kubectl(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = output.await.expect("kubectl must start");
        let text = [output.stderr, output.stdout].concat();
        let mut text = String::from_utf8_lossy(&text).trim().to_owned();
        let expected = i32::from(text.starts_with("Error"));
        assert_eq!(output.status.code(), Some(expected), "the exit status of: {text}");
        for (pattern, instead) in PLACEHOLDERS.iter() {
            text = pattern.replace_all(&text, *instead).into_owned();
        }
        text
    }
}
