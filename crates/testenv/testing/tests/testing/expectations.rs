//! Expectations about objects, and the messages when they fail.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;
use windlass_testing::{Clock, TestCluster, on_each_cluster};

use crate::operator::{Page, Publisher, failure, page, pages, with_pages};

fn short(cluster: &TestCluster) -> TestCluster {
    cluster.timeout(Clock::current().pick(Duration::from_mins(5), Duration::from_secs(2)))
}

fn map(name: &str, text: &str) -> ConfigMap {
    let object = json!({"metadata": {"name": name}, "data": {"text": text, "other": "x"}});
    serde_json::from_value(object).expect("an object")
}

on_each_cluster!(difference_is_shown, start_paused = true);
async fn difference_is_shown(cluster: TestCluster) {
    let cluster = short(&cluster);
    cluster.create(&map("one", "is")).await;
    cluster.expect::<ConfigMap>("one", json!({"data": {"text": "is"}})).await;
    cluster.expect("one", |map: &ConfigMap| map.data.is_some()).await;

    let key = format!("ConfigMap {}/one", cluster.namespace());
    let expected = || json!({"data": {"text": "ought"}});
    let difference = format!(
        "{key} is not as expected (- expected, + got):\n  data:\n-   text: \"ought\"\n+   text: \
             \"is\"\n"
    );
    let message = failure(cluster.expect::<ConfigMap>("one", expected())).await;
    assert!(message.starts_with(&difference), "{message}");
    assert!(message.contains("in the test at crates/testenv/testing/tests/testing/"), "{message}");

    let message = failure(cluster.eventually::<ConfigMap>("one", expected())).await;
    let clock = Clock::current().pick("5 min on the paused clock", "2 s on the wall clock");
    assert!(message.starts_with(&format!("after {clock}: {difference}")), "{message}");

    let message = failure(cluster.expect("one", |map: &ConfigMap| map.data.is_none())).await;
    assert!(message.starts_with(&format!("{key} is not as expected:\n")), "{message}");
    assert!(message.contains("text: is\n") && !message.contains("managedFields"), "{message}");

    let message = failure(cluster.get::<ConfigMap>("two")).await;
    let absent = format!("there is no ConfigMap {}/two\n", cluster.namespace());
    assert!(message.starts_with(&absent), "{message}");
}

on_each_cluster!(change_is_waited_for, start_paused = true);
async fn change_is_waited_for(cluster: TestCluster) {
    let cluster = with_pages(cluster).await;
    let running = cluster.run(pages(), Publisher);
    cluster.create(&page("hello", "Hi")).await;
    let expected = json!({"data": {"index.html": "<p>Hi</p>"}});
    let made = cluster.eventually::<ConfigMap>("hello", expected).await;
    assert_eq!(made.metadata.owner_references.map(|owners| owners.len()), Some(1));
    let count = cluster
        .eventually_ok(async || match cluster.list::<Page>().await.len() {
            0 => Err("none".to_owned()),
            count => Ok(count),
        })
        .await;
    assert_eq!(count, 1);
    running.stop().await;
}

on_each_cluster!(deletion_is_waited_for, start_paused = true);
async fn deletion_is_waited_for(cluster: TestCluster) {
    let cluster = short(&cluster);
    let mut held = map("one", "is");
    held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    cluster.create(&held).await;
    cluster.delete::<ConfigMap>("one").await;
    let message = failure(cluster.eventually_gone::<ConfigMap>("one")).await;
    assert!(message.contains("/one is still there:\n"), "{message}");
    assert!(message.contains("example.com/held"), "{message}");
    cluster.patch::<ConfigMap>("one", json!({"metadata": {"finalizers": null}})).await;
    cluster.eventually_gone::<ConfigMap>("one").await;
}

on_each_cluster!(what_must_not_happen_is_shown_when_it_does, start_paused = true);
async fn what_must_not_happen_is_shown_when_it_does(cluster: TestCluster) {
    let cluster = with_pages(cluster).await;
    cluster.create(&map("one", "is")).await;
    let wrong = || json!({"data": {"text": "changed"}});
    cluster.never::<ConfigMap>("one", wrong()).await;
    cluster.never::<ConfigMap>("two", json!({})).await;

    let later = async {
        tokio::time::sleep(Clock::current().pick(300, 1).into_seconds()).await;
        cluster.patch::<ConfigMap>("one", wrong()).await;
    };
    let (message, ()) = tokio::join!(failure(cluster.never::<ConfigMap>("one", wrong())), later);
    let clock = Clock::current().pick("min on the paused clock:", "s on the wall clock:");
    let key = format!("ConfigMap {}/one became so after ", cluster.namespace());
    assert!(message.starts_with(&key) && message.contains(clock), "{message}");
    assert!(message.contains("text: changed\n"), "{message}");

    // Long enough in one case, not in the other.
    let time = Clock::current().pick(Duration::from_hours(1), Duration::from_millis(50));
    cluster.never_within::<ConfigMap>(time, "two", json!({})).await;
}

trait Seconds {
    fn into_seconds(self) -> Duration;
}

impl Seconds for u64 {
    fn into_seconds(self) -> Duration {
        Duration::from_secs(self)
    }
}

on_each_cluster!(objects_are_where_their_names_say, start_paused = true);
async fn objects_are_where_their_names_say(cluster: TestCluster) {
    let namespace = cluster.get::<Namespace>(cluster.namespace()).await;
    assert_eq!(namespace.metadata.name.as_deref(), Some(cluster.namespace()));
    let mut elsewhere = map("one", "there");
    elsewhere.metadata.generate_name = Some("one-".to_owned());
    elsewhere.metadata.name = None;
    elsewhere.metadata.namespace = Some("kube-public".to_owned());
    let made = cluster.create(&elsewhere).await;
    let name = format!("kube-public/{}", made.metadata.name.expect("a name"));
    cluster.expect::<ConfigMap>(&name, json!({"data": {"text": "there"}})).await;
    cluster.delete::<ConfigMap>(&name).await;
    assert!(cluster.get_opt::<ConfigMap>(&name).await.is_none());
    assert!(
        cluster
            .list::<ConfigMap>()
            .await
            .iter()
            .all(|map| { map.metadata.namespace.as_deref() == Some(cluster.namespace()) })
    );
}

#[tokio::test(start_paused = true)]
async fn refusal_of_the_server_is_told() {
    let cluster = TestCluster::embedded();
    let message = failure(cluster.create(&map("No Name", "is"))).await;
    assert!(message.starts_with("ConfigMap default/No Name cannot be created: "), "{message}");
    assert!(message.contains("in the test at "), "{message}");
}
