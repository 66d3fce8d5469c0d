//! Where the certificate comes from, and who is called by which name.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Request;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use kube::client::Body;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use tokio::time::{advance, pause, resume, sleep, timeout};
use tower::layer::layer_fn;
use tower::{Service as _, service_fn};
use windlass_informer::ClientStack;
use windlass_informer::client::HttpService;
use windlass_testserver::{Log, TestServer};

use crate::webhooks::gadgets::kinds::{v1, v2};
use crate::webhooks::gadgets::{
    LIMIT, NAME, PAUSE, READY, Replica, free_address, gadget, manager, options,
};
use crate::webhooks::trust::{bundle, presented};

#[tokio::test]
async fn api_server_calls_the_service_by_a_name_of_the_certificate() {
    for service in [None, Some("hooks")] {
        let (cluster, address) = (TestServer::embedded(), free_address());
        let namespace = cluster.namespace("service").await.expect("a namespace");
        let name = service.unwrap_or(NAME);
        // The embedded server checks the certificate for the name of the Service, as the real one.
        let server = cluster.server().expect("an embedded server");
        server.webhooks().resolve(&namespace, name, address);
        let mut options = options(&namespace, address);
        options.webhook_url = None;
        options.webhook_service = service.map(str::to_owned);
        let log = Log::start();
        let replica = Replica::start_and_wait(manager(&cluster, options)).await;
        // Whoever names the Service knows that it leads here.
        let is_warned = service.is_none() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_none();
        let warnings = log.lines_with("give --webhook-url https://HOST:PORT");
        assert_eq!(warnings.len(), usize::from(is_warned), "{}", log.text());

        let client = cluster.client().expect("a client");
        let all: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let webhooks = all.get(NAME).await.expect("a configuration").webhooks;
        let config = webhooks.expect("webhooks").remove(0).client_config;
        assert_eq!(config.url, None);
        assert_eq!(
            json!(config.service),
            json!({
                "namespace": namespace,
                "name": name,
                "path": "/validate-webhooks-example-com-v2-gadget",
                "port": 443,
            })
        );
        let newer: Api<v2::Gadget> = Api::namespaced(client.clone(), &namespace);
        let made = newer.create(&PostParams::default(), &gadget("red", None)).await;
        assert_eq!(made.expect("it is admitted").spec.shape.size, Some(7));
        let older: Api<v1::Gadget> = Api::namespaced(client, &namespace);
        assert_eq!(older.get("red").await.expect("it is converted").spec.size, Some(7));
        replica.end().await;
    }
}

#[tokio::test]
async fn two_replicas_share_the_certificate_authority_of_one_secret() {
    let cluster = TestServer::embedded();
    let namespace = cluster.namespace("sharing").await.expect("a namespace");
    let addresses = [free_address(), free_address()];
    let start = |address: SocketAddr| {
        let mut options = options(&namespace, address);
        options.webhook_url = Some(format!("https://{}", addresses[0]));
        Replica::start(manager(&cluster, options))
    };
    let replicas = addresses.map(start);
    for replica in &replicas {
        replica.wait_for_readyz(READY).await;
    }
    let client = cluster.client().expect("a client");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let secrets = secrets.list(&ListParams::default()).await.expect("a list").items;
    let names: Vec<_> = secrets.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
    assert_eq!(names, ["gadgets-webhook-certificates"]);

    // Whichever is called is trusted, and each has a key of its own.
    let trusted = bundle(&client).await.expect("a bundle");
    let [one, other] = addresses.map(|address| presented(address, &trusted));
    assert_ne!(one.await.expect("a handshake"), other.await.expect("a handshake"));
    let [first, second] = replicas;
    first.end().await;

    // One that comes back continues with the same authority.
    let first = start(addresses[0]);
    first.wait_for_readyz(READY).await;
    presented(addresses[0], &trusted).await.expect("a handshake");
    assert_eq!(bundle(&client).await.as_ref(), Some(&trusted));
    first.end().await;
    second.end().await;
}

