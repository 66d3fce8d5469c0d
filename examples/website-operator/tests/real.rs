//! The operator as it is deployed: on a real kube-apiserver, with the manifests of `deploy/`, as
//! its own `ServiceAccount` with its own Roles. The same steps run on the embedded API server, too,
//! with all rights and with these.

mod common;

use common::manifests;
use common::{Made, Stage, available, condition, site};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec, TokenReview};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, CustomResourceExt as _};
use serde_json::json;
use website_operator::{Website, WebsiteSpec};
use windlass::informer::ClientStack;
use windlass::reconciler::install_crd;
use windlass_apiserver::{ApiServer, Authorization};
use windlass_testkit::cluster::{REAL_TIER, real_tier_is_on};
use windlass_testkit::{
    CLEANUP_CONTROLLERS, RealCluster, RealOptions, TestCluster, WORKLOAD_CONTROLLERS,
};

/// The namespace and the name of the operator in its manifests.
const OPERATOR: &str = "website-operator";

/// A real cluster with the manifests on it; `None` where that was not asked for.
async fn deployed(options: RealOptions) -> Option<RealCluster> {
    if !real_tier_is_on() {
        println!("skipped on a real kube-apiserver: run `cargo xtask test --real`");
        return None;
    }
    let cluster = match RealCluster::start(options).await {
        Ok(cluster) => cluster,
        Err(error) => panic!("{REAL_TIER} is set, but there is no real cluster: {error}"),
    };
    let client = admin(&cluster);
    manifests::apply(&client).await;
    install_crd(&client, &Website::crd()).await.expect("the definition is served");
    Some(cluster)
}

fn admin(cluster: &RealCluster) -> Client {
    ClientStack::new().connect(cluster.config()).expect("a client")
}

/// A token of the operator's `ServiceAccount`, as a pod gets it.
async fn token(client: Client) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, OPERATOR);
    let request =
        TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let granted = accounts.create_token_request(OPERATOR, &PostParams::default(), &request).await;
    granted.expect("a token").status.and_then(|status| status.token).expect("a token")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_does_its_work_on_the_embedded_server() {
    let server = ApiServer::new();
    let client = ClientStack::new().around(server.service(), "default");
    install_crd(&client, &Website::crd()).await.expect("the definition is accepted");
    let connect = move |stack: ClientStack| stack.around(server.service(), "default");
    play(Stage::start(connect, client, Made::ByWorkloads, ["default", "kube-public"])).await;
}

