//! Shared informers on a cluster: handlers, listers, late and removed handlers, factories.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use windlass_informer::{Event, SharedInformerFactory};
use windlass_testserver::{TestServer, on_each_server};

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"value": value}}))
        .expect("a config map")
}

on_each_server!(informer_follows_the_server);
async fn informer_follows_the_server(cluster: TestServer) {
    let namespace = cluster.namespace("follow").await.expect("a namespace");
    let client = cluster.client().expect("a client");
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    api.create(&PostParams::default(), &config_map("early", "1")).await.expect("created");

    let factory = SharedInformerFactory::new(client);
    let informer = factory
        .informer_with::<ConfigMap>(|options| options.namespace(&namespace))
        .expect("an informer");
    let mut events = informer.subscribe().expect("a subscription");
    factory.start();
    factory.wait_for_sync().await.unwrap_or_else(|error| panic!("{error}"));
    let key = format!("{namespace}/early");
    let early = informer.lister().get(&*key).expect("it decodes").expect("it is there");
    assert_eq!(early.data.as_ref().expect("data")["value"], "1");

    api.create(&PostParams::default(), &config_map("late", "1")).await.expect("created");
    let patch = Patch::Merge(json!({"data": {"value": "2"}}));
    api.patch("late", &PatchParams::default(), &patch).await.expect("patched");
    api.delete("late", &DeleteParams::default()).await.expect("deleted");

    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(Event::Deleted { .. })) {
        seen.push(events.next().await.expect("an event"));
    }
    let seen: Vec<_> = seen
        .iter()
        .filter(|event| event.key().name() != "kube-root-ca.crt")
        .map(|event| match event {
            Event::Added { object, initial } => {
                format!("added {} {initial}", object.key().name())
            }
            Event::Updated { new, .. } => format!("updated {}", new.key().name()),
            Event::Deleted { object, state } => {
                format!("deleted {} {state:?}", object.key().name())
            }
        })
        .collect();
    assert_eq!(
        seen,
        ["added early true", "added late false", "updated late", "deleted late Final"]
    );
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_away_when_nothing_happens() {
    let cluster = TestServer::embedded();
    let factory = SharedInformerFactory::new(cluster.client().expect("a client"));
    let informer = factory.informer::<ConfigMap>().expect("an informer");
    factory.start();
    informer.wait_for_sync().await.expect("synced");
    tokio::time::sleep(Duration::from_hours(1)).await;
    let counts = informer.status().feeds[0].counts;
    assert_eq!((counts.lists, counts.errors), (1, 0), "{counts:?}");
    factory.shut_down().await;
}
