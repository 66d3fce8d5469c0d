//! Webhooks that only the API server may call: only it has a certificate of their authority.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use kube::api::{Api, PostParams};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{advance, pause, resume, sleep, timeout};
use windlass_testserver::{ControlPlane, ControlPlaneOptions, TestServer};

use crate::webhooks::gadgets::kinds::{v1, v2};
use crate::webhooks::gadgets::{
    LIMIT, PAUSE, READY, Replica, free_address, gadget, manager, options,
};
use crate::webhooks::trust::{Identity, bundle, connect};

/// Writes a new authority to a file. Returns a client certificate that it has signed.
fn issue(file: &Path) -> Identity {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = authority.self_signed(&key).expect("a certificate");
    std::fs::write(file, certificate.pem()).expect("written");
    let issuer = Issuer::new(authority, key);
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(["kube-apiserver".to_owned()]).expect("a name");
    let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
    Identity { certificate: leaf.pem(), key: key.serialize_pem() }
}

/// Asks for a review, and returns the answer.
async fn review(
    address: SocketAddr,
    bundle: &str,
    identity: Option<&Identity>,
) -> io::Result<String> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": "webhooks.example.com", "version": "v2", "kind": "Gadget"},
            "resource": {"group": "webhooks.example.com", "version": "v2", "resource": "gadgets"},
            "operation": "CREATE",
            "name": "red",
            "userInfo": {"username": "jane"},
            "object": gadget("red", None),
        },
    })
    .to_string();
    let request = format!(
        "POST /validate-webhooks-example-com-v2-gadget HTTP/1.1\r\nhost: test\r\n\
         connection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{review}",
        review.len()
    );
    let mut stream = connect(address, bundle, identity).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn only_clients_of_the_authority_are_answered_and_it_may_change() {
    let (cluster, address) = (TestServer::embedded(), free_address());
    let namespace = cluster.namespace("clients").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.crt");
    let first = issue(&file);
    let mut options = options(&namespace, address);
    options.webhook_client_ca = Some(file.clone());
    let replica = Replica::start_and_wait(manager(&cluster, options)).await;
    let trusted = bundle(&client).await.expect("a bundle");

    let answer = review(address, &trusted, Some(&first)).await.expect("an answer");
    assert!(answer.contains("\"allowed\":true"), "{answer}");
    let refused = review(address, &trusted, None).await.expect("an answer");
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    assert!(refused.contains("see --webhook-client-ca"), "{refused}");
    let other = issue(&folder.path().join("other.crt"));
    review(address, &trusted, Some(&other)).await.expect_err("it is of another authority");

    // The embedded API server has no certificate.
    let gadgets: Api<v2::Gadget> = Api::namespaced(client.clone(), &namespace);
    let error = gadgets.create(&PostParams::default(), &gadget("red", None)).await;
    let error = error.expect_err("it must not be admitted").to_string();
    let words =
        "failed to call webhook: the server has asked for the client to provide credentials";
    assert!(error.contains(words), "{error}");

    let second = issue(&file);
    pause();
    advance(Duration::from_secs(10)).await;
    resume();
    let reloaded = async {
        while review(address, &trusted, Some(&second)).await.is_err() {
            sleep(PAUSE).await;
        }
    };
    timeout(LIMIT, reloaded).await.expect("the file must be read again");
    review(address, &trusted, Some(&first)).await.expect_err("it is not trusted any more");
    replica.wait_for_readyz(READY).await;
    replica.end().await;
}

/// The API server's own settings, as the guide has them.
#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn real_api_server_presents_its_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let identity = issue(&path("ca.crt"));
    std::fs::write(path("client.crt"), &identity.certificate).expect("written");
    std::fs::write(path("client.key"), &identity.key).expect("written");
    let address = free_address();
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{
            "name": address.to_string(),
            "user": {"client-certificate": path("client.crt"), "client-key": path("client.key")},
        }],
    });
    std::fs::write(path("kubeconfig"), kubeconfig.to_string()).expect("written");
    let plugin = |name: &str| {
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": path("kubeconfig"),
        });
        json!({"name": name, "configuration": configuration})
    };
    let admission = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [plugin("MutatingAdmissionWebhook"), plugin("ValidatingAdmissionWebhook")],
    });
    std::fs::write(path("admission.yaml"), admission.to_string()).expect("written");
    let flag = format!("--admission-control-config-file={}", path("admission.yaml").display());
    let real = ControlPlane::start(ControlPlaneOptions::new().apiserver_flag(flag)).await;
    let cluster = TestServer::on_control_plane(real.expect("a real cluster"));

    let namespace = cluster.namespace("clients").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let mut options = options(&namespace, address);
    options.webhook_client_ca = Some(path("ca.crt"));
    let replica = Replica::start_and_wait(manager(&cluster, options)).await;
    let newer: Api<v2::Gadget> = Api::namespaced(client.clone(), &namespace);
    // Servers take a moment to notice a configuration, and would store it without defaults.
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let admitted = async {
        loop {
            match newer.create(&params, &gadget("red", None)).await {
                Ok(made) if made.spec.shape.size == Some(7) => return,
                _ => sleep(PAUSE).await,
            }
        }
    };
    timeout(LIMIT, admitted).await.expect("it must be admitted");
    let made = newer.create(&PostParams::default(), &gadget("red", None)).await;
    assert_eq!(made.expect("it is admitted").spec.shape.size, Some(7));
    // For a conversion, it presents none.
    let older: Api<v1::Gadget> = Api::namespaced(client.clone(), &namespace);
    assert_eq!(older.get("red").await.expect("it is converted").spec.size, Some(7));
    let trusted = bundle(&client).await.expect("a bundle");
    let refused = review(address, &trusted, None).await.expect("an answer");
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    replica.end().await;
}
