//! Other clusters: that of a kubeconfig, those with roles, and shared ones.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;
use windlass_testing::testserver::TestServer;
use windlass_testing::testserver::apiserver::ApiServer;
use windlass_testing::{Clock, Quiet, TestCluster, on_each_cluster};

use crate::operator::{Publisher, failure, page, pages, with_pages};

#[tokio::test]
async fn cluster_of_a_kubeconfig_is_tested_in_a_namespace_of_its_own() {
    let server = ApiServer::new();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listening = server.listen(address).await.expect("a port");
    let kubeconfig = listening.temporary_kubeconfig(None).expect("a kubeconfig");
    let cluster = with_pages(TestCluster::of_kubeconfig(kubeconfig.path()).await).await;
    assert!(cluster.namespace().starts_with("test-"), "{}", cluster.namespace());
    assert!(!cluster.is_embedded() && cluster.test_server().is_none());

    let running = cluster.run(pages(), Publisher);
    cluster.create(&page("hello", "Hi")).await;
    // The namespace of somebody else.
    let mut elsewhere = page("other", "Hi");
    elsewhere.metadata.namespace = Some("default".to_owned());
    cluster.create(&elsewhere).await;
    running.wait_until_quiet().await;
    cluster.get::<ConfigMap>("hello").await;
    assert!(cluster.get_opt::<ConfigMap>("default/other").await.is_none());
    running.stop().await;

    let all = cluster.watch_all_namespaces();
    all.run_until_quiet(pages(), Publisher).await;
    cluster.get::<ConfigMap>("default/other").await;

    let message = failure(async { cluster.run_workloads(|workloads| workloads) }).await;
    assert!(message.contains("has its own workloads"), "{message}");
    cluster.delete_namespace().await;
    cluster.eventually_gone::<Namespace>(cluster.namespace()).await;
}

#[tokio::test]
async fn kubeconfig_that_cannot_be_read_is_named() {
    let message = failure(TestCluster::of_kubeconfig("no/such/file")).await;
    assert!(message.starts_with("no/such/file cannot be used: "), "{message}");
}

#[tokio::test(start_paused = true)]
async fn server_behind_a_socket_needs_the_wall_clock() {
    let message = failure(TestCluster::real()).await;
    assert!(message.contains("the clock of this test is paused"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn controller_acts_as_an_account_with_its_rights() {
    let cluster = TestCluster::on(TestServer::embedded_with_roles(), "default");
    let cluster = with_pages(cluster).await.timeout(Duration::from_secs(30));
    let test_cluster = cluster.test_server().expect("a test server");
    let operator = test_cluster.account("default", "operator").await.expect("an account");
    let all = json!({
        "apiGroups": ["", "example.com", "events.k8s.io"],
        "resources": ["configmaps", "pages", "events"],
        "verbs": ["get", "list", "watch", "create"],
    });
    operator.grant(&[all]).await.expect("granted");
    cluster.create(&page("hello", "Hi")).await;
    // Rights in one namespace do not allow watching all of them.
    let watch = pages_of_default();
    let running = cluster.acting_as(&operator).run(watch, Publisher);
    let message = failure(running.wait_until_quiet()).await;
    assert!(message.contains("cannot patch resource"), "{message}");
    running.wait_until(Quiet::new().ignore_retries()).await;
    running.stop().await;
    assert!(cluster.get_opt::<ConfigMap>("hello").await.is_none());

    cluster.run_until_quiet(pages(), Publisher).await;
    cluster.get::<ConfigMap>("hello").await;
}

fn pages_of_default() -> windlass::reconciler::ControllerBuilder<crate::operator::Page> {
    use windlass::prelude::*;
    Controller::named(
        "page",
        Watch::<crate::operator::Page>::new().options(|o| o.namespace("default")),
    )
    .owns(Watch::<ConfigMap>::new().options(|o| o.namespace("default")))
}

on_each_cluster!(
    clock_is_paused_on_the_embedded_cluster_and_goes_on_for_the_real_one,
    start_paused = true
);
async fn clock_is_paused_on_the_embedded_cluster_and_goes_on_for_the_real_one(
    cluster: TestCluster,
) {
    let expected = if cluster.is_embedded() { Clock::Paused } else { Clock::Wall };
    assert_eq!(Clock::current(), expected);
}
