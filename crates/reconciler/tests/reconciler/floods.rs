//! What a controller keeps of very many events, writes, causes and runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use windlass_informer::Event;
use windlass_reconciler::{
    Action, EVENTS_PER_RUN, RUNS_PER_KEY, Recorder, RunContext, WRITES_PER_RUN, Watch,
};
use windlass_testserver::Log;

use crate::stage::runs::{create_secret, key, next, patch_secret, reporter};
use crate::stage::{cluster, create, does, run_with};

#[tokio::test(start_paused = true)]
async fn flood_of_runs_and_their_events_is_bounded_and_counted() {
    const RUNS: u32 = 50;
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    let (recorder, events) = Recorder::in_memory();
    create_secret(&client, "note", json!({}), json!({})).await;
    let left = Arc::new(AtomicU32::new(RUNS));
    let busy = does(move |object: Arc<ConfigMap>, cx: &RunContext| {
        let left = Arc::clone(&left);
        Box::pin(async move {
            let notes: Api<Secret> = Api::namespaced(cx.client().clone(), "default");
            for number in 0..=WRITES_PER_RUN {
                let run = left.load(Ordering::Relaxed).to_string();
                let labels = json!({"run": run, "number": number.to_string()});
                let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
                notes.patch("note", &PatchParams::default(), &patch).await?;
            }
            for number in 0..20 {
                cx.event(&*object).normal(&format!("Reason{number}"), "all is well");
            }
            let is_last = left.fetch_sub(1, Ordering::Relaxed) == 1;
            let again = Action::requeue_after(Duration::from_secs(1));
            Ok(if is_last { Action::done() } else { again })
        })
    });
    let running = run_with(client, |builder| builder.recorder(recorder), busy);
    let one = key("default/one");
    while running.controller.status().counts.done == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let runs = running.controller.runs(&one);
    assert_eq!((runs.len(), running.controller.run_count(&one)), (RUNS_PER_KEY, RUNS.into()));
    for run in &runs {
        assert_eq!(run.events.len(), EVENTS_PER_RUN);
        assert_eq!(run.events[0].reason(), "Reason0");
        assert_eq!((run.writes.len(), run.writes_omitted), (WRITES_PER_RUN, 1));
    }
    // All of them were recorded.
    assert_eq!(events.all().len(), 20 * usize::try_from(RUNS).expect("few"));
    running.end().await.expect("it stops");
}

/// The subscription merges what it does not deliver one by one, and the mapper gets the newest.
#[tokio::test(start_paused = true)]
async fn flood_of_events_for_a_busy_mapper_merges_and_none_is_lost() {
    const OBJECTS: usize = 40;
    const ROUNDS: usize = 34;
    let _log = Log::start();
    let (_cluster, client) = cluster().await;
    for number in 0..OBJECTS {
        create(&client, &format!("secret-{number}")).await;
    }
    let (said, mut runs) = mpsc::channel(10_000);
    let places = Arc::new(Semaphore::new(0));
    let (gate, mapped) = (Arc::clone(&places), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&mapped);
    let map = async move |event: Event<Secret>| {
        gate.acquire().await?.forget();
        counted.fetch_add(1, Ordering::Relaxed);
        let is_newest = event.object().head().labels().get("round") == Some("33");
        Ok(is_newest.then(|| event.key().clone()))
    };
    let running = run_with(
        client.clone(),
        |builder| builder.watches_changes(Watch::<Secret>::new(), map),
        reporter(said),
    );
    for _ in 0..=OBJECTS {
        next(&mut runs).await;
    }
    for number in 0..OBJECTS {
        create_secret(&client, &format!("secret-{number}"), json!({}), json!({})).await;
    }
    for round in 0..ROUNDS {
        let patch = json!({"metadata": {"labels": {"round": round.to_string()}}});
        for number in 0..OBJECTS {
            patch_secret(&client, &format!("secret-{number}"), patch.clone()).await;
        }
    }
    let informers = running.controller.informers();
    let secrets = informers.iter().find(|it| it.resource.kind() == "Secret").expect("an informer");
    let [pending] = &secrets.handlers[..] else { panic!("{:?}", secrets.handlers) };
    assert!(pending.pending <= 1_024 + 2 * OBJECTS && pending.merged > 100, "{pending:?}");
    assert_eq!(running.controller.status().mappers.mapping, 16);
    places.add_permits(100_000);
    let mut left: BTreeSet<_> =
        (0..OBJECTS).map(|number| format!("default/secret-{number}")).collect();
    while !left.is_empty() {
        left.remove(&next(&mut runs).await);
    }
    // Those that were pending, and fewer: they merged once more while their key was mapped.
    assert!(mapped.load(Ordering::Relaxed) < 1_300, "{mapped:?}");
    running.end().await.expect("it stops");
}
