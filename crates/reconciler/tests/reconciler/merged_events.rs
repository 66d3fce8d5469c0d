//! Events that merge before a controller sees them. A run may have read a version in between, so an
//! object that has changed back leads to a run, whatever compares its old and new version.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use windlass_informer::Event;
use windlass_reconciler::{ControllerBuilder, Predicate, Watch};

use crate::stage::runs::{create_secret, key, next, patch_secret, reporter};
use crate::stage::{cluster, run_with};

/// How many objects are mapped at a time.
const PLACES: usize = 16;

/// Whether a Secret that changes, and changes back, leads to a run. The events wait in the backlog
/// meanwhile, because other Secrets have all places of the mapper.
async fn change_and_back_leads_to_a_run(
    predicate: Predicate<Secret>,
    change: fn(ControllerBuilder<ConfigMap>) -> ControllerBuilder<ConfigMap>,
    counts: fn(&Event<Secret>) -> bool,
) -> bool {
    let (_cluster, client) = cluster().await;
    let (said, mut runs) = mpsc::channel(100);
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let map = async move |event: Event<Secret>| {
        if event.key().name() != "one" {
            gate.acquire().await?.forget();
            return Ok(None);
        }
        Ok(counts(&event).then(|| key("default/one")))
    };
    let watch = Watch::<Secret>::new().options(|options| options.merge_above(0)).when(predicate);
    let with_mapper = |builder: ControllerBuilder<_>| change(builder).watches_changes(watch, map);
    let running = run_with(client.clone(), with_mapper, reporter(said));
    assert_eq!(next(&mut runs).await, "default/one");
    create_secret(&client, "one", json!({}), json!({})).await;
    assert_eq!(next(&mut runs).await, "default/one");
    for number in 0..PLACES {
        create_secret(&client, &format!("gate-{number}"), json!({}), json!({})).await;
    }
    while running.controller.status().mappers.mapping < PLACES {
        sleep(Duration::from_secs(1)).await;
    }
    let changed = json!({
        "metadata": {
            "labels": {"a": "1"},
            "annotations": {"a": "1"},
            "finalizers": ["example.com/a"],
        },
        "data": {"a": "YQ=="},
    });
    patch_secret(&client, "one", changed).await;
    let back = json!({"labels": null, "annotations": null, "finalizers": null});
    patch_secret(&client, "one", json!({"metadata": back, "data": null})).await;
    sleep(Duration::from_secs(1)).await;
    opened.add_permits(PLACES);
    let has_run = timeout(Duration::from_hours(1), runs.recv()).await.is_ok();
    running.end().await.expect("it stops");
    has_run
}

#[tokio::test(start_paused = true)]
async fn object_that_changes_back_before_its_mapper_sees_it_leads_to_a_run() {
    let compares = |event: &Event<Secret>| match event {
        Event::Updated { old, new, .. } => {
            old.head().annotations_hash() != new.head().annotations_hash()
        }
        _ => true,
    };
    let all = Predicate::version_changed();
    assert!(change_and_back_leads_to_a_run(all, |builder| builder, compares).await);
}

#[tokio::test(start_paused = true)]
async fn object_that_changes_back_before_a_predicate_sees_it_leads_to_a_run() {
    let own = Predicate::new(|event: &Event<Secret>| match event {
        Event::Updated { old, new, .. } => {
            !old.head().labels().iter().eq(new.head().labels().iter())
        }
        _ => true,
    });
    for (name, predicate) in [
        ("labels", Predicate::labels_changed()),
        ("annotations", Predicate::annotations_changed()),
        ("finalizers", Predicate::finalizers_changed()),
        ("labels or finalizers", Predicate::labels_changed().or(Predicate::finalizers_changed())),
        ("own", own),
    ] {
        let has_run = change_and_back_leads_to_a_run(predicate, |builder| builder, |_| true).await;
        assert!(has_run, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn object_that_changes_back_before_the_predicate_of_all_sources_sees_it_leads_to_a_run() {
    let compares = |builder: ControllerBuilder<ConfigMap>| {
        builder.when(|event| match (event.old, event.new) {
            (Some(old), Some(new)) => !old.labels().iter().eq(new.labels().iter()),
            _ => true,
        })
    };
    let all = Predicate::version_changed();
    assert!(change_and_back_leads_to_a_run(all, compares, |_| true).await);
}
