//! What a scrape shows of informers. Names that client-go's reflectors have are client-go's.
#![cfg(feature = "prometheus")]

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_informer::source::{Answer, Body, ListWatch, Request};
use windlass_informer::{
    Event, HandlerOptions, InformerMetrics, InformerOptions, Resource, SharedInformer,
    SharedInformerFactory,
};
use windlass_testserver::TestServer;
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule};

const SECOND: Duration = Duration::from_secs(1);

/// A cluster whose informers are shown.
struct Shown {
    cluster: TestServer,
    registry: Registry,
    factory: SharedInformerFactory,
    api: Api<ConfigMap>,
}

impl Shown {
    fn new() -> Self {
        Self::with(|options| options)
    }

    fn with(change: impl FnOnce(InformerOptions) -> InformerOptions) -> Self {
        let cluster = TestServer::on(ApiServer::builder().seed(5).build());
        let mut registry = Registry::default();
        let metrics = InformerMetrics::register(&mut registry);
        let client = cluster.client().expect("a client");
        let options = change(InformerOptions::new().seed(5).observer(metrics.observer()));
        let factory = SharedInformerFactory::builder(client.clone()).defaults(options).build();
        Self { cluster, registry, factory, api: Api::default_namespaced(client) }
    }

    fn server(&self) -> &ApiServer {
        self.cluster.server().expect("an embedded server")
    }

    async fn create(&self, name: &str) {
        let object = config_map(name);
        self.api.create(&PostParams::default(), &object).await.expect("created");
    }

    async fn wait_for_sync(&self) {
        self.factory.start();
        self.factory.wait_for_sync().await.unwrap_or_else(|error| panic!("{error}"));
    }

    fn scrape(&self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("a string takes everything");
        text
    }

    /// What a scrape says of `metric` for config maps, with more `labels`.
    #[track_caller]
    fn value_of(&self, metric: &str, labels: &str) -> String {
        let scrape = self.scrape();
        let series = format!("{metric}{{resource=\"configmaps.v1\"{labels}}} ");
        let mut values = scrape.lines().filter_map(|line| line.strip_prefix(&series));
        let value = values.next().unwrap_or_else(|| panic!("no {series} in:\n{scrape}"));
        assert_eq!(values.next(), None, "{series} twice in:\n{scrape}");
        value.to_owned()
    }

    #[track_caller]
    fn value(&self, metric: &str) -> String {
        self.value_of(metric, "")
    }

    /// Of the events of a type.
    #[track_caller]
    fn events(&self, kind: &str) -> String {
        self.value_of("windlass_informer_events_total", &format!(",type=\"{kind}\""))
    }

    #[track_caller]
    fn failures(&self, reason: &str) -> String {
        self.value_of("windlass_informer_failures_total", &format!(",reason=\"{reason}\""))
    }
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("a config map")
}

/// Waits for a change that `is_there` sees. On the paused clock no time passes while anything can
/// happen.
async fn until(what: &str, mut is_there: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if is_there() {
            return;
        }
        tokio::time::sleep(SECOND).await;
    }
    panic!("it never came: {what}");
}

#[tokio::test(start_paused = true)]
async fn list_and_changes_are_counted() {
    let shown = Shown::new();
    shown.create("early").await;
    let informer = shown.factory.informer::<ConfigMap>().expect("an informer");
    assert_eq!(shown.value("windlass_informer_synced"), "0");
    shown.wait_for_sync().await;
    assert_eq!(shown.value("windlass_informer_synced"), "1");
    assert_eq!(shown.value("reflector_lists_total"), "1");
    assert_eq!(shown.value("reflector_list_duration_seconds_count"), "1");
    assert_eq!(shown.value("reflector_items_per_list_sum"), "1.0");
    assert_eq!(shown.value("windlass_informer_list_size_bytes_count"), "1");
    assert_eq!(shown.value("windlass_informer_objects"), "1");
    assert_eq!(shown.value("reflector_watches_total"), "1");
    assert_eq!(shown.value("windlass_informer_relists_total"), "0");

    let mut events = informer.subscribe().expect("a subscription");
    shown.create("late").await;
    let patch = Patch::Merge(json!({"data": {"value": "2"}}));
    shown.api.patch("late", &PatchParams::default(), &patch).await.expect("patched");
    shown.api.delete("late", &DeleteParams::default()).await.expect("deleted");
    while !matches!(events.next().await, Some(Event::Deleted { .. })) {}
    assert_eq!(
        ["added", "modified", "deleted"].map(|kind| shown.events(kind)),
        ["1", "1", "1"].map(str::to_owned)
    );
    let version = shown.server().revision().to_string();
    assert_eq!(shown.value("reflector_last_resource_version"), version);
}

