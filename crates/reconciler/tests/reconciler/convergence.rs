//! What a controller is for: whatever goes wrong at whichever write, the end is the same.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::json;
use windlass_reconciler::{Action, Class, Counts, Error, Reconcile, RunContext, Watch};
use windlass_testserver::TestServer;
use windlass_testserver::apiserver::{Fault, FaultRule};

use crate::stage::{api, cluster, create, does, run_with};

/// How many writes a fault-free way takes: three secrets, two of them changed, one annotation.
const WRITES: u64 = 6;

/// Makes three secrets for its object, marks two of them, deletes what is too many, and notes that
/// it is done.
fn keeper() -> impl Reconcile<ConfigMap> {
    does(|object: Arc<ConfigMap>, cx: &RunContext| Box::pin(keep(object, cx)))
}

async fn keep(object: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
    let (live, secrets) = (cx.live::<Secret>(), cx.cache::<Secret>()?);
    for number in 0..3 {
        let name = format!("{}-{number}", object.name_any());
        let held = secrets.get(("default", name.as_str()))?;
        let held = match held {
            Some(held) => held,
            None => Arc::new(live.create(&secret(&name)).await?),
        };
        let mut wanted = Secret::clone(&held);
        if number > 0 {
            wanted.labels_mut().insert("number".to_owned(), number.to_string());
        }
        live.update(&*held, &wanted).await?;
    }
    let mut done = ConfigMap::clone(&object);
    done.annotations_mut().insert("done".to_owned(), "yes".to_owned());
    cx.live().update(&*object, &done).await?;
    Ok(Action::done())
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}}))
        .expect("an object")
}

/// Runs it with a fault, and returns what there is in the end, and what was counted on the way.
async fn with_fault(cluster: &TestServer, rule: Option<FaultRule>) -> (Vec<String>, Counts) {
    let client = cluster.client().expect("a client");
    if let Some(rule) = rule {
        cluster.server().expect("embedded").faults().add(rule);
    }
    let watched = |builder: windlass_reconciler::ControllerBuilder<ConfigMap>| {
        builder.reads(Watch::<Secret>::new().options(|informer| informer.namespace("default")))
    };
    let running = run_with(client.clone(), watched, keeper());
    let is_done = async || {
        let object = api(&client).get("one").await.ok();
        object.is_some_and(|object| object.annotations().contains_key("done"))
    };
    while !is_done().await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    running.controller.queue().wait_idle().await;
    let counts = running.controller.status().counts;
    running.end().await.expect("it stops");
    (picture(&client).await, counts)
}

async fn picture(client: &kube::Client) -> Vec<String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let secrets = secrets.list(&ListParams::default()).await.expect("a list");
    secrets.iter().map(|secret| format!("{} {:?}", secret.name_any(), secret.labels())).collect()
}

fn expected() -> Vec<String> {
    vec![
        "one-0 {}".to_owned(),
        "one-1 {\"number\": \"1\"}".to_owned(),
        "one-2 {\"number\": \"2\"}".to_owned(),
    ]
}

#[tokio::test(start_paused = true)]
async fn without_faults_it_takes_one_run_and_the_one_that_its_write_leads_to() {
    let (cluster, _client) = cluster().await;
    let (picture, counts) = with_fault(&cluster, None).await;
    assert_eq!(picture, expected());
    assert_eq!((counts.done, counts.runs()), (2, 2));
}