/// The same manifests and rights as on a real server, so that a missing verb fails in seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_does_its_work_with_its_own_rights_on_the_embedded_server() {
    let server = ApiServer::builder().authorization(Authorization::Rbac).build();
    let admin = ClientStack::new().around(server.service(), "default");
    manifests::apply(&admin).await;
    install_crd(&admin, &Website::crd()).await.expect("the definition is served");
    let operator = TestCluster::on(server.clone()).account(OPERATOR, OPERATOR).await;
    let token = operator.expect("an account").token().to_owned();
    let connect =
        move |stack: ClientStack| stack.around(server.service_with_token(&token), "default");
    secure_metrics_can_ask(connect(ClientStack::new())).await;
    play(Stage::start(connect, admin, Made::ByWorkloads, ["default", OPERATOR])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_does_its_work_with_its_own_rights_on_a_real_server() {
    let controllers = CLEANUP_CONTROLLERS.into_iter().chain(WORKLOAD_CONTROLLERS);
    let options = RealOptions::new().controllers(controllers);
    let Some(cluster) = deployed(options).await else { return };
    let admin = admin(&cluster);
    let config = cluster.config_as(&token(admin.clone()).await);
    let connect = move |stack: ClientStack| stack.connect(config.clone()).expect("a client");
    secure_metrics_can_ask(connect(ClientStack::new())).await;
    play(Stage::start(connect, admin, Made::ByKubernetes, ["default", OPERATOR])).await;
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
async fn play(stage: Stage) {
    stage.create(&site("blog", "blog.example.com", 1)).await;
    stage.until_ready("blog").await;
    stage.patch::<Website>("blog", json!({"spec": {"replicas": 3}})).await;
    let blog = stage.until_ready("blog").await;
    assert_eq!(available(&blog), Some(3));

    // Somebody deletes the Service, and scales the Deployment.
    let deleted = stage.get::<Service>("blog").await;
    stage.delete::<Service>("blog").await;
    let is_another = |made: &Service| made.metadata.uid != deleted.metadata.uid;
    stage.until("blog", "the Service is back", is_another).await;
    let by_hand: Deployment = stage.patch("blog", json!({"spec": {"replicas": 5}})).await;
    let is_repaired = |made: &Deployment| {
        made.metadata.generation > by_hand.metadata.generation && common::replicas(made) == Some(3)
    };
    stage.until("blog", "the Deployment is as it was", is_repaired).await;

    // The host is taken, and then the name is.
    stage.create(&site("copy", "blog.example.com", 1)).await;
    let copy = stage.until_blocked("copy").await;
    let message = condition(&copy, "Ready").map(|ready| ready.message.clone()).unwrap_or_default();
    assert!(message.contains("belongs to the Website default/blog"), "{message}");
    let mut foreign = ConfigMap::default();
    foreign.metadata.name = Some("shop".to_owned());
    let foreign = stage.create(&foreign).await;
    stage.create(&site("shop", "shop.example.com", 1)).await;
    stage.until_blocked("shop").await;
    assert_eq!(stage.get::<ConfigMap>("shop").await.data, foreign.data);

    stage.delete::<Website>("blog").await;
    stage.until_gone::<Website>("blog").await;
    stage.until_gone::<Deployment>("blog").await;
    assert_eq!(stage.holder("blog.example.com").await, None);
    stage.until_event("blog", "Published").await;
    stage.until_event("blog", "Withdrawn").await;
    stage.until_event("copy", "Blocked").await;
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_server_refuses_what_the_rules_forbid_in_their_words() {
    let Some(cluster) = deployed(RealOptions::new()).await else { return };
    assert_rules_hold(admin(&cluster)).await;
}

#[tokio::test]
async fn embedded_server_refuses_what_the_rules_forbid_in_the_same_words() {
    let client = ClientStack::new().around(ApiServer::new().service(), "default");
    install_crd(&client, &Website::crd()).await.expect("the definition is accepted");
    assert_rules_hold(client).await;
}

async fn assert_rules_hold(client: Client) {
    let sites: Api<Website> = Api::namespaced(client, "default");
    let with_files = |names: &[&str]| {
        let files = names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        WebsiteSpec { files, ..WebsiteSpec::new("www.example.com", "") }
    };
    for (name, spec, told) in [
        ("www", with_files(&["page.html"]), "index.html is missing"),
        ("www", with_files(&["index.html", "a/b.html"]), "there are no folders"),
        ("1www", with_files(&["index.html"]), "the name must be a DNS label"),
        (
            "www",
            WebsiteSpec { replicas: 11, ..with_files(&["index.html"]) },
            "less than or equal to 10",
        ),
    ] {
        let refused = sites.create(&PostParams::default(), &Website::new(name, spec)).await;
        assert_refused(&refused, told);
    }
    let fine = Website::new("www", with_files(&["index.html"]));
    sites.create(&PostParams::default(), &fine).await.expect("all rules are kept");
    let patch = Patch::Merge(json!({"spec": {"host": "other.example.com"}}));
    let refused = sites.patch("www", &PatchParams::default(), &patch).await;
    assert_refused(&refused, "the host cannot be changed: create another Website");
}

#[track_caller]
fn assert_refused(answer: &Result<Website, kube::Error>, told: &str) {
    let message = match answer {
        Err(kube::Error::Api(status)) if status.code == 422 => status.message.clone(),
        other => panic!("{other:?}"),
    };
    assert!(message.contains(told), "{message}");
}