#[tokio::test(start_paused = true)]
async fn age_of_the_last_event_grows_while_nothing_happens() {
    let shown = Shown::new();
    let informer = shown.factory.informer::<ConfigMap>().expect("an informer");
    shown.wait_for_sync().await;
    let series = "windlass_informer_last_event_age_seconds{";
    assert!(!shown.scrape().contains(series), "nothing has happened yet");
    let mut events = informer.subscribe().expect("a subscription");
    shown.create("one").await;
    events.next().await.expect("an event");
    tokio::time::advance(7 * SECOND).await;
    assert_eq!(shown.value("windlass_informer_last_event_age_seconds"), "7.0");
}

#[tokio::test(start_paused = true)]
async fn failures_have_their_reason_and_relists_are_counted() {
    let shown = Shown::new();
    let _informer = shown.factory.informer::<ConfigMap>().expect("an informer");
    shown.create("kept").await;
    shown.create("gone").await;
    shown.wait_for_sync().await;

    // Every watch ends and cannot come back, history is forgotten, and an object goes meanwhile.
    let faults = shown.server().faults();
    let refuse = |code| FaultRule::new(Fault::Fail { code, retry_after: None }).verb("watch");
    faults.add(refuse(429).times(1));
    faults.add(refuse(401).after(1).times(1));
    faults.add(refuse(500).after(2).times(1));
    shown.server().restore(&shown.server().snapshot());
    shown.api.delete("gone", &DeleteParams::default()).await.expect("deleted");
    shown.server().compact();
    until("the relist", || shown.value("windlass_informer_swept_total") == "1").await;

    for (reason, times) in
        [("gone", "1"), ("throttled", "1"), ("unauthorized", "1"), ("silent", "0")]
    {
        assert_eq!(shown.failures(reason), times, "{reason}:\n{}", shown.scrape());
    }
    assert_eq!(shown.value("windlass_informer_relists_total"), "1");
    assert_eq!(shown.value("reflector_lists_total"), "2");
    assert_eq!(shown.value("windlass_informer_objects"), "1");
}

#[tokio::test(start_paused = true)]
async fn watch_that_was_refused_is_no_watch() {
    let shown = Shown::new();
    let _informer = shown.factory.informer::<ConfigMap>().expect("an informer");
    shown.wait_for_sync().await;
    // The end of a watch that has just begun would count as a failure, too.
    tokio::time::advance(2 * SECOND).await;
    let refuse = Fault::Fail { code: 503, retry_after: None };
    shown.server().faults().add(FaultRule::new(refuse).verb("watch").times(3));
    shown.server().restore(&shown.server().snapshot());
    until("a second watch", || shown.value("reflector_watches_total") == "2").await;
    assert_eq!(shown.failures("other"), "3");
    assert_eq!(shown.value("reflector_watch_duration_seconds_count"), "1");
}

#[tokio::test(start_paused = true)]
async fn restored_cluster_is_counted() {
    let shown = Shown::new();
    let _informer = shown.factory.informer::<ConfigMap>().expect("an informer");
    let backup = shown.server().snapshot();
    for number in 0..20 {
        shown.create(&format!("late-{number}")).await;
    }
    shown.wait_for_sync().await;
    assert_eq!(shown.value("windlass_informer_objects"), "20");
    shown.server().restore(&backup);
    until("the backup", || shown.value("windlass_informer_objects") == "0").await;
    assert_eq!(shown.value("windlass_informer_restored_total"), "1");
}

