//! Informers of the user as sources of a controller.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_indexer::List;
use windlass_informer::{InformerOptions, SharedInformer, SharedInformerFactory};
use windlass_reconciler::{Action, Controller, Watch, reconcile_fn};

use crate::stage::reading::BySecret;
use crate::stage::runs::{create_secret, key, next, reporter};
use crate::stage::{api, cluster, config_map, run_built, run_with};
use windlass_testserver::Log;

#[tokio::test(start_paused = true)]
async fn informer_of_the_user_is_a_source() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let options = InformerOptions::new().namespace("default");
    let secrets = SharedInformer::<Secret>::new(client.clone(), options).expect("an informer");
    let to_one = |_: &windlass_indexer::Cached<Secret>| [key("default/one")];
    let running = run_with(
        client.clone(),
        |builder| builder.watches(Watch::from_informer(&secrets), to_one),
        reporter(said),
    );
    let stop = CancellationToken::new();
    let test = async {
        assert_eq!(next(&mut runs).await, "default/one");
        assert!(secrets.has_synced(), "no run begins before");
        create_secret(&client, "a", json!({}), json!({})).await;
        assert_eq!(next(&mut runs).await, "default/one");
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(secrets.run(stop.clone()), test);
    ran.expect("it stops");
    running.end().await.expect("it stops");
}

/// The informer runs and is full before the controller is built.
#[tokio::test(start_paused = true)]
async fn informer_that_runs_gets_the_index_of_references() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let mut referring = config_map("referring");
    referring.data = Some(BTreeMap::from([("secret".to_owned(), "password".to_owned())]));
    api(&client).create(&PostParams::default(), &referring).await.expect("created");
    let options = InformerOptions::new().namespace("default");
    let maps = SharedInformer::<ConfigMap>::new(client.clone(), options).expect("an informer");
    let stop = CancellationToken::new();
    let test = async {
        maps.wait_for_sync().await.expect("it syncs");
        let (reports, mut runs) = mpsc::channel(100);
        let builder = Controller::named("configmap", Watch::from_informer(&maps))
            .refers_to(Watch::<Secret>::new(), BySecret);
        let running = run_built(client.clone(), builder, reporter(reports));
        for _ in 0..2 {
            next(&mut runs).await;
        }
        create_secret(&client, "other", json!({}), json!({})).await;
        create_secret(&client, "password", json!({}), json!({})).await;
        let ran = tokio::time::timeout(Duration::from_hours(1), runs.recv()).await;
        let (ran, _, causes) = ran.expect("a run").expect("a run");
        assert_eq!(ran, "default/referring");
        assert!(causes[0].to_string().starts_with("Secret default/password added"), "{causes:?}");
        running.end().await.expect("it stops");
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(maps.run(stop.clone()), test);
    ran.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn informer_that_runs_gets_the_index_of_owners() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let one = api(&client).get("one").await.expect("it is there");
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "one", "controller": true,
        "uid": one.uid(),
    });
    create_secret(&client, "child", json!({"ownerReferences": [owner]}), json!({})).await;
    create_secret(&client, "other", json!({}), json!({})).await;
    let options = InformerOptions::new().namespace("default");
    let secrets = SharedInformer::<Secret>::new(client.clone(), options).expect("an informer");
    let stop = CancellationToken::new();
    let test = async {
        secrets.wait_for_sync().await.expect("it syncs");
        let (reports, mut runs) = mpsc::channel(100);
        let lists = reconcile_fn(async move |_: Arc<ConfigMap>, cx| {
            let names =
                |owned: List<Secret>| owned.heads().map(|head| head.name().to_owned()).collect();
            let children: Result<Vec<_>, _> = cx.owned::<Secret>().map(names);
            reports.send(children.map_err(|error| error.to_string())).await?;
            Ok(Action::done())
        });
        let watch = Watch::from_informer(&secrets);
        let running = run_with(client.clone(), |builder| builder.owns(watch), lists);
        assert_eq!(runs.recv().await.expect("a run"), Ok(vec!["child".to_owned()]));
        running.end().await.expect("it stops");
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(secrets.run(stop.clone()), test);
    ran.expect("it stops");
}

/// A full cache without the bytes of objects cannot be indexed any more.
#[tokio::test(start_paused = true)]
async fn controller_is_not_built_if_the_index_cannot_be_added() {
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let options = InformerOptions::new().resident::<ConfigMap>();
    let maps = SharedInformer::<ConfigMap>::new(client.clone(), options).expect("an informer");
    let stop = CancellationToken::new();
    let test = async {
        maps.wait_for_sync().await.expect("it syncs");
        let error = Controller::named("configmap", Watch::from_informer(&maps))
            .refers_to(Watch::<Secret>::new(), BySecret)
            .build(&SharedInformerFactory::new(client), reporter(mpsc::channel(1).0))
            .expect_err("there are objects, and no bytes");
        let told = error.to_string();
        assert!(told.contains("index BySecret needs a view of the objects' bytes"), "{told}");
        assert!(told.contains("add the index before the first object"), "{told}");
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(maps.run(stop.clone()), test);
    ran.expect("it stops");
}