/// A certificate authority, and a certificate that it has signed, written as cert-manager does.
fn issue(folder: &Path) -> String {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = authority.self_signed(&key).expect("a certificate");
    let issuer = Issuer::new(authority, key);
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new([Ipv4Addr::LOCALHOST.to_string()]).expect("an address");
    let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
    std::fs::write(folder.join("tls.crt"), leaf.pem()).expect("written");
    std::fs::write(folder.join("tls.key"), key.serialize_pem()).expect("written");
    certificate.pem()
}

/// Does what cert-manager's CA injector does.
async fn inject(client: &Client, pem: &str) {
    let params = PostParams::default();
    let all: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mut one = all.get(NAME).await.expect("a configuration");
    for webhook in one.webhooks.iter_mut().flatten() {
        webhook.client_config.ca_bundle = Some(ByteString(pem.into()));
    }
    all.replace(NAME, &params, &one).await.expect("replaced");
    let all: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let mut one = all.get(NAME).await.expect("a configuration");
    for webhook in one.webhooks.iter_mut().flatten() {
        webhook.client_config.ca_bundle = Some(ByteString(pem.into()));
    }
    all.replace(NAME, &params, &one).await.expect("replaced");
}

#[tokio::test]
async fn files_are_served_and_read_again_and_their_bundle_is_somebody_elses() {
    let (cluster, address) = (TestServer::embedded(), free_address());
    let namespace = cluster.namespace("files").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let folder = tempfile::tempdir().expect("a folder");
    let first = issue(folder.path());
    let start = async || {
        let mut options = options(&namespace, address);
        options.webhook_cert_path = Some(folder.path().to_owned());
        Replica::start_and_wait(manager(&cluster, options)).await
    };
    let replica = start().await;
    assert_eq!(bundle(&client).await, None);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    assert!(secrets.list(&ListParams::default()).await.expect("a list").items.is_empty());
    inject(&client, &first).await;
    let gadgets: Api<v2::Gadget> = Api::namespaced(client.clone(), &namespace);
    let params = PostParams::default();
    gadgets.create(&params, &gadget("red", None)).await.expect("it is admitted");

    // A restart leaves the bundle as it is.
    replica.end().await;
    let replica = start().await;
    assert_eq!(bundle(&client).await.as_ref(), Some(&first));
    gadgets.create(&params, &gadget("blue", None)).await.expect("it is admitted");

    let second = issue(folder.path());
    pause();
    advance(Duration::from_secs(10)).await;
    resume();
    let reloaded = async {
        while presented(address, &second).await.is_err() {
            sleep(PAUSE).await;
        }
    };
    timeout(LIMIT, reloaded).await.expect("the files must be read again");
    replica.wait_for_readyz("[+]webhooks ok").await;
    replica.end().await;
}

/// A background task dies. The task polls the futures that the layer returns.
#[tokio::test]
async fn task_of_the_certificates_that_panics_ends_the_manager_and_is_named() {
    let cluster = TestServer::embedded();
    let namespace = cluster.namespace("panics").await.expect("a namespace");
    let service = cluster.server().expect("an embedded server").service();
    let panics = Arc::new(AtomicBool::new(false));
    let is_armed = Arc::clone(&panics);
    let connect = move |stack: ClientStack| {
        let panics = Arc::clone(&panics);
        let layer = layer_fn(move |mut inner: HttpService| {
            let panics = Arc::clone(&panics);
            service_fn(move |request: Request<Body>| {
                let is_secret = request.uri().path().contains("/secrets/");
                let (answer, panics) = (inner.call(request), Arc::clone(&panics));
                async move {
                    let panics = is_secret && panics.load(Ordering::Relaxed);
                    assert!(!panics, "a layer that does not like it");
                    answer.await
                }
            })
        });
        Ok(stack.layer(layer).around(service.clone(), "default"))
    };
    let manager = manager(&cluster, options(&namespace, free_address())).connect(connect);
    let replica = Replica::start_and_wait(manager).await;
    is_armed.store(true, Ordering::Relaxed);
    // It looks several times a day.
    pause();
    advance(Duration::from_hours(24)).await;
    resume();
    let ended = timeout(LIMIT, replica.task).await.expect("the manager must end");
    let error = ended.expect("it must not panic").expect_err("a part has died").to_string();
    assert!(error.starts_with("the certificates of the webhooks panicked"), "{error}");
}
