//! Finding the resource of a kind that only the server knows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use kube::core::GroupVersionKind;
use serde_json::json;
use windlass_informer::{ClientStack, DiscoveryError, Resource, SharedInformerFactory};
use windlass_testserver::apiserver::{Fault, FaultRule};
use windlass_testserver::{TestServer, on_each_server};

use crate::server::{client_of, client_with_answer, create, whole};

on_each_server!(kinds_of_the_server_are_found_with_and_without_a_version);
async fn kinds_of_the_server_are_found_with_and_without_a_version(cluster: TestServer) {
    let client = client_of(&cluster, ClientStack::new());
    for (group, version, kind, wanted) in [
        ("", None, "Pod", "pods.v1"),
        ("", Some("v1"), "Namespace", "namespaces.v1"),
        ("apps", None, "Deployment", "deployments.v1.apps"),
        ("coordination.k8s.io", Some("v1"), "Lease", "leases.v1.coordination.k8s.io"),
    ] {
        let found = Resource::discover(&client, group, version, kind).await.expect(kind);
        assert_eq!(found.to_string(), wanted);
        assert_eq!(found.kind(), kind);
        assert_eq!(found.is_namespaced(), kind != "Namespace");
    }
}

on_each_server!(a_custom_kind_is_found_once_it_is_defined);
async fn a_custom_kind_is_found_once_it_is_defined(cluster: TestServer) {
    let client = client_of(&cluster, ClientStack::new());
    let group = "discovered.example.dev";
    let find = async |version| Resource::discover(&client, group, version, "Foo").await;
    let error = find(Some("v1alpha1")).await.expect_err("not defined yet");
    assert_eq!(
        error.to_string(),
        "no kind Foo in discovered.example.dev/v1alpha1: is its CustomResourceDefinition installed? (there is nothing there)"
    );
    let version = |name: &str| {
        json!({"name": name, "served": true, "storage": name == "v1",
                "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("foos.{group}")},
        "spec": {
            "group": group, "scope": "Cluster", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [version("v1alpha1"), version("v1")],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(&client, definitions, &definition).await;
    // A real server serves it a moment later, one version after the other.
    for version in ["v1", "v1alpha1"] {
        while let Err(error) = find(Some(version)).await {
            assert!(matches!(error, DiscoveryError::NoKind { .. }), "{error}");
            tokio::task::yield_now().await;
        }
    }
    let preferred = loop {
        match find(None).await {
            Ok(resource) if resource.version() == "v1" => break resource,
            Ok(_) | Err(DiscoveryError::NoKind { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(preferred.to_string(), format!("foos.v1.{group}"));
    assert!(!preferred.is_namespaced());
    let asked = find(Some("v1alpha1")).await.expect("the version that was asked for");
    assert_eq!(asked.version(), "v1alpha1");

    let error = find(Some("v2")).await.expect_err("no such version").to_string();
    assert!(error.ends_with(&format!("(there: {group}/v1, {group}/v1alpha1)")), "{error}");
    let error = Resource::discover(&client, group, None, "Bar").await.expect_err("no Bar");
    assert_eq!(
        error.to_string(),
        format!("no kind Bar in {group}: is its CustomResourceDefinition installed? (there: Foo)")
    );
}

on_each_server!(what_cannot_be_watched_is_said_to_be_so);
async fn what_cannot_be_watched_is_said_to_be_so(cluster: TestServer) {
    let client = client_of(&cluster, ClientStack::new());
    let group = "authentication.k8s.io";
    let error = Resource::discover(&client, group, None, "TokenReview").await;
    assert_eq!(
        error.expect_err("an answer only").to_string(),
        "TokenReview in authentication.k8s.io/v1 cannot be listed and watched"
    );
    let error = Resource::discover(&client, "apps", Some("v1"), "Deploiment").await;
    let error = error.expect_err("a typing error").to_string();
    assert!(error.starts_with("no kind Deploiment in apps/v1 (there: "), "{error}");
    assert!(error.contains("Deployment") && !error.contains("Definition"), "{error}");
}

/// Only what was found: a kind that is missing may be defined at any time.
#[tokio::test]
async fn a_factory_asks_once_for_a_kind_that_exists_and_again_for_one_that_does_not() {
    let cluster = TestServer::embedded();
    let faults = cluster.server().expect("embedded").faults();
    // It only counts requests.
    let count = faults.add(FaultRule::new(Fault::Delay(Duration::ZERO)));
    let factory = SharedInformerFactory::new(client_of(&cluster, ClientStack::new()));
    let requests = async |kind: &str| {
        let before = faults.times_applied(count);
        let found = factory.discover(&GroupVersionKind::gvk("apps", "v1", kind)).await;
        (found.map(|found| found.to_string()).ok(), faults.times_applied(count) - before)
    };
    let deployments = Some("deployments.v1.apps".to_owned());
    assert_eq!(requests("Deployment").await, (deployments.clone(), 1));
    assert_eq!(requests("Deployment").await, (deployments.clone(), 0));
    assert_eq!(requests("Deploiment").await, (None, 1));
    assert_eq!(requests("Deploiment").await, (None, 1));
    factory.forget_discovered();
    assert_eq!(requests("Deployment").await, (deployments, 1));
}

#[tokio::test]
async fn a_server_in_trouble_is_told_from_a_kind_that_is_missing() {
    let cluster = TestServer::embedded();
    let faults = cluster.server().expect("embedded").faults();
    faults.add(FaultRule::new(Fault::Fail { code: 503, retry_after: Some(2) }));
    let client = client_of(&cluster, ClientStack::new());
    let error = Resource::discover(&client, "apps", None, "Deployment").await.expect_err("503");
    let DiscoveryError::Request { path, error } = error else { panic!("{error}") };
    assert_eq!((&*path, error.retry_after()), ("/apis/apps", Some(Duration::from_secs(2))));

    let (client, _) = client_with_answer(|| Response::new(whole("<html>")));
    let error = Resource::discover(&client, "", None, "Pod").await.expect_err("a web page");
    assert!(matches!(error, DiscoveryError::Request { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn flood_of_an_answer_is_not_read_to_its_end() {
    let sent = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&sent);
    let (client, _) = client_with_answer(move || {
        let counted = Arc::clone(&counted);
        let frames = (0..100).map(move |_| {
            *counted.lock().expect("no panic") += 1;
            Ok(Frame::data(Bytes::from(vec![b' '; 1 << 20])))
        });
        Response::new(StreamBody::new(futures::stream::iter(frames)).boxed_unsync())
    });
    let error = Resource::discover(&client, "", None, "Pod").await.expect_err("too long");
    assert!(matches!(error, DiscoveryError::Request { .. }), "{error}");
    assert_eq!(*sent.lock().expect("no panic"), 5);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up() {
    let cluster = TestServer::embedded();
    cluster.server().expect("embedded").faults().add(FaultRule::new(Fault::Hang));
    // kube's own client has no bound.
    let client = cluster.client().expect("a client");
    let error = Resource::discover(&client, "", None, "Pod").await.expect_err("silence");
    assert_eq!(
        error.to_string(),
        "cannot find out about /api/v1: the server sent nothing for 30 seconds"
    );
}
