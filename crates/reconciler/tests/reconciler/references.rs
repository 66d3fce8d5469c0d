//! Objects that refer to others by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use windlass_indexer::KeyRef;
use windlass_informer::SharedInformerFactory;
use windlass_reconciler::{Action, Controller, RunContext, Watch};

use crate::stage::reading::{BySecret, create_secret, names, secrets};
use crate::stage::{api, cluster, does, run_on};

#[tokio::test(start_paused = true)]
async fn change_of_an_object_runs_those_that_refer_to_it() {
    let (_cluster, client) = cluster().await;
    for (name, secret) in [("first", "a"), ("second", "b"), ("third", "a")] {
        let mut map = crate::stage::config_map(name);
        map.data = Some(BTreeMap::from([("secret".to_owned(), secret.to_owned())]));
        api(&client).create(&PostParams::default(), &map).await.expect("created");
    }
    let (said, mut ran) = mpsc::channel(100);
    let reporter = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            let secret = cx.get::<Secret>("default/a")?.map(|a| a.labels().len());
            let sharing = cx.cache::<ConfigMap>()?.by_index::<BySecret>(&KeyRef::from("default/a"));
            said.send((cx.key().name().to_owned(), secret, names(&sharing?))).await?;
            Ok(Action::done())
        })
    });
    let watch = Watch::<ConfigMap>::new().options(|o| o.namespace("default"));
    let builder = Controller::named("configmap", watch).refers_to(Watch::<Secret>::new(), BySecret);
    let running = run_on(SharedInformerFactory::new(client.clone()), builder, reporter);
    for _ in 0..4 {
        ran.recv().await.expect("every object runs once");
    }
    let mut two_runs = async |labels: usize| {
        let mut names = Vec::new();
        for _ in 0..2 {
            let (name, secret, sharing) = ran.recv().await.expect("a run");
            assert_eq!((secret, sharing.len()), (Some(labels), 2));
            names.push(name);
        }
        names.sort_unstable();
        assert_eq!(names, ["first", "third"]);
        let more = tokio::time::timeout(Duration::from_hours(1), ran.recv()).await;
        assert!(more.is_err(), "{more:?}");
    };
    create_secret(&client, "a").await;
    two_runs(0).await;
    let label = Patch::Merge(json!({"metadata": {"labels": {"app": "web"}}}));
    secrets(&client).patch("a", &PatchParams::default(), &label).await.expect("patched");
    two_runs(1).await;
    running.end().await.expect("it stops");
}
