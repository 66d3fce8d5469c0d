//! What the operator does, on the embedded API server and the paused clock.

use crate::common::{
    available, condition, is_blocked, is_owned_by, is_ready, reasons, replicas, site,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Api, PostParams};
use serde_json::json;
use website_operator::{Website, definition};
use windlass_testing::testserver::TestServer;
use windlass_testing::testserver::apiserver::{Fault, FaultRule};
use windlass_testing::{Quiet, Running, TestCluster};

/// Where the operator keeps its hosts.
const HOSTS: &str = "kube-public";

/// The operator at work, and what makes pods of its Deployments.
async fn at_work() -> (TestCluster, [Running; 2]) {
    let cluster = TestCluster::embedded();
    let operator = crate::common::start(&cluster, HOSTS).await;
    let workloads = cluster.run_workloads(|workloads| workloads);
    (cluster, [operator, workloads])
}

async fn stop(running: [Running; 2]) {
    for one in running {
        one.stop().await;
    }
}

async fn holder(cluster: &TestCluster, host: &str) -> Option<String> {
    crate::common::holder(cluster, HOSTS, host).await
}

#[tokio::test(start_paused = true)]
async fn website_becomes_three_objects_and_ready() {
    let (cluster, running) = at_work().await;
    cluster.create(&site("blog", "blog.example.com", 2)).await;
    cluster.wait_until_quiet().await;
    let blog = cluster.expect("blog", is_ready).await;
    assert_eq!(available(&blog), Some(2));

    let map: ConfigMap = cluster.get("blog").await;
    assert_eq!(map.data, Some(blog.spec.files.clone()));
    let made: Deployment = cluster.get("blog").await;
    assert_eq!(replicas(&made), Some(2));
    let service: Service = cluster.get("blog").await;
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone());
    assert_eq!(selector, made.spec.selector.match_labels);
    assert!(is_owned_by(&map, &blog) && is_owned_by(&made, &blog) && is_owned_by(&service, &blog));
    assert_eq!(holder(&cluster, "blog.example.com").await.as_deref(), Some("default/blog"));
    assert_eq!(reasons(&cluster, "blog").await, ["Published"]);
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn edits_are_followed_and_edits_of_others_undone() {
    let (cluster, running) = at_work().await;
    cluster.create(&site("blog", "blog.example.com", 1)).await;
    cluster.wait_until_quiet().await;

    cluster.patch::<Website>("blog", json!({"spec": {"replicas": 3}})).await;
    cluster.wait_until_quiet().await;
    assert_eq!(available(&cluster.expect("blog", is_ready).await), Some(3));

    let files = json!({"spec": {"files": {"index.html": "new", "style.css": "p {}"}}});
    cluster.patch::<Website>("blog", files).await;
    cluster.wait_until_quiet().await;
    let data = json!({"data": {"index.html": "new", "style.css": "p {}"}});
    cluster.expect::<ConfigMap>("blog", data).await;
    cluster.patch::<Website>("blog", json!({"spec": {"files": {"style.css": null}}})).await;
    cluster.wait_until_quiet().await;
    cluster.expect::<ConfigMap>("blog", json!({"data": {"style.css": null}})).await;

    cluster.patch::<Deployment>("blog", json!({"spec": {"replicas": 7}})).await;
    cluster.delete::<Service>("blog").await;
    cluster.wait_until_quiet().await;
    cluster.expect::<Deployment>("blog", json!({"spec": {"replicas": 3}})).await;
    cluster.get::<Service>("blog").await;
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn conditions_name_their_generation_and_are_stable() {
    let (cluster, running) = at_work().await;
    cluster.create(&site("blog", "blog.example.com", 1)).await;
    cluster.wait_until_quiet().await;
    let first = cluster.expect("blog", is_ready).await;
    let since = condition(&first, "Ready").map(|ready| ready.last_transition_time.clone());

    // This leads to a run that changes neither the generation nor the status. (An annotation would
    // raise the generation of a Deployment.)
    let note = json!({"metadata": {"labels": {"note": "nothing-that-matters"}}});
    cluster.patch::<Deployment>("blog", note).await;
    cluster.wait_until_quiet().await;
    let second: Website = cluster.get("blog").await;
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);

    // This leads to a new generation with the same condition.
    cluster.patch::<Website>("blog", json!({"spec": {"files": {"a.txt": "a"}}})).await;
    cluster.wait_until_quiet().await;
    let new = json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 2}});
    let third = cluster.expect::<Website>("blog", new).await;
    for type_ in ["Ready", "Progressing"] {
        let observed = condition(&third, type_).and_then(|one| one.observed_generation);
        assert_eq!(observed, Some(2), "{type_}");
    }
    let still = condition(&third, "Ready").map(|ready| ready.last_transition_time.clone());
    assert_eq!(still, since);
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn website_is_not_ready_while_pods_start() {
    let (cluster, running) = at_work().await;
    cluster.create(&site("blog", "blog.example.com", 1)).await;
    let has_status = |site: &Website| condition(site, "Ready").is_some();
    let starting = cluster.eventually("blog", has_status).await;
    let shown = |type_| {
        let condition = condition(&starting, type_).expect("a condition");
        (condition.status.clone(), condition.reason.clone())
    };
    assert_eq!(shown("Ready"), ("False".to_owned(), "Starting".to_owned()));
    assert_eq!(shown("Progressing"), ("True".to_owned(), "RollingOut".to_owned()));
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn deleted_website_frees_its_host_and_takes_its_objects_along() {
    let (cluster, running) = at_work().await;
    cluster.create(&site("blog", "blog.example.com", 1)).await;
    cluster.wait_until_quiet().await;
    cluster.delete::<Website>("blog").await;
    cluster.wait_until_quiet().await;
    assert!(cluster.get_opt::<Website>("blog").await.is_none());
    assert_eq!(holder(&cluster, "blog.example.com").await, None);
    assert!(cluster.get_opt::<Deployment>("blog").await.is_none());
    assert!(cluster.get_opt::<ConfigMap>("blog").await.is_none());
    assert!(cluster.get_opt::<Service>("blog").await.is_none());
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn website_stays_until_its_host_is_free() {
    let (cluster, running) = at_work().await;
    cluster.create(&site("blog", "blog.example.com", 1)).await;
    cluster.wait_until_quiet().await;
    let server = cluster.test_server().and_then(TestServer::server).expect("it is embedded");
    let fault = FaultRule::new(Fault::Fail { code: 503, retry_after: None });
    let outage = server.faults().add(fault.verb("patch").resource("configmaps"));
    cluster.delete::<Website>("blog").await;
    cluster.wait_until(Quiet::new().ignore_retries()).await;
    let blog: Website = cluster.get("blog").await;
    assert!(blog.metadata.deletion_timestamp.is_some());
    assert!(holder(&cluster, "blog.example.com").await.is_some());

    server.faults().remove(outage);
    cluster.wait_until_quiet().await;
    assert!(cluster.get_opt::<Website>("blog").await.is_none());
    assert_eq!(holder(&cluster, "blog.example.com").await, None);
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn second_website_with_a_host_waits_for_it() {
    let (cluster, running) = at_work().await;
    cluster.create(&site("first", "www.example.com", 1)).await;
    cluster.wait_until_quiet().await;
    cluster.create(&site("second", "www.example.com", 1)).await;
    cluster.wait_until(Quiet::new().ignore_retries()).await;
    let second = cluster.expect("second", is_blocked).await;
    let message = condition(&second, "Ready").map(|ready| ready.message.as_str());
    let told = "the host www.example.com belongs to the Website default/first: choose another one";
    assert_eq!(message, Some(told));
    assert!(cluster.get_opt::<Deployment>("second").await.is_none());
    assert_eq!(reasons(&cluster, "second").await, ["Blocked"]);

    cluster.delete::<Website>("first").await;
    cluster.eventually("second", is_ready).await;
    let host = "www.example.com";
    assert_eq!(holder(&cluster, host).await.as_deref(), Some("default/second"));
    // A Website that never had the host does not free it.
    cluster.create(&site("third", host, 1)).await;
    cluster.eventually("third", is_blocked).await;
    cluster.delete::<Website>("third").await;
    cluster.eventually_gone::<Website>("third").await;
    assert_eq!(holder(&cluster, host).await.as_deref(), Some("default/second"));
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn object_of_somebody_else_is_left_alone() {
    let (cluster, running) = at_work().await;
    let mut foreign = ConfigMap::default();
    foreign.metadata.name = Some("blog".to_owned());
    foreign.data = Some([("key".to_owned(), "theirs".to_owned())].into());
    let foreign = cluster.create(&foreign).await;
    cluster.create(&site("blog", "blog.example.com", 1)).await;
    let blog = cluster.eventually("blog", is_blocked).await;
    let message = condition(&blog, "Ready").map(|ready| ready.message.clone()).unwrap_or_default();
    assert!(message.contains("the ConfigMap \"blog\" exists already"), "{message}");
    assert_eq!(cluster.get::<ConfigMap>("blog").await, foreign);

    cluster.delete::<ConfigMap>("blog").await;
    cluster.eventually("blog", is_ready).await;
    stop(running).await;
}

/// The release before this one worked with `v1`, and its references to owners say so.
#[tokio::test(start_paused = true)]
async fn objects_of_an_earlier_release_are_taken_over() {
    let (cluster, running) = at_work().await;
    cluster.create(&site("blog", "blog.example.com", 1)).await;
    cluster.wait_until_quiet().await;
    let made: Deployment = cluster.get("blog").await;
    let mut owners = made.metadata.owner_references.clone().expect("owners");
    "example.com/v1".clone_into(&mut owners[0].api_version);
    let old = json!({"metadata": {"ownerReferences": owners}});
    cluster.patch::<Deployment>("blog", old).await;
    cluster.patch::<Website>("blog", json!({"spec": {"replicas": 2}})).await;
    cluster.wait_until_quiet().await;
    let blog = cluster.expect("blog", is_ready).await;
    let still: Deployment = cluster.get("blog").await;
    assert_eq!(still.metadata.uid, made.metadata.uid);
    assert_eq!(replicas(&still), Some(2));
    assert!(is_owned_by(&still, &blog));
    stop(running).await;
}

#[tokio::test(start_paused = true)]
async fn replicas_out_of_bounds_are_refused_by_the_server() {
    let cluster = TestCluster::embedded();
    cluster.install(&definition()).await;
    let sites: Api<Website> = Api::default_namespaced(cluster.client());
    for wrong in [0, 11] {
        let wrong = site("blog", "blog.example.com", wrong);
        let refused = sites.create(&PostParams::default(), &wrong).await;
        let is_invalid =
            |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 422);
        assert!(refused.as_ref().is_err_and(is_invalid), "{refused:?}");
    }
}