/// A source with one body.
struct Script(&'static str);

impl ListWatch for Script {
    fn request<'a>(&'a self, _: &'a Request) -> Answer<'a> {
        let text = futures::stream::iter([Ok(self.0.into())]);
        let body: Body = Box::pin(text.chain(futures::stream::pending()));
        Box::pin(async { Ok(body) })
    }
}

#[tokio::test(start_paused = true)]
async fn objects_that_cannot_be_taken_are_counted() {
    // One without a name, one that is fine, the end of the list, and then an older version.
    const BODY: &str = r#"
{"type":"ADDED","object":{"metadata":{"namespace":"default","resourceVersion":"4"}}}
{"type":"ADDED","object":{"metadata":{"name":"fine","namespace":"default","resourceVersion":"5"}}}
{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6","annotations":{"k8s.io/initial-events-end":"true"}}}}
{"type":"MODIFIED","object":{"metadata":{"name":"fine","namespace":"default","resourceVersion":"3"}}}
"#;
    let mut shown = Shown::new();
    let metrics = InformerMetrics::register(&mut shown.registry);
    let options = InformerOptions::new().observer(metrics.observer());
    let resource = Resource::of::<ConfigMap>();
    let informer = SharedInformer::<ConfigMap>::with_source(Script(BODY), resource, options);
    let informer = informer.expect("an informer");
    let stop = CancellationToken::new();
    let look = async {
        informer.wait_for_sync().await.expect("synced");
        until("all of it", || shown.value("windlass_informer_stale_total") == "1").await;
        assert_eq!(shown.value("windlass_informer_quarantined_total"), "1");
        assert_eq!(shown.value("windlass_informer_quarantined_objects"), "1");
        assert_eq!(shown.value("windlass_informer_objects"), "1");
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(informer.run(stop.clone()), look);
    ran.expect("it runs once");
}

#[tokio::test(start_paused = true)]
async fn what_is_held_is_read_at_the_scrape() {
    /// As which no config map decodes.
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "it never comes to be")]
    struct Wrong {
        spec: u64,
    }
    let shown = Shown::new();
    shown.create("one").await;
    let informer = shown.factory.informer::<ConfigMap>().expect("an informer");
    let wrong = informer.read_as::<Wrong>().expect("any type");
    shown.wait_for_sync().await;
    let value = |metric: &str, label: &str| {
        shown.value_of(&format!("windlass_informer_{metric}"), &format!(",{label}"))
    };
    assert_eq!(value("hot_objects", "type=\"ConfigMap\""), "0");
    informer.lister().get("default/one").expect("it decodes").expect("it is there");
    informer.lister().get("default/one").expect("it decodes").expect("it is there");
    assert!(wrong.lister().get("default/one").is_err());
    assert_eq!(value("hot_objects", "type=\"ConfigMap\""), "1");
    assert_ne!(value("hot_bytes", "type=\"ConfigMap\""), "0");
    assert_eq!(value("hot_hits_total", "type=\"ConfigMap\""), "1");
    assert_eq!(value("hot_misses_total", "type=\"ConfigMap\""), "1");
    assert_eq!(value("undecodable_objects", "type=\"ConfigMap\""), "0");
    assert_eq!(value("undecodable_objects", "type=\"Wrong\""), "1");
    for part in ["objects", "structure", "interned"] {
        assert_ne!(value("store_bytes", &format!("part=\"{part}\"")), "0", "{part}");
    }
    assert_eq!(shown.value("windlass_informer_quarantined_objects"), "0");
}

#[tokio::test(start_paused = true)]
async fn handlers_are_shown_by_name() {
    let shown = Shown::with(|options| options.merge_above(1));
    let informer = shown.factory.informer::<ConfigMap>().expect("an informer");
    let named = |name: &str| HandlerOptions::new().name(name);
    let panics = |event: Event<ConfigMap>| assert_ne!(event.key().name(), "bad");
    informer.add_handler_with(named("careless"), panics).expect("it runs");
    let idle = informer.subscribe_with(named("idle")).expect("it runs");
    shown.wait_for_sync().await;
    shown.create("bad").await;
    for value in 0..3 {
        let patch = Patch::Merge(json!({"data": {"value": value.to_string()}}));
        shown.api.patch("bad", &PatchParams::default(), &patch).await.expect("patched");
    }
    let value = |metric: &str, handler: &str| {
        let label = format!(",handler=\"{handler}\"");
        shown.value_of(&format!("windlass_informer_{metric}"), &label)
    };
    until("all events", || value("delivered_total", "careless") == "4").await;
    assert_eq!(value("panics_total", "careless"), "4");
    assert_eq!(value("pending_events", "careless"), "0");
    assert_eq!(value("pending_events", "idle"), "1");
    assert_eq!(value("merged_total", "idle"), "3");
    assert_eq!(value("delivered_total", "idle"), "0");
    drop(idle);
    assert!(!shown.scrape().contains("handler=\"idle\""), "{}", shown.scrape());
}

#[tokio::test(start_paused = true)]
async fn informers_of_one_resource_are_added_up() {
    let shown = Shown::new();
    let all = shown.factory.informer::<ConfigMap>().expect("an informer");
    let system = shown.factory.informer_with::<ConfigMap>(|o| o.namespace("kube-system"));
    let system = system.expect("an informer");
    shown.create("one").await;
    shown.factory.start();
    let (synced_all, synced_system) = tokio::join!(all.wait_for_sync(), system.wait_for_sync());
    synced_all.and(synced_system).expect("synced");
    assert_eq!(shown.value("windlass_informer_synced"), "1");
    assert_eq!(shown.value("reflector_lists_total"), "2");
    assert_eq!(shown.value("windlass_informer_objects"), "1");
}

#[tokio::test(start_paused = true)]
async fn resource_is_shown_from_its_first_informer_to_the_end_of_its_last() {
    let shown = Shown::new();
    assert_eq!(shown.scrape(), "# EOF\n");
    let gone = shown.factory.informer::<ConfigMap>().expect("an informer");
    let stays = shown.factory.informer::<Secret>().expect("an informer");
    shown.wait_for_sync().await;
    assert_eq!(shown.value("reflector_lists_total"), "1");
    assert!(shown.scrape().contains("reflector_lists_total{resource=\"secrets.v1\"} 1\n"));

    drop(gone);
    until("its end", || !shown.scrape().contains("configmaps")).await;
    assert!(shown.scrape().contains("secrets.v1"));
    // It may come back, and starts at zero.
    let again = shown.factory.informer::<ConfigMap>().expect("an informer");
    assert_eq!(shown.value("reflector_lists_total"), "0");

    shown.wait_for_sync().await;
    shown.factory.shut_down().await;
    drop((again, stays));
    assert_eq!(shown.scrape(), "# EOF\n");
}

#[tokio::test(start_paused = true)]
async fn informer_without_a_factory_is_shown_as_well() {
    let shown = Shown::new();
    let mut registry = Registry::default();
    let metrics = InformerMetrics::register(registry.sub_registry_with_prefix("acme"));
    let options = InformerOptions::new().observer(metrics.observer());
    let client = shown.cluster.client().expect("a client");
    let informer = SharedInformer::<ConfigMap>::new(client, options).expect("an informer");
    let mut scrape = String::new();
    text::encode(&mut scrape, &registry).expect("a string takes everything");
    let line = "acme_windlass_informer_synced{resource=\"configmaps.v1\"} 0\n";
    assert!(scrape.contains(line), "{scrape}");
    drop(informer);
}
