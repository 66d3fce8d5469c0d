//! A cluster that was restored from a backup counts its versions from there on: what was seen can
//! be undone, and the same version of the same object can be another one.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use windlass_informer::{Event, InformerOptions, SharedInformerFactory};
use windlass_testserver::TestServer;
use windlass_testserver::apiserver::{Fault, FaultRule};

use crate::replica::{Replica, cache_of, server_has};

async fn create(api: &Api<ConfigMap>, name: &str) {
    let object = serde_json::from_value(json!({"metadata": {"name": name}})).expect("valid");
    api.create(&PostParams::default(), &object).await.expect("created");
}

async fn set(api: &Api<ConfigMap>, name: &str, value: &str) -> String {
    let patch = Patch::Merge(json!({"data": {"value": value}}));
    let patched = api.patch(name, &PatchParams::default(), &patch).await.expect("patched");
    patched.metadata.resource_version.expect("a version")
}

async fn follows_a_restored_cluster(options: InformerOptions) {
    let cluster = TestServer::embedded();
    let server = cluster.server().expect("it is embedded");
    let client = cluster.client().expect("a client");
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for name in ["same-version", "undone", "untouched"] {
        create(&api, name).await;
    }
    let factory = SharedInformerFactory::new(client);
    let informer = factory.informer_with::<ConfigMap>(|_| options).expect("an informer");
    let replica = Replica::new("handler");
    informer.add_handler(replica.clone()).expect("it has not stopped");
    factory.start();
    factory.wait_for_sync().await.expect("synced");

    let backup = server.snapshot();
    let before = set(&api, "same-version", "before").await;
    set(&api, "undone", "before").await;
    create(&api, "gone").await;
    replica.becomes(&server_has(&api, &ListParams::default()).await.expect("a list")).await;

    // A server is not restored while it answers.
    let away = FaultRule::new(Fault::Refuse).verb("watch").verb("list");
    let away = server.faults().add(away);
    server.restore(&backup);
    while server.faults().times_applied(away) == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let after = set(&api, "same-version", "after").await;
    assert_eq!(before, after, "the same version of the same object, and another content");
    server.faults().remove(away);

    let wanted = server_has(&api, &ListParams::default()).await.expect("a list");
    replica.becomes_within(&wanted, Duration::from_hours(1)).await;
    assert_eq!(cache_of(&informer), wanted);
    assert_eq!(replica.broken(), Vec::<String>::new());
    assert_eq!((replica.went_back(), replica.resyncs()), (1, 0), "of the object that was undone");
    let counts = informer.status().feeds[0].counts;
    assert_eq!((counts.restored, counts.swept), (1, 1), "{counts:?}");
    factory.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_undone_is_followed_and_a_version_can_be_another() {
    follows_a_restored_cluster(InformerOptions::new()).await;
}

#[tokio::test(start_paused = true)]
async fn a_resident_informer_does_not_keep_what_has_the_same_version() {
    follows_a_restored_cluster(InformerOptions::new().resident::<ConfigMap>()).await;
}

/// A server that lags behind is doubted as well, and turns out to be the same.
#[tokio::test(start_paused = true)]
async fn a_stale_list_changes_nothing_for_a_resident_informer() {
    let cluster = TestServer::embedded();
    let server = cluster.server().expect("it is embedded");
    let client = cluster.client().expect("a client");
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    create(&api, "a").await;
    // Streams are refused, because only other lists are stale.
    let ask = |mut request: http::Request<kube::client::Body>| {
        let uri = request.uri().to_string().replace("&resourceVersionMatch=NotOlderThan", "");
        *request.uri_mut() = uri.parse().expect("a URI");
        request
    };
    let service = tower::util::MapRequest::new(server.service(), ask);
    let factory = SharedInformerFactory::new(kube::Client::new(service, "default"));
    let informer = factory
        .informer_with::<ConfigMap>(InformerOptions::resident::<ConfigMap>)
        .expect("an informer");
    let mut events = informer.subscribe().expect("it has not stopped");
    factory.start();
    factory.wait_for_sync().await.expect("synced");
    create(&api, "b").await;
    for name in ["a", "b"] {
        assert_eq!(events.next().await.expect("an event").key().name(), name);
    }
    let stale = FaultRule::new(Fault::StaleRead { revisions: 2 }).verb("list").times(1);
    let stale = server.faults().add(stale);
    let gone = FaultRule::new(Fault::Fail { code: 410, retry_after: None }).verb("watch").times(1);
    server.faults().add(gone);
    while informer.status().feeds[0].counts.lists < 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(server.faults().times_applied(stale), 1);
    let counts = informer.status().feeds[0].counts;
    assert_eq!((counts.restored, counts.repaired, counts.swept), (0, 0, 0), "{counts:?}");
    create(&api, "c").await;
    let next = events.next().await.expect("an event");
    assert!(matches!(&next, Event::Added { object, .. } if object.key().name() == "c"), "{next:?}");
    factory.shut_down().await;
}
