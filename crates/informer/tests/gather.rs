//! Events of a busy watch that gather before they are handled, on the paused clock.

mod support;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use support::{Cluster, Log, content, idle, pass};
use tokio::time::Instant;
use windlass_informer::{Event, InformerOptions};

const GATHER: Duration = Duration::from_millis(5);

fn gathering() -> InformerOptions {
    InformerOptions::new().gather(GATHER)
}

/// The times at which a handler heard of something.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<Vec<Instant>>>);

impl Times {
    fn handler(&self) -> impl Fn(Event<ConfigMap>) + Send + use<> {
        let times = self.clone();
        move |_| times.0.lock().expect("no panic").push(Instant::now())
    }

    fn take(&self) -> Vec<Instant> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

#[tokio::test(start_paused = true)]
async fn steady_events_are_handled_together_and_none_is_lost() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(gathering());
    let (log, times) = (Log::new(), Times::default());
    informer.add_handler(log.handler()).expect("it runs");
    informer.add_handler(times.handler()).expect("it runs");
    informer.synced().await.expect("it runs");
    log.take().await;
    times.take();

    let mut expected = Vec::new();
    for value in 2..102 {
        cluster.set("a", &value.to_string()).await;
        expected.push(format!("~a={}→{value}", value - 1));
        pass(Duration::from_millis(1)).await;
    }
    pass(GATHER).await;
    assert_eq!(log.take().await, expected, "in their order");
    let times = times.take();
    let together: BTreeSet<Instant> = times.iter().copied().collect();
    assert!(together.len() < times.len() / 3, "{} of {}", together.len(), times.len());
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn events_after_a_pause_are_handled_at_once() {
    let cluster = Cluster::with(&["a"]).await;
    let informer = cluster.running(gathering());
    let times = Times::default();
    informer.add_handler(times.handler()).expect("it runs");
    informer.synced().await.expect("it runs");
    for value in 0..50 {
        cluster.set("a", &value.to_string()).await;
        pass(Duration::from_millis(1)).await;
    }
    pass(Duration::from_secs(1)).await;
    times.take();
    // Also those that follow it: a server that had stalled is late with all of them.
    for value in 100..103 {
        let written = Instant::now();
        cluster.set("a", &value.to_string()).await;
        pass(Duration::from_millis(1)).await;
        let [heard] = times.take()[..] else { panic!("one event") };
        assert!(heard < written + Duration::from_millis(1), "{:?} later", heard - written);
    }
    informer.end().await;
}

#[tokio::test(start_paused = true)]
async fn informer_that_gathers_lists_without_waiting_and_stops_at_once() {
    let names: Vec<String> = (0..200).map(|number| format!("n{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let cluster = Cluster::with(&names).await;
    let began = Instant::now();
    let informer = cluster.running(gathering());
    informer.synced().await.expect("it runs");
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(content(informer.lister()).split(' ').count(), 200);
    for value in 0..20 {
        cluster.set("n000", &value.to_string()).await;
        idle().await;
    }
    let stopped = Instant::now();
    informer.end().await;
    assert!(stopped.elapsed() < GATHER, "what gathers is dropped");
}
