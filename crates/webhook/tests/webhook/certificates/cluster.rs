//! A cluster with webhooks to be called, clocks that tests move, and a client that calls by TLS.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::time_provider::TimeProvider;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tower::ServiceExt as _;
use windlass_testserver::TestServer;
use windlass_webhook::certificates::{Certificates, Served};

pub(crate) const NAME: &str = "operator.default.svc";
pub(crate) const LIFETIME: Duration = Duration::from_secs(30);
pub(crate) const SECRET: &str = "/api/v1/namespaces/default/secrets/certificates";
pub(crate) const MUTATING: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/operator";
pub(crate) const VALIDATING: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/operator";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/websites.example.com";

/// Where a custom resource stands in for the definition.
const STAND_IN: &str = "/apis/stand-in.example.com/v1/definitions";

/// A cluster, and its clock, which follows tokio's, plus what a test adds. It is also the clock of
/// the replicas, unless a test says otherwise.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) server: TestServer,
    pub(crate) client: kube::Client,
    started: Instant,
    added: Arc<AtomicI64>,
    has_stand_in: bool,
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        Self::on(TestServer::embedded()).await
    }

    pub(crate) async fn on(server: TestServer) -> Self {
        let client = server.client().expect("a client");
        let (started, added) = (Instant::now(), Arc::default());
        let mut cluster = Self { server, client, started, added, has_stand_in: false };
        cluster.serve_missing_kinds().await;
        cluster
    }

    /// Also with the webhooks: two of each kind of configuration, and a conversion.
    pub(crate) async fn with_webhooks() -> Self {
        let cluster = Self::new().await;
        for path in [MUTATING, VALIDATING, DEFINITION] {
            cluster.install(path).await;
        }
        cluster
    }

    pub(crate) async fn install(&self, path: &str) {
        let (collection, name) = path.rsplit_once('/').expect("a path");
        let config = json!({"service": {"name": "operator", "namespace": "default"}});
        let object = if path == DEFINITION {
            let mut object = definition("example.com", "websites", "Website", Some(&config));
            if self.has_stand_in {
                object["apiVersion"] = "stand-in.example.com/v1".into();
                object["kind"] = "Definition".into();
            }
            object
        } else {
            let kind = if path == MUTATING { "Mutating" } else { "Validating" };
            let webhook = |name: &str| {
                json!({
                    "name": format!("{name}.example.com"), "clientConfig": config,
                    "admissionReviewVersions": ["v1"], "sideEffects": "None",
                })
            };
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": format!("{kind}WebhookConfiguration"),
                "metadata": {"name": name},
                "webhooks": [webhook("one"), webhook("two")],
            })
        };
        self.send(Method::POST, collection, Some(&object)).await.expect("installed");
    }

    /// The embedded API server may not know these kinds, or not allow webhooks in definitions: then
    /// custom resources stand in for them.
    async fn serve_missing_kinds(&mut self) {
        let group = "admissionregistration.k8s.io";
        let mut missing = Vec::new();
        if self.send(Method::GET, &format!("/apis/{group}/v1"), None).await.is_err() {
            missing.push((group, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"));
            missing.push((
                group,
                "validatingwebhookconfigurations",
                "ValidatingWebhookConfiguration",
            ));
        }
        let probe = definition("example.com", "websites", "Website", Some(&json!({})));
        let path = format!("{DEFINITIONS}?dryRun=All");
        let probed = self.send(Method::POST, &path, Some(&probe));
        let refusal = probed.await.err().map(|error| error.to_string()).unwrap_or_default();
        let is_replaced = refusal.contains("does not support conversion by webhook");
        if is_replaced {
            missing.push(("stand-in.example.com", "definitions", "Definition"));
        }
        for (group, plural, kind) in missing {
            let mut object = definition(group, plural, kind, None);
            object["spec"]["scope"] = "Cluster".into();
            object["metadata"]["annotations"] =
                json!({"api-approved.kubernetes.io": "unapproved, a test"});
            self.send(Method::POST, DEFINITIONS, Some(&object)).await.expect("served");
        }
        if is_replaced {
            let service = self.server.server().expect("embedded").service();
            let service = service.map_request(|mut request: Request<Body>| {
                let uri = request.uri().to_string();
                *request.uri_mut() =
                    uri.replacen(DEFINITIONS, STAND_IN, 1).parse().expect("a path");
                request
            });
            self.client = kube::Client::new(service, "default");
            self.has_stand_in = true;
        }
    }

    pub(crate) fn certificates(&self) -> Certificates {
        self.certificates_by(self.client.clone())
    }

    /// Those of a replica whose own clock is wrong by so many seconds.
    pub(crate) fn certificates_wrong_by(&self, seconds: i64) -> Certificates {
        let cluster = self.clone();
        self.certificates().clock(move || cluster.now() + SignedDuration::from_secs(seconds))
    }

    pub(crate) fn certificates_by(&self, client: kube::Client) -> Certificates {
        let (cluster, server) = (self.clone(), self.clone());
        Certificates::new(client, "default", "certificates", [NAME])
            .expect("a valid name")
            .mutating("operator")
            .validating("operator")
            .definition("websites.example.com")
            .lifetime(LIFETIME)
            .clock(move || cluster.now())
            .server_clock(move || Some(server.now()))
    }

    pub(crate) fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.started.elapsed()).expect("short");
        let added = SignedDuration::from_secs(self.added.load(Ordering::Relaxed));
        Timestamp::from_second(1_800_000_000).expect("a time") + elapsed + added
    }

    /// Moves the wall clock only, for all replicas.
    pub(crate) fn add_seconds(&self, seconds: i64) {
        self.added.fetch_add(seconds, Ordering::Relaxed);
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> kube::Result<Value> {
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type).body(body).expect("a request");
        self.client.request(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, None).await.expect(path)
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send(Method::DELETE, path, None).await.expect(path);
    }

    pub(crate) async fn merge(&self, path: &str, changes: &Value) {
        self.send(Method::PATCH, path, Some(changes)).await.expect(path);
    }

    /// Each `caBundle` of an object, decoded.
    pub(crate) async fn bundles(&self, path: &str) -> Vec<Option<String>> {
        let object = self.get(path).await;
        let configs: Vec<_> = match object["webhooks"].as_array() {
            Some(webhooks) => webhooks.iter().map(|webhook| &webhook["clientConfig"]).collect(),
            None => vec![&object["spec"]["conversion"]["webhook"]["clientConfig"]],
        };
        configs.into_iter().map(|config| decode(&config["caBundle"])).collect()
    }

    /// Calls a server as the API server does: trusts a bundle, and expects the name.
    pub(crate) async fn call(&self, served: &Served, bundle: &str) -> std::io::Result<()> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(certificate.expect("PEM")).expect("a certificate");
        }
        let config = ClientConfig::builder_with_details(
            default_provider().into(),
            Arc::new(Now(self.now())),
        );
        let config = config.with_safe_default_protocol_versions().expect("versions");
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let (near, far) = tokio::io::duplex(64 * 1024);
        let connector = TlsConnector::from(Arc::new(config));
        let acceptor = TlsAcceptor::from(served.server_config());
        let name = ServerName::try_from(NAME).expect("a name");
        let (called, accepted) = tokio::join!(connector.connect(name, near), acceptor.accept(far));
        called?;
        accepted.map(drop)
    }

    /// Calls a server with each bundle of the cluster.
    pub(crate) async fn call_by_all_bundles(&self, served: &Served) {
        let mut bundles = BTreeMap::new();
        for path in [MUTATING, VALIDATING, DEFINITION] {
            for bundle in self.bundles(path).await {
                bundles.insert(bundle.unwrap_or_default(), path);
            }
        }
        for (bundle, path) in bundles {
            let called = self.call(served, &bundle).await;
            assert!(called.is_ok(), "{path} at {}: {called:?} {served:?}", self.now());
        }
    }
}

#[derive(Debug)]
struct Now(Timestamp);

impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

fn definition(group: &str, plural: &str, kind: &str, webhook: Option<&Value>) -> Value {
    let mut object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    });
    if let Some(config) = webhook {
        object["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]},
        });
    }
    object
}

/// A value in base64, as text.
pub(crate) fn decode(value: &Value) -> Option<String> {
    let decoded = STANDARD.decode(value.as_str()?).expect("base64");
    Some(String::from_utf8(decoded).expect("text"))
}

pub(crate) fn count(bundle: &str) -> usize {
    bundle.matches("BEGIN CERTIFICATE").count()
}
