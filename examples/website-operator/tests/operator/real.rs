//! The operator as it is deployed: on a real kube-apiserver, with the manifests of `deploy/`, as
//! its own `ServiceAccount` with its own Roles. The same steps run on the embedded API server, too,
//! with all rights and with these.

use crate::common::{available, condition, holder, is_blocked, is_ready, manifests, reasons, site};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use website_operator::Website;
use website_operator::website::v1;
use windlass_testing::TestCluster;
use windlass_testing::testserver::{
    CLEANUP_CONTROLLERS, ControlPlane, ControlPlaneOptions, TestServer, WORKLOAD_CONTROLLERS,
};
use windlass_workloads::Workloads;

/// The namespace and the name of the operator in its manifests.
const OPERATOR: &str = "website-operator";

/// A real cluster with the manifests on it.
async fn deployed(options: ControlPlaneOptions) -> TestCluster {
    let control_plane = ControlPlane::start(options).await.expect("a real kube-apiserver");
    let cluster = TestCluster::on(TestServer::on_control_plane(control_plane), "default");
    manifests::apply(&cluster).await;
    cluster.watch_all_namespaces()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_does_its_work_on_the_embedded_server() {
    let cluster = TestCluster::embedded();
    play(&cluster, &cluster, "kube-public").await;
}

/// The same manifests and rights as on a real server, so that a missing verb fails in seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_does_its_work_with_its_own_rights_on_the_embedded_server() {
    let cluster = TestCluster::on(TestServer::embedded_with_roles(), "default");
    manifests::apply(&cluster).await;
    play_with_its_own_rights(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn operator_does_its_work_with_its_own_rights_on_a_real_server() {
    let controllers = CLEANUP_CONTROLLERS.into_iter().chain(WORKLOAD_CONTROLLERS);
    let options = ControlPlaneOptions::new().controllers(controllers);
    let cluster = deployed(options).await;
    play_with_its_own_rights(&cluster).await;
}

async fn play_with_its_own_rights(cluster: &TestCluster) {
    let test_cluster = cluster.test_server().expect("a test server");
    // The manifests have made it.
    let operator = test_cluster.account(OPERATOR, OPERATOR).await.expect("an account");
    secure_metrics_can_ask(operator.client().expect("a client")).await;
    play(cluster, &cluster.acting_as(&operator), OPERATOR).await;
}

/// What `--metrics-secure` asks the server for each reader of the metrics.
async fn secure_metrics_can_ask(client: Client) {
    let review: TokenReview =
        serde_json::from_value(json!({"spec": {"token": "none"}})).expect("one");
    let reviews: Api<TokenReview> = Api::all(client.clone());
    let asked = reviews.create(&PostParams::default(), &review).await.expect("it may ask");
    assert_ne!(asked.status.and_then(|status| status.authenticated), Some(true));
    let wish =
        json!({"user": "somebody", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
    let review: SubjectAccessReview = serde_json::from_value(json!({"spec": wish})).expect("one");
    let reviews: Api<SubjectAccessReview> = Api::all(client);
    let asked = reviews.create(&PostParams::default(), &review).await.expect("it may ask");
    assert!(!asked.status.expect("an answer").allowed);
}

/// Everything that the operator does, so that it uses every verb that it has.
async fn play(cluster: &TestCluster, as_operator: &TestCluster, hosts: &str) {
    let operator = crate::common::start(as_operator, hosts).await;
    // A real one has controllers of its own that make pods.
    let is_embedded = cluster.is_embedded();
    let change = |it: Workloads| if is_embedded { it } else { it.pods_only() };
    let workloads = cluster.run_workloads(change);

    cluster.create(&site("blog", "blog.example.com", 1)).await;
    cluster.eventually("blog", is_ready).await;
    cluster.patch::<Website>("blog", json!({"spec": {"replicas": 3}})).await;
    let blog = cluster.eventually("blog", is_ready).await;
    assert_eq!(available(&blog), Some(3));

    // Somebody deletes the Service, and scales the Deployment.
    let deleted = cluster.get::<Service>("blog").await;
    cluster.delete::<Service>("blog").await;
    cluster.eventually("blog", |made: &Service| made.metadata.uid != deleted.metadata.uid).await;
    let by_hand: Deployment = cluster.patch("blog", json!({"spec": {"replicas": 5}})).await;
    let is_repaired = |made: &Deployment| {
        made.metadata.generation > by_hand.metadata.generation
            && crate::common::replicas(made) == Some(3)
    };
    cluster.eventually("blog", is_repaired).await;

    // The host is taken, and then the name is.
    cluster.create(&site("copy", "blog.example.com", 1)).await;
    let copy = cluster.eventually("copy", is_blocked).await;
    let message = condition(&copy, "Ready").map(|ready| ready.message.clone()).unwrap_or_default();
    assert!(message.contains("belongs to the Website default/blog"), "{message}");
    let mut foreign = ConfigMap::default();
    foreign.metadata.name = Some("shop".to_owned());
    let foreign = cluster.create(&foreign).await;
    cluster.create(&site("shop", "shop.example.com", 1)).await;
    cluster.eventually("shop", is_blocked).await;
    assert_eq!(cluster.get::<ConfigMap>("shop").await.data, foreign.data);

    cluster.delete_in_foreground::<Website>("blog").await;
    assert_eq!(cluster.get_opt::<Deployment>("blog").await, None);
    assert_eq!(cluster.get_opt::<Service>("blog").await, None);
    // The copy, which tries again by itself, may have it by now.
    let holder = holder(cluster, hosts, "blog.example.com").await;
    assert_ne!(holder.as_deref(), Some("default/blog"));
    let told = reasons(cluster, "blog").await;
    assert!(
        ["Published", "Withdrawn"].iter().all(|one| told.iter().any(|it| it == one)),
        "{told:?}"
    );
    assert_eq!(reasons(cluster, "copy").await.first().map(String::as_str), Some("Blocked"));
    operator.stop().await;
    workloads.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn real_server_refuses_what_the_rules_forbid_in_their_words() {
    let cluster = deployed(ControlPlaneOptions::new()).await;
    assert_rules_hold(cluster.client()).await;
}

#[tokio::test]
async fn embedded_server_refuses_what_the_rules_forbid_in_the_same_words() {
    let cluster = TestCluster::embedded();
    cluster.install_from("deploy/crd.yaml").await;
    assert_rules_hold(cluster.client()).await;
}

async fn assert_rules_hold(client: Client) {
    // They are stored as `v1`, so that no conversion is needed here.
    let sites: Api<v1::Website> = Api::namespaced(client, "default");
    let with_files = |names: &[&str]| {
        let files = names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        v1::WebsiteSpec { host: "www.example.com".to_owned(), files, ..Default::default() }
    };
    for (name, spec, told) in [
        ("www", with_files(&["page.html"]), "index.html is missing"),
        ("www", with_files(&["index.html", "a/b.html"]), "there are no folders"),
        ("1www", with_files(&["index.html"]), "the name must be a DNS label"),
        (
            "www",
            v1::WebsiteSpec { replicas: Some(11), ..with_files(&["index.html"]) },
            "less than or equal to 10",
        ),
    ] {
        let refused = sites.create(&PostParams::default(), &v1::Website::new(name, spec)).await;
        assert_refused(&refused, told);
    }
    let fine = v1::Website::new("www", with_files(&["index.html"]));
    sites.create(&PostParams::default(), &fine).await.expect("all rules are kept");
    let patch = Patch::Merge(json!({"spec": {"host": "other.example.com"}}));
    let refused = sites.patch("www", &PatchParams::default(), &patch).await;
    assert_refused(&refused, "the host cannot be changed: create another Website");
}

#[track_caller]
fn assert_refused(answer: &Result<v1::Website, kube::Error>, told: &str) {
    let message = match answer {
        Err(kube::Error::Api(status)) if status.code == 422 => status.message.clone(),
        other => panic!("{other:?}"),
    };
    assert!(message.contains(told), "{message}");
}
