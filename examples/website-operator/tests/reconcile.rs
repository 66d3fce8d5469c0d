//! What the operator does, on the embedded API server and the paused clock.

mod common;

use std::time::Duration;

use common::{Made, Stage, available, condition, is_owned_by, replicas, site};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::CustomResourceExt as _;
use kube::api::PostParams;
use serde_json::json;
use website_operator::Website;
use windlass::informer::ClientStack;
use windlass::reconciler::install_crd;
use windlass_apiserver::{ApiServer, Fault, FaultRule};

async fn stage() -> (Stage, ApiServer) {
    let server = ApiServer::new();
    let client = ClientStack::new().around(server.service(), "default");
    install_crd(&client, &Website::crd()).await.expect("the definition is accepted");
    let own = server.clone();
    let connect = move |stack: ClientStack| stack.around(own.service(), "default");
    (Stage::start(connect, client, Made::ByWorkloads, ["default", "kube-public"]), server)
}

/// On the paused clock this passes when nobody has anything to do, except to wait for longer.
async fn rest() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn website_becomes_three_objects_and_ready() {
    let (stage, _) = stage().await;
    stage.create(&site("blog", "blog.example.com", 2)).await;
    let blog = stage.until_ready("blog").await;
    assert_eq!(available(&blog), Some(2));

    let map: ConfigMap = stage.get("blog").await;
    assert_eq!(map.data, Some(blog.spec.files.clone()));
    let made: Deployment = stage.get("blog").await;
    assert_eq!(replicas(&made), Some(2));
    let service: Service = stage.get("blog").await;
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone());
    assert_eq!(selector, made.spec.selector.match_labels);
    assert!(is_owned_by(&map, &blog) && is_owned_by(&made, &blog) && is_owned_by(&service, &blog));
    assert_eq!(stage.holder("blog.example.com").await.as_deref(), Some("default/blog"));
    rest().await;
    assert_eq!(stage.reasons("blog").await, ["Published"]);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn edits_are_followed_and_edits_of_others_undone() {
    let (stage, _) = stage().await;
    stage.create(&site("blog", "blog.example.com", 1)).await;
    stage.until_ready("blog").await;

    stage.patch::<Website>("blog", json!({"spec": {"replicas": 3}})).await;
    let blog = stage.until_ready("blog").await;
    assert_eq!(available(&blog), Some(3));

    let files = json!({"spec": {"files": {"index.html": "new", "style.css": "p {}"}}});
    stage.patch::<Website>("blog", files).await;
    rest().await;
    let map: ConfigMap = stage.get("blog").await;
    let data = map.data.expect("files");
    assert_eq!(data.get("index.html").map(String::as_str), Some("new"));
    assert!(data.contains_key("style.css"));
    stage.patch::<Website>("blog", json!({"spec": {"files": {"style.css": null}}})).await;
    rest().await;
    let map: ConfigMap = stage.get("blog").await;
    assert!(!map.data.expect("files").contains_key("style.css"));

    stage.patch::<Deployment>("blog", json!({"spec": {"replicas": 7}})).await;
    stage.delete::<Service>("blog").await;
    rest().await;
    assert_eq!(replicas(&stage.get("blog").await), Some(3));
    stage.get::<Service>("blog").await;
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn conditions_name_their_generation_and_are_stable() {
    let (stage, _) = stage().await;
    stage.create(&site("blog", "blog.example.com", 1)).await;
    let first = stage.until_ready("blog").await;
    let since = condition(&first, "Ready").map(|ready| ready.last_transition_time.clone());

    // This leads to a run that changes neither the generation nor the status.
    let note = json!({"metadata": {"annotations": {"note": "nothing that matters"}}});
    stage.patch::<Deployment>("blog", note).await;
    rest().await;
    let second: Website = stage.get("blog").await;
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);

    // This leads to a new generation with the same condition.
    stage.patch::<Website>("blog", json!({"spec": {"files": {"a.txt": "a"}}})).await;
    rest().await;
    let third: Website = stage.get("blog").await;
    assert_eq!(third.metadata.generation, Some(2));
    assert_eq!(third.status.as_ref().and_then(|status| status.observed_generation), Some(2));
    for type_ in ["Ready", "Progressing"] {
        let observed = condition(&third, type_).and_then(|one| one.observed_generation);
        assert_eq!(observed, Some(2), "{type_}");
    }
    let still = condition(&third, "Ready").map(|ready| ready.last_transition_time.clone());
    assert_eq!(still, since);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn website_is_not_ready_while_pods_start() {
    let (stage, _) = stage().await;
    stage.create(&site("blog", "blog.example.com", 1)).await;
    let starting = stage
        .until("blog", "it has a status", |site: &Website| condition(site, "Ready").is_some())
        .await;
    let shown = |type_| {
        let condition = condition(&starting, type_).expect("a condition");
        (condition.status.clone(), condition.reason.clone())
    };
    assert_eq!(shown("Ready"), ("False".to_owned(), "Starting".to_owned()));
    assert_eq!(shown("Progressing"), ("True".to_owned(), "RollingOut".to_owned()));
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_website_frees_its_host_and_takes_its_objects_along() {
    let (stage, _) = stage().await;
    stage.create(&site("blog", "blog.example.com", 1)).await;
    stage.until_ready("blog").await;
    stage.delete::<Website>("blog").await;
    stage.until_gone::<Website>("blog").await;
    assert_eq!(stage.holder("blog.example.com").await, None);
    rest().await;
    assert!(stage.api::<Deployment>().get_opt("blog").await.expect("an answer").is_none());
    assert!(stage.api::<ConfigMap>().get_opt("blog").await.expect("an answer").is_none());
    assert!(stage.api::<Service>().get_opt("blog").await.expect("an answer").is_none());
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn website_stays_until_its_host_is_free() {
    let (stage, server) = stage().await;
    stage.create(&site("blog", "blog.example.com", 1)).await;
    stage.until_ready("blog").await;
    let fault = FaultRule::new(Fault::Fail { code: 503, retry_after: None });
    let outage = server.faults().add(fault.verb("patch").resource("configmaps"));
    stage.delete::<Website>("blog").await;
    rest().await;
    let blog: Website = stage.get("blog").await;
    assert!(blog.metadata.deletion_timestamp.is_some());
    assert!(stage.holder("blog.example.com").await.is_some());

    server.faults().remove(outage);
    stage.until_gone::<Website>("blog").await;
    assert_eq!(stage.holder("blog.example.com").await, None);
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn second_website_with_a_host_waits_for_it() {
    let (stage, _) = stage().await;
    stage.create(&site("first", "www.example.com", 1)).await;
    stage.until_ready("first").await;
    stage.create(&site("second", "www.example.com", 1)).await;
    let second = stage.until_blocked("second").await;
    let message = condition(&second, "Ready").map(|ready| ready.message.as_str());
    let told = "the host www.example.com belongs to the Website default/first: choose another one";
    assert_eq!(message, Some(told));
    assert!(stage.api::<Deployment>().get_opt("second").await.expect("an answer").is_none());
    rest().await;
    assert_eq!(stage.reasons("second").await, ["Blocked"]);

    stage.delete::<Website>("first").await;
    stage.until_ready("second").await;
    assert_eq!(stage.holder("www.example.com").await.as_deref(), Some("default/second"));
    // A Website that never had the host does not free it.
    stage.create(&site("third", "www.example.com", 1)).await;
    stage.until_blocked("third").await;
    stage.delete::<Website>("third").await;
    stage.until_gone::<Website>("third").await;
    assert_eq!(stage.holder("www.example.com").await.as_deref(), Some("default/second"));
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn object_of_somebody_else_is_left_alone() {
    let (stage, _) = stage().await;
    let mut foreign = ConfigMap::default();
    foreign.metadata.name = Some("blog".to_owned());
    foreign.data = Some([("key".to_owned(), "theirs".to_owned())].into());
    let foreign = stage.create(&foreign).await;
    stage.create(&site("blog", "blog.example.com", 1)).await;
    let blog = stage.until_blocked("blog").await;
    let message = condition(&blog, "Ready").map(|ready| ready.message.clone()).unwrap_or_default();
    assert!(message.contains("the ConfigMap \"blog\" exists already"), "{message}");
    assert_eq!(stage.get::<ConfigMap>("blog").await, foreign);

    stage.delete::<ConfigMap>("blog").await;
    stage.until_ready("blog").await;
    stage.end().await;
}

#[tokio::test(start_paused = true)]
async fn replicas_out_of_bounds_are_refused_by_the_server() {
    let (stage, _) = stage().await;
    for wrong in [0, 11] {
        let wrong = site("blog", "blog.example.com", wrong);
        let refused = stage.api().create(&PostParams::default(), &wrong).await;
        let is_invalid =
            |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 422);
        assert!(refused.as_ref().is_err_and(is_invalid), "{refused:?}");
    }
    stage.end().await;
}