/// The write is made, but nobody hears of it: the next run finds it made.
#[tokio::test(start_paused = true)]
async fn lost_answer_of_any_write_ends_in_the_same() {
    for skipped in 0..WRITES {
        for verb in ["create", "patch"] {
            let (cluster, _client) = cluster().await;
            let rule = FaultRule::new(Fault::LoseAnswer).verb(verb).after(skipped).times(1);
            let (picture, _) = with_fault(&cluster, Some(rule)).await;
            assert_eq!(picture, expected(), "{verb} {skipped}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failure_of_any_write_ends_in_the_same_and_is_counted_by_its_class() {
    for (code, class) in [(409, Class::Conflict), (429, Class::Throttled), (503, Class::Transient)]
    {
        for skipped in 0..3 {
            for verb in ["create", "patch"] {
                let (cluster, _client) = cluster().await;
                let fault = Fault::Fail { code, retry_after: None };
                let rule = FaultRule::new(fault).verb(verb).after(skipped).times(1);
                let (picture, counts) = with_fault(&cluster, Some(rule)).await;
                assert_eq!(picture, expected(), "{verb} {skipped} {code}");
                assert_eq!(counts.failed_with(class), 1, "{verb} {skipped} {code}: {counts:?}");
            }
        }
    }
}

/// The controller is gone after each of its writes, and another one takes over with empty caches.
#[tokio::test(start_paused = true)]
async fn end_after_any_write_ends_in_the_same() {
    for survived in 0..WRITES {
        let (cluster, client) = cluster().await;
        let rule = |verb: &str| FaultRule::new(Fault::Hang).verb(verb);
        let server = cluster.server().expect("embedded");
        // From then on nothing comes through, as for a process that is about to die.
        let (creates, patches) = (survived.min(3), survived.saturating_sub(3));
        let ids = [
            server.faults().add(rule("create").resource("secrets").after(creates)),
            server.faults().add(rule("patch").after(patches)),
        ];
        let reads = |builder: windlass_reconciler::ControllerBuilder<ConfigMap>| {
            builder.reads(Watch::<Secret>::new())
        };
        let dying = run_with(client.clone(), reads, keeper());
        while server.faults().times_applied(ids[0]) + server.faults().times_applied(ids[1]) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(dying);
        for id in ids {
            server.faults().remove(id);
        }
        let (picture, _) = with_fault(&cluster, None).await;
        assert_eq!(picture, expected(), "after {survived}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_forgotten_only_by_a_result_that_is_none() {
    let (_cluster, client) = cluster().await;
    create(&client, "two").await;
    let (said, mut attempts) = tokio::sync::mpsc::channel(100);
    let failing = does(move |_: Arc<ConfigMap>, cx: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            said.send((cx.key().name().to_owned(), cx.attempt())).await?;
            match (cx.key().name(), cx.attempt()) {
                // Changed in between, it runs at once, but is not a first try.
                ("one", ..=3) => Err(Error::msg("not yet")),
                _ => Ok(Action::done()),
            }
        })
    });
    let running = run_with(client.clone(), |builder| builder, failing);
    let mut told = Vec::new();
    while told.len() < 5 {
        told.push(attempts.recv().await.expect("a run"));
        if told.last() == Some(&("one".to_owned(), 2)) {
            let patch = kube::api::Patch::Merge(json!({"data": {"touched": "yes"}}));
            api(&client)
                .patch("one", &kube::api::PatchParams::default(), &patch)
                .await
                .expect("patched");
        }
    }
    let ones: Vec<u32> =
        told.iter().filter(|(name, _)| name == "one").map(|(_, attempt)| *attempt).collect();
    assert!(ones.is_sorted() && ones.last() > Some(&2), "{told:?}");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn stopping_is_no_timeout_and_lets_a_run_finish() {
    let (_cluster, client) = cluster().await;
    let (said, mut begun) = tokio::sync::mpsc::channel(1);
    let slow = does(move |_: Arc<ConfigMap>, _: &RunContext| {
        let said = said.clone();
        Box::pin(async move {
            said.send(()).await?;
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok(Action::done())
        })
    });
    let running = run_with(client, |builder| builder.timeout(Duration::from_secs(30)), slow);
    begun.recv().await.expect("it began");
    let controller = Arc::clone(&running.controller);
    running.end().await.expect("it stops");
    let counts = controller.status().counts;
    assert_eq!((counts.done, counts.timed_out, counts.runs()), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn controllers_of_a_process_share_their_informers() {
    let (cluster, client) = cluster().await;
    let factory = windlass_informer::SharedInformerFactory::new(client);
    let watched = || Watch::<ConfigMap>::new();
    let nothing =
        || does(|_: Arc<ConfigMap>, _: &RunContext| Box::pin(async { Ok(Action::done()) }));
    let build = |name: &str| {
        let builder = windlass_reconciler::Controller::named(name, watched());
        builder.owns(Watch::<Secret>::new()).build(&factory, nothing()).expect("a controller")
    };
    let (one, other) = (build("one"), build("other"));
    let stop = tokio_util::sync::CancellationToken::new();
    let both = async { tokio::join!(one.run(stop.clone()), other.run(stop.clone())) };
    let look = async {
        while one.status().counts.done + other.status().counts.done < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(factory.status().len(), 2, "one informer for each type");
        stop.cancel();
    };
    let ((ran, ran_too), ()) = tokio::join!(both, look);
    assert!(ran.is_ok() && ran_too.is_ok());
    factory.shut_down().await;
    drop(cluster);
}
