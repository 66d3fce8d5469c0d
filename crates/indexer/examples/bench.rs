//! Prints how long the store's operations take, next to a `DashMap` of the same objects. It asserts
//! nothing, because the numbers depend on the machine.
//!
//! ```sh
//! cargo run --release -p windlass-indexer --example bench
//! ```

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use dashmap::DashMap;
use k8s_openapi::api::core::v1::Pod;
use windlass_indexer::{ByLabel, HeadParser, Lister, ObjectKey, Selector, Store};

/// The number of pods of a large cluster.
const PODS: usize = 50_000;

/// Keys that are read again and again.
const HOT: usize = 1_000;

fn main() {
    let pods: Vec<String> = (0..PODS).map(pod).collect();
    println!("{PODS} pods of {} bytes", pods[0].len());
    heads(&pods);
    let mut store = fill(&pods);
    reads(&store, &pods);
    lists(&store);
    updates(&mut store, &pods);
    memory(&store);
}

/// Prints the nanoseconds of each of `count` rounds. It takes the best of five runs.
fn measure(what: &str, count: usize, mut run: impl FnMut()) {
    compare(count, &mut [(what, &mut run)]);
}

/// Does the same for several operations, with their ratios to the first. They take turns, so that a
/// disturbance affects all of them.
fn compare(count: usize, runs: &mut [(&str, &mut dyn FnMut())]) {
    let turns = if runs.len() > 1 { 15 } else { 5 };
    let mut best = vec![f64::MAX; runs.len()];
    for _ in 0..turns {
        for ((_, run), best) in runs.iter_mut().zip(&mut best) {
            *best = best.min(time(run, count));
        }
    }
    for ((what, _), each) in runs.iter().zip(&best) {
        let ratio = if runs.len() > 1 {
            format!("  × {:.2} is the first", best[0] / each)
        } else {
            String::new()
        };
        println!("{what:<58} {each:>10.0} ns{ratio}");
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn time(run: &mut dyn FnMut(), count: usize) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64 / count as f64
}

fn heads(pods: &[String]) {
    let parser = HeadParser::default();
    measure("head of a pod", 1_000, || {
        for pod in &pods[..1_000] {
            black_box(parser.parse(pod.as_bytes()).expect("valid"));
        }
    });
    // A list of a built-in kind omits the type, so the parser skips over the whole object.
    let bare: Vec<_> = pods[..1_000].iter().map(|pod| pod.replacen(TYPE, "", 1)).collect();
    measure("head of a pod without its type", 1_000, || {
        for pod in &bare {
            black_box(parser.parse(pod.as_bytes()).expect("valid"));
        }
    });
    measure("decoding a pod", 100, || {
        for pod in &pods[..100] {
            black_box(serde_json::from_str::<Pod>(pod).expect("valid"));
        }
    });
}

fn fill(pods: &[String]) -> Store {
    let mut filled = None;
    measure("put into a growing store, no index", pods.len(), || {
        let mut store = Store::new();
        for pod in pods {
            store.put_bytes(pod.as_bytes()).expect("valid");
        }
        filled = Some(store);
    });
    let mut store = filled.expect("measured at least once");
    store.add_index(ByLabel::keys(["app"])).expect("the first");
    store
}

/// Keys that the store did not make, like those of a work queue.
fn keys(count: usize) -> Vec<ObjectKey> {
    shuffled(count).map(key).collect()
}

/// Visits pods in an order that caches cannot use: the step is prime to the number of pods.
fn shuffled(count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(|number| number * 7_919 % PODS)
}

fn reads(store: &Store, pods: &[String]) {
    let lister = store.reader().lister::<Pod>().expect("compact");
    let map: DashMap<ObjectKey, Arc<Pod>> = DashMap::new();
    let hot = keys(HOT);
    // The map has as many entries as the store. Those that are not read share one pod.
    let unread = Arc::new(Pod::default());
    for number in 0..PODS {
        map.insert(key(number), Arc::clone(&unread));
    }
    for number in shuffled(HOT) {
        let pod: Pod = serde_json::from_str(&pods[number]).expect("valid");
        map.insert(key(number), Arc::new(pod));
    }
    let rounds = 200;
    let fast: DashMap<_, _, foldhash::fast::RandomState> = map.clone().into_iter().collect();
    let many = || hot.iter().cycle().take(rounds * HOT);
    compare(
        rounds * HOT,
        &mut [
            ("lister.get of a hot pod, 1,000 keys", &mut || {
                many().for_each(|key| drop(black_box(lister.get(key).expect("it decodes"))));
            }),
            ("DashMap get and Arc clone, 1,000 keys", &mut || {
                many().for_each(|key| drop(black_box(map.get(key).map(|pod| Arc::clone(&pod)))));
            }),
            ("the same with our hasher", &mut || {
                many().for_each(|key| drop(black_box(fast.get(key).map(|pod| Arc::clone(&pod)))));
            }),
        ],
    );
    all_hot(store, pods);
    let cold = Store::builder().hot_set_bytes(0).build();
    cold_reads(cold, &pods[..HOT]);
}

/// Reads all objects, so that most reads miss the processor's caches. `Slim` keeps the decoded
/// objects small.
fn all_hot(store: &Store, pods: &[String]) {
    #[derive(Clone, serde::Deserialize)]
    struct Slim {}

    let map: DashMap<ObjectKey, Arc<Slim>> = DashMap::new();
    let layout = windlass_indexer::Layout::resident::<Slim>();
    let mut resident = Store::builder().layout(layout).build();
    let mut compact = Store::builder().hot_set_bytes(usize::MAX).build();
    for (object, pod) in store.reader().snapshot().all().iter().zip(pods) {
        map.insert(object.head().key().clone(), Arc::new(Slim {}));
        resident.put_bytes(pod.as_bytes()).expect("valid");
        compact.put_bytes(pod.as_bytes()).expect("valid");
    }
    let keys = keys(PODS);
    let [compact, resident] =
        [compact, resident].map(|store| store.reader().lister::<Slim>().expect("its type"));
    let read = |lister: &Lister<Slim>| {
        for key in &keys {
            black_box(lister.get(key).expect("it decodes"));
        }
    };
    compare(
        PODS,
        &mut [
            ("lister.get of a hot object, all keys, compact", &mut || read(&compact)),
            ("lister.get, all keys, resident", &mut || read(&resident)),
            ("DashMap get and Arc clone, all keys", &mut || {
                for key in &keys {
                    black_box(map.get(key).map(|pod| Arc::clone(&pod)));
                }
            }),
        ],
    );
}

fn cold_reads(mut store: Store, pods: &[String]) {
    for pod in pods {
        store.put_bytes(pod.as_bytes()).expect("valid");
    }
    let lister = store.reader().lister::<Pod>().expect("compact");
    measure("lister.get of a cold pod", pods.len(), || {
        for pod in &lister.list() {
            black_box(lister.get(pod.key()).expect("it decodes"));
        }
    });
}

fn lists(store: &Store) {
    let lister = store.reader().lister::<Pod>().expect("compact");
    measure("taking a list of all, without iterating", 1, || {
        black_box(lister.list());
    });
    measure("iterating over all, for each handle", PODS, || {
        black_box(lister.list().iter().count());
    });
    measure("iterating over all, for each head", PODS, || {
        black_box(lister.list().heads().count());
    });
    let selector: Selector = "tier in (a, b)".parse().expect("valid");
    measure("selecting by a label without an index, for each object", PODS, || {
        black_box(lister.select(&selector).heads().count());
    });
    for (what, value) in [("100", "app-7"), ("10", "few-3")] {
        measure(&format!("reading {what} of 50,000 by index, in all"), 1, || {
            black_box(lister.by_label("app", value).expect("indexed").iter().count());
        });
    }
}

fn updates(store: &mut Store, pods: &[String]) {
    measure("update, one index, nobody lists", pods.len(), || {
        for pod in pods {
            store.put_bytes(pod.as_bytes()).expect("valid");
        }
    });
    let reader = store.reader();
    let mut held = reader.snapshot();
    measure("update, one index, somebody lists before each", 10_000, || {
        for pod in pods.iter().cycle().step_by(37).take(10_000) {
            store.put_bytes(pod.as_bytes()).expect("valid");
            held = reader.snapshot();
        }
    });
    drop(held);
}

fn memory(store: &Store) {
    let status = store.reader().status();
    let each = |bytes: usize| bytes / status.objects;
    println!("bytes of an object: {} held", each(status.object_bytes));
    println!("                    {} for map, order and index", each(status.structure_bytes));
    println!("interned: {} bytes in all", status.interned_bytes);
}

fn key(number: usize) -> ObjectKey {
    ObjectKey::namespaced(&format!("team-{:03}", number % 50), &name(number))
}

fn name(number: usize) -> String {
    format!("web-{number:05}-6d4b75cb6d-{:05x}", number * 31)
}

const TYPE: &str = r#""kind":"Pod","apiVersion":"v1","#;

/// A pod of some 4 KB, as the server sends it, without managedFields.
fn pod(number: usize) -> String {
    let name = name(number);
    let (namespace, tier) = (format!("team-{:03}", number % 50), ["a", "b", "c"][number % 3]);
    // Ten pods of a few apps, a hundred of each of the others.
    let app =
        if number < 100 { format!("few-{}", number / 10) } else { format!("app-{}", number / 100) };
    let environment: Vec<_> = (0..12)
        .map(|n| format!(r#"{{"name":"SETTING_{n}","value":"some value of setting number {n}"}}"#))
        .collect();
    let environment = environment.join(",");
    let container = |name: &str| {
        let probe = r#"{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},
            "timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}"#;
        let resources = r#"{"limits":{"cpu":"500m","memory":"256Mi"},
            "requests":{"cpu":"100m","memory":"128Mi"}}"#;
        format!(
            r#"{{"name":"{name}","image":"registry.example.com/team/{name}:v1.2.3",
            "ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}}],
            "env":[{environment}],"resources":{resources},"livenessProbe":{probe},
            "terminationMessagePath":"/dev/termination-log",
            "terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}"#
        )
    };
    let (main, sidecar) = (container("main"), container("sidecar"));
    let metadata = format!(
        r#"{{"name":"{name}","generateName":"web-6d4b75cb6d-","namespace":"{namespace}",
        "uid":"3f0e4e4c-9df3-4a19-8fc2-{number:012x}","resourceVersion":"{}",
        "creationTimestamp":"2026-01-02T03:04:05Z",
        "labels":{{"app":"{app}","app.kubernetes.io/managed-by":"windlass",
            "pod-template-hash":"6d4b75cb6d","tier":"{tier}"}},
        "annotations":{{"example.com/checksum":"0123456789abcdef0123456789abcdef",
            "prometheus.io/scrape":"true"}},
        "ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-6d4b75cb6d",
            "uid":"9f0e4e4c-9df3-4a19-8fc2-{number:012x}","controller":true,
            "blockOwnerDeletion":true}}]}}"#,
        1_000_000 + number,
    );
    let spec = format!(
        r#"{{"containers":[{main},{sidecar}],"restartPolicy":"Always",
        "terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst",
        "serviceAccountName":"default","nodeName":"node-{}",
        "schedulerName":"default-scheduler","tolerations":[{{
            "key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute",
            "tolerationSeconds":300}}],
        "priority":0,"enableServiceLinks":true}}"#,
        number % 500,
    );
    let condition = |kind: &str, time: &str| {
        format!(
            r#"{{"type":"{kind}","status":"True","lastProbeTime":null,
            "lastTransitionTime":"{time}"}}"#
        )
    };
    let ready = condition("Ready", "2026-01-02T03:04:15Z");
    let scheduled = condition("PodScheduled", "2026-01-02T03:04:05Z");
    let status = format!(
        r#"{{"phase":"Running","conditions":[{ready},{scheduled}],"hostIP":"10.0.0.1",
        "podIP":"10.1.0.1","podIPs":[{{"ip":"10.1.0.1"}}],
        "startTime":"2026-01-02T03:04:05Z","qosClass":"Burstable"}}"#
    );
    let pod = format!(r#"{{{TYPE}"metadata":{metadata},"spec":{spec},"status":{status}}}"#);
    // The server sends no white space between tokens.
    pod.lines().map(str::trim_start).collect()
}
