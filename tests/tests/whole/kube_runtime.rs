//! kube's own runtime, the base of today's Rust operators, works on the embedded server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Resource as _, ResourceExt as _};
use kube_runtime::controller::Action;
use kube_runtime::reflector::{self, ObjectRef};
use kube_runtime::{Controller, WatchStreamExt as _, watcher};
use serde_json::json;
use windlass_apiserver::{ApiServer, Fault, FaultRule};
use windlass_testserver::TestServer;

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("size".to_owned(), "1".to_owned())])),
        ..ConfigMap::default()
    }
}

/// Waits for a condition that events cause, on the paused clock, on which even a timeout takes no
/// time.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), waiting)
        .await
        .expect("the condition must come true");
}

async fn reflects(server: ApiServer, config: watcher::Config) {
    let client = TestServer::on(server.clone()).client().expect("a client");
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &config_map(name)).await.expect("a new config map");
    }
    let (store, writer) = reflector::store();
    let stream = reflector::reflector(writer, watcher(api.clone(), config).default_backoff());
    let following = async {
        let mut stream = std::pin::pin!(stream.applied_objects());
        while stream.next().await.is_some() {}
    };
    let script = async {
        store.wait_until_ready().await.expect("the reflector must live");
        assert_eq!(store.state().len(), 3);

        let change = Patch::Merge(json!({"data": {"size": "2"}}));
        api.patch("a", &PatchParams::default(), &change).await.expect("a change");
        api.delete("b", &DeleteParams::default()).await.expect("a deletion");
        server
            .faults()
            .add(FaultRule::new(Fault::CutAnswer { after_bytes: 0 }).verb("watch").times(1));
        api.create(&PostParams::default(), &config_map("d")).await.expect("a new config map");

        let key = |name: &str| ObjectRef::<ConfigMap>::new(name).within("default");
        let size = |name: &str| {
            store.get(&key(name)).and_then(|object| object.data.clone()?.remove("size"))
        };
        until(async || {
            size("a").as_deref() == Some("2")
                && store.get(&key("b")).is_none()
                && store.get(&key("d")).is_some()
        })
        .await;
        let mut names: Vec<String> = store.state().iter().map(|object| object.name_any()).collect();
        names.sort();
        assert_eq!(names, ["a", "c", "d"]);
    };
    tokio::select! {
        () = following => panic!("the reflector must not end"),
        () = script => {}
    }
}

#[tokio::test(start_paused = true)]
async fn reflector_follows_a_list_and_its_watch() {
    reflects(ApiServer::new(), watcher::Config::default()).await;
}

#[tokio::test(start_paused = true)]
async fn reflector_follows_pages() {
    reflects(ApiServer::new(), watcher::Config::default().page_size(2)).await;
}

#[tokio::test(start_paused = true)]
async fn reflector_follows_a_streaming_list() {
    reflects(ApiServer::new(), watcher::Config::default().streaming_lists()).await;
}

/// Keeps a secret for each config map.
async fn keep_secret(object: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let secrets: Api<Secret> = Api::default_namespaced((*client).clone());
    let secret = Secret {
        metadata: ObjectMeta {
            name: object.metadata.name.clone(),
            owner_references: object.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        string_data: object.data.clone(),
        ..Secret::default()
    };
    match secrets.create(&PostParams::default(), &secret).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        other => drop(other?),
    }
    Ok(Action::await_change())
}

#[tokio::test(start_paused = true)]
async fn controller_creates_repairs_and_leaves_the_rest_to_garbage_collection() {
    let client = TestServer::embedded().client().expect("a client");
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let controller = Controller::new(config_maps.clone(), watcher::Config::default())
        .owns(secrets.clone(), watcher::Config::default())
        .run(keep_secret, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(client))
        .for_each(|_| std::future::ready(()));
    let script = async {
        config_maps.create(&PostParams::default(), &config_map("a")).await.expect("a config map");
        until(async || secrets.get_opt("a").await.expect("an answer").is_some()).await;
        let secret = secrets.get("a").await.expect("the secret");
        assert_eq!(secret.data.expect("data")["size"].0, b"1");

        secrets.delete("a", &DeleteParams::default()).await.expect("a deletion");
        until(async || secrets.get_opt("a").await.expect("an answer").is_some()).await;

        config_maps.delete("a", &DeleteParams::default()).await.expect("a deletion");
        until(async || secrets.get_opt("a").await.expect("an answer").is_none()).await;
    };
    tokio::select! {
        () = controller => panic!("the controller must not end"),
        () = script => {}
    }
}
