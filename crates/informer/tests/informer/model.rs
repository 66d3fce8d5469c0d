//! Informers against a server that does its worst: random writes, cut watches, lost answers,
//! compactions, restores, and handlers that come late, go early or are slow.
//!
//! When it is quiet again, the cache, every index and every handler's own copy are what the server
//! has, and no handler saw a version go back, except where the cluster itself did.
//!
//! A failure prints its seed. `WINDLASS_MODEL_SEED=17` runs that one alone, and
//! `WINDLASS_MODEL_RUNS=5000` looks longer, from that one on or from the first. The clock is
//! paused, so all waits are free.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_indexer::{ByLabel, ByOwner, Head, Index, ResourceVersion, Uid};
use windlass_informer::{
    Counts, Event, HandlerOptions, InformerOptions, ReflectorConfig, Registration, SharedInformer,
    SharedInformerFactory, Subscription,
};
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule, Snapshot};

use crate::replica::{Content, Replica, cache_of, difference, server_has};

/// How many runs there are, unless the environment says otherwise.
const RUNS: u64 = 80;

/// Steps of one run.
const STEPS: usize = 60;

/// How long everything may take to be as it should, on a clock that costs nothing.
const LONG: Duration = Duration::from_hours(2);

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const TEAMS: [&str; 3] = ["red", "blue", "green"];
const NAMES: usize = 6;

/// Config maps by a value in them: an index that decodes.
#[derive(Clone, PartialEq)]
struct ByValue;

#[derive(Deserialize)]
struct Values {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl Index for ByValue {
    type View = Values;
    type Value = String;

    fn values(&self, _: &Head, view: Values) -> impl IntoIterator<Item = String> {
        view.data.into_values().collect::<Vec<_>>()
    }
}

/// What an informer of one run is like.
#[derive(Clone, Debug)]
struct Shape {
    namespaces: &'static [&'static str],
    labels: &'static str,
    is_paged: bool,
    is_resident: bool,
    merge_above: usize,
    audit: Option<Duration>,
    page_size: u32,
    /// How many changes the server remembers.
    history: usize,
    can_restore: bool,
}

/// One informer, its server, and all that happens to them.
struct Run {
    random: Rng,
    shape: Shape,
    server: ApiServer,
    client: kube::Client,
    factory: SharedInformerFactory,
    informer: SharedInformer<ConfigMap>,
    handlers: Vec<(Replica, Registration)>,
    subscriptions: Vec<(Replica, Subscription<ConfigMap>)>,
    /// Those that were removed, and what they had seen by then.
    removed: Vec<(Replica, u64)>,
    snapshot: Option<(Snapshot, u64)>,
    restores: u64,
    stale_reads: u64,
    written: u64,
}

impl Shape {
    fn draw(random: &mut Rng) -> Self {
        Self {
            namespaces: [&[] as &[&str], &[], &["a"], &["a", "b"]][random.usize(..4)],
            labels: ["", "", "team=red", "team in (red, blue)"][random.usize(..4)],
            is_paged: random.u8(..3) == 0,
            is_resident: random.u8(..4) == 0,
            merge_above: [1, 4, 1_024][random.usize(..3)],
            audit: (random.u8(..3) == 0).then(|| Duration::from_secs(random.u64(30..600))),
            page_size: random.u32(1..6),
            history: [4, 50, 10_000][random.usize(..3)],
            can_restore: random.bool(),
        }
    }

    fn options(&self, seed: u64) -> InformerOptions {
        let page_size = self.page_size;
        let audit = self.audit;
        let reflector = ReflectorConfig { page_size, audit, ..ReflectorConfig::default() };
        let everywhere = InformerOptions::new();
        let scope = if self.namespaces.is_empty() {
            everywhere
        } else {
            everywhere.namespaces(self.namespaces.iter().copied())
        };
        let options = scope
            .label_selector(self.labels)
            .merge_above(self.merge_above)
            .reflector(reflector)
            .seed(seed)
            .index(ByOwner);
        if self.is_resident {
            options.resident::<ConfigMap>().index(ByLabel::all())
        } else {
            options
        }
    }

    fn watches(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(&namespace)
    }
}

/// A client of the server, or of one that cannot stream lists.
fn client_of(server: &ApiServer, is_paged: bool) -> kube::Client {
    if !is_paged {
        return kube::Client::new(server.service(), "default");
    }
    // Without this parameter the server refuses, as those do that know neither.
    let ask = |mut request: http::Request<kube::client::Body>| {
        let uri = request.uri().to_string().replace("&resourceVersionMatch=NotOlderThan", "");
        *request.uri_mut() = uri.parse().expect("a URI");
        request
    };
    kube::Client::new(tower::util::MapRequest::new(server.service(), ask), "default")
}

impl Run {
    async fn start(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let shape = Shape::draw(&mut random);
        // Owners are made up here, so nobody may collect what they own.
        let server = ApiServer::builder()
            .seed(seed)
            .history(shape.history)
            .garbage_collection(false)
            .build();
        let client = client_of(&server, shape.is_paged);
        for namespace in NAMESPACES {
            let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
            let object = json!({"metadata": {"name": namespace}});
            let object = serde_json::from_value(object).expect("a namespace");
            api.create(&PostParams::default(), &object).await.expect("created");
        }
        let factory = SharedInformerFactory::new(client.clone());
        let informer = factory.informer_with(|_| shape.options(seed)).expect("an informer");
        let mut run = Self {
            random,
            shape,
            server,
            client,
            factory,
            informer,
            handlers: Vec::new(),
            subscriptions: Vec::new(),
            removed: Vec::new(),
            snapshot: None,
            restores: 0,
            stale_reads: 0,
            written: 0,
        };
        for _ in 0..run.random.usize(..20) {
            run.write().await;
        }
        run.add_handler("first");
        run.subscribe();
        run.factory.start();
        run
    }

    async fn step(&mut self) {
        match self.random.u8(..100) {
            0..42 => self.write().await,
            42..47 => {
                for _ in 0..self.random.usize(5..40) {
                    self.write().await;
                }
            }
            47..62 => self.pass_time().await,
            62..75 => self.add_fault(),
            75..78 => self.server.faults().clear(),
            78..81 => self.server.compact(),
            81..84 => self.add_handler("late"),
            84..86 => self.remove_handler(),
            86..87 => self.subscribe(),
            87..92 => self.take_events(),
            92..93 => {
                if !self.shape.is_resident {
                    self.informer.add_index(ByLabel::all()).expect("it reads heads only");
                    self.informer.add_index(ByValue).expect("there are bytes");
                }
            }
            93..96 => self.snapshot = Some((self.server.snapshot(), self.server.revision())),
            _ => self.restore().await,
        }
    }

    fn api(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// A change of some object. What cannot be is not: the server says no, and that is fine.
    async fn write(&mut self) {
        let namespace = NAMESPACES[self.random.usize(..NAMESPACES.len())];
        let name = format!("n{}", self.random.usize(..NAMES));
        let api = self.api(namespace);
        self.written += 1;
        let team = TEAMS[self.random.usize(..TEAMS.len())];
        let owners: Vec<Value> = (0..self.random.usize(..3)).map(owner).collect();
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"team": team}, "ownerReferences": owners},
            "data": {"value": (self.written % 7).to_string(), "number": self.written.to_string()},
        });
        let what = self.random.u8(..10);
        if what < 3 {
            let _ = api.delete(&name, &DeleteParams::default()).await;
        }
        // After a deletion it is another object of the same name.
        if !(2..6).contains(&what) {
            let object = serde_json::from_value(object.clone()).expect("a config map");
            let _ = api.create(&PostParams::default(), &object).await;
        }
        if what >= 3 {
            let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(object)).await;
        }
    }

    async fn pass_time(&mut self) {
        let most = [1, 50, 1_000, 60_000, 600_000][self.random.usize(..5)];
        tokio::time::sleep(Duration::from_millis(self.random.u64(..most))).await;
    }

    fn add_fault(&mut self) {
        let retry_after = self.random.bool().then_some(2);
        let millis = Duration::from_millis(self.random.u64(..40_000));
        let fault = match self.random.u8(..13) {
            0..4 => Fault::CutAnswer { after_bytes: self.random.usize(..6_000) },
            4 => Fault::Refuse,
            5 => Fault::LoseAnswer,
            6 => Fault::Fail { code: [500, 503, 504, 410][self.random.usize(..4)], retry_after },
            7 => Fault::Fail { code: 429, retry_after },
            8 => Fault::Delay(millis),
            9 => Fault::DuplicateEvent,
            10 => Fault::DelayEvent(millis / 20),
            11 => Fault::Hang,
            // Only a list repairs what a watch left out.
            12 if self.shape.audit.is_some() => Fault::DropEvent,
            // Two stale lists in a row are a restored cluster, as far as anybody can tell.
            _ if self.stale_reads == 0 => {
                self.stale_reads += 1;
                Fault::StaleRead { revisions: self.random.u64(1..10) }
            }
            _ => Fault::Refuse,
        };
        let times = match fault {
            Fault::StaleRead { .. } => 1,
            _ => self.random.u64(1..5),
        };
        let rule = FaultRule::new(fault).resource("configmaps").verb("watch").verb("list");
        self.server.faults().add(rule.after(self.random.u64(..2)).times(times));
    }

    fn add_handler(&mut self, name: &'static str) {
        let resync = match self.random.u8(..3) {
            0 => Duration::from_secs(self.random.u64(1..120)),
            _ => Duration::ZERO,
        };
        let replica = Replica::new(name);
        let options = HandlerOptions::new().name(name).resync(resync);
        let handler = self.informer.add_handler_with(options, replica.clone()).expect("it runs");
        self.handlers.push((replica, handler));
    }

    fn remove_handler(&mut self) {
        if self.handlers.is_empty() {
            return;
        }
        let place = self.random.usize(..self.handlers.len());
        let (replica, registration) = self.handlers.swap_remove(place);
        registration.remove();
        let events = replica.events();
        self.removed.push((replica, events));
    }

    fn subscribe(&mut self) {
        let subscription = self.informer.subscribe().expect("it runs");
        self.subscriptions.push((Replica::new("subscription"), subscription));
    }

    /// Subscriptions are slow: only now and then somebody takes a few events.
    fn take_events(&mut self) {
        let most = self.random.usize(..20);
        for (replica, subscription) in &mut self.subscriptions {
            drain(replica, subscription, most);
        }
        if self.subscriptions.len() > 3 {
            self.subscriptions.remove(0);
        }
    }

    /// Takes the server back in time, as a backup does: nobody answers, then another state does.
    async fn restore(&mut self) {
        let Some((snapshot, version)) = self.snapshot.clone() else { return };
        if !self.shape.can_restore {
            return;
        }
        self.server.faults().clear();
        let away = FaultRule::new(Fault::Refuse).verb("watch").verb("list");
        let away = self.server.faults().add(away);
        self.server.restore(&snapshot);
        self.restores += 1;
        let before: Vec<u64> = self.counts(|counts| counts.errors);
        // Twice, as the first one may be of a request that was under way.
        self.wait("failures of every feed", |run| {
            let errors = run.counts(|counts| counts.errors);
            std::iter::zip(errors, &before).all(|(now, then)| now > *then + 1)
        })
        .await;
        // Only now, as changes may have been under way.
        let must_notice = self.feeds_ahead_of(version);
        let restored = self.counts(|counts| counts.restored);
        self.server.faults().remove(away);
        let Some(lowest) = must_notice.iter().flatten().min().copied() else { return };
        // What was seen before must not be overtaken before it is seen again, or nobody can tell.
        for _ in 0..self.random.usize(..12) {
            if self.server.revision() + 3 < lowest {
                self.write().await;
            }
        }
        self.wait("every feed to notice the restore", |run| {
            let feeds = std::iter::zip(run.counts(|counts| counts.restored), &restored);
            std::iter::zip(feeds, &must_notice)
                .all(|((now, then), must)| must.is_none() || now > *then)
        })
        .await;
    }

    /// For each feed, how far it is if that is further than `version`.
    fn feeds_ahead_of(&self, version: u64) -> Vec<Option<u64>> {
        let number = |version: &ResourceVersion| version.to_string().parse::<u64>().unwrap_or(0);
        let feeds = self.informer.status().feeds;
        let position = |feed: &windlass_informer::FeedStatus| {
            let held = match &feed.namespace {
                Some(namespace) => self.informer.lister().in_namespace(namespace),
                None => self.informer.lister().list(),
            };
            let newest = held.heads().map(|head| number(head.resource_version())).max();
            feed.version.as_ref().map(number).max(newest)
        };
        feeds.iter().map(|feed| position(feed).filter(|position| *position > version)).collect()
    }

    fn counts(&self, one: impl Fn(&Counts) -> u64) -> Vec<u64> {
        self.informer.status().feeds.iter().map(|feed| one(&feed.counts)).collect()
    }

    async fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + LONG;
        while !is_so(self) {
            assert!(
                Instant::now() < deadline,
                "{what} did not come: {:#?}",
                self.informer.status()
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// What the informer is to have.
    async fn wanted(&self) -> Content {
        let api: Api<ConfigMap> = Api::all(self.client.clone());
        let params = ListParams::default().labels(self.shape.labels);
        let mut content = server_has(&api, &params).await.expect("a list");
        content.retain(|key, _| {
            let namespace = key.split('/').next().expect("a namespace");
            self.shape.watches(namespace)
        });
        content
    }

    /// No faults and no writes: everything comes to be as the server has it.
    async fn settle(&mut self) {
        self.server.faults().clear();
        let wanted = self.wanted().await;
        let deadline = Instant::now() + LONG;
        loop {
            for (replica, subscription) in &mut self.subscriptions {
                drain(replica, subscription, usize::MAX);
            }
            let Some(difference) = self.difference(&wanted) else { break };
            assert!(Instant::now() < deadline, "{difference}; {:#?}", self.informer.status());
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        self.check_indexes(&wanted);
        self.check_histories();
    }

    fn difference(&self, wanted: &Content) -> Option<String> {
        // A server that has nothing is no reason to not wait for the first list.
        let status = self.informer.status();
        if let Some(handler) = status.handlers.iter().find(|handler| !handler.synced) {
            return Some(format!("{} has not synced", handler.name));
        }
        let cache = cache_of(&self.informer);
        if cache != *wanted {
            return Some(format!("the cache differs: {}", difference(&cache, wanted)));
        }
        self.replicas().find(|replica| replica.content() != *wanted).map(|replica| {
            format!("{} differs: {}", replica.name(), difference(&replica.content(), wanted))
        })
    }

    fn replicas(&self) -> impl Iterator<Item = &Replica> {
        let handlers = self.handlers.iter().map(|(replica, _)| replica);
        handlers.chain(self.subscriptions.iter().map(|(replica, _)| replica))
    }

    fn check_indexes(&mut self, wanted: &Content) {
        let lister = self.informer.lister();
        let entries = |values_of: &dyn Fn(&Value) -> Vec<String>| {
            let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for (key, object) in wanted {
                for value in values_of(object) {
                    found.entry(value).or_default().insert(key.clone());
                }
            }
            found
        };
        let keys = |list: windlass_indexer::List<ConfigMap>| -> BTreeSet<String> {
            list.heads().map(|head| head.key().to_string()).collect()
        };
        let owners = entries(&|object| owners_of(object));
        for number in 0..3 {
            let uid = owner_uid(number);
            let found = keys(lister.by_owner(&Uid::new(&uid)).expect("an index"));
            assert_eq!(found, owners.get(&uid).cloned().unwrap_or_default(), "owned by {uid}");
        }
        self.informer.add_index(ByLabel::all()).expect("it reads heads only");
        let teams = entries(&|object| vec![text(&object["metadata"]["labels"]["team"])]);
        for team in TEAMS {
            let found = keys(lister.by_label("team", team).expect("an index"));
            assert_eq!(found, teams.get(team).cloned().unwrap_or_default(), "of {team}");
        }
        if self.shape.is_resident {
            return;
        }
        self.informer.add_index(ByValue).expect("there are bytes");
        let values = entries(&|object| {
            vec![text(&object["data"]["value"]), text(&object["data"]["number"])]
        });
        for (value, wanted) in &values {
            let found = keys(lister.by_index::<ByValue>(value).expect("an index"));
            assert_eq!(found, *wanted, "with {value}");
        }
        let status = self.informer.status().store;
        let held = |name: &str| {
            status
                .indexes
                .iter()
                .find(|index| index.name.ends_with(name))
                .map(|index| index.entries)
        };
        let count = |index: &BTreeMap<String, BTreeSet<String>>| {
            Some(index.values().map(BTreeSet::len).sum::<usize>())
        };
        assert_eq!(held("ByOwner"), count(&owners));
        assert_eq!(held("ByValue"), count(&values));
    }

    fn check_histories(&self) {
        let removed = self.removed.iter().map(|(replica, _)| replica);
        for replica in self.replicas().chain(removed) {
            assert!(replica.broken().is_empty(), "{}: {:#?}", replica.name(), replica.broken());
            let went_back = replica.went_back();
            assert!(
                went_back <= self.restores,
                "{} saw a version go back {went_back} times, and there were {} restores",
                replica.name(),
                self.restores
            );
        }
        for (replica, events) in &self.removed {
            assert_eq!(replica.events(), *events, "a handler was called after it was removed");
        }
        let status = self.informer.status();
        assert!(status.quarantined.is_empty() && status.quarantined_total == 0, "{status:#?}");
        let restored = self.counts(|counts| counts.restored);
        assert!(restored.iter().all(|restored| *restored <= self.restores), "{status:#?}");
    }

    /// It stops, and nothing of it goes on.
    async fn stop(self) {
        let Self { factory, mut subscriptions, informer, client, .. } = self;
        factory.shut_down().await;
        for (_, subscription) in &mut subscriptions {
            assert!(subscription.next().await.is_none(), "an event after the end");
        }
        assert!(informer.add_handler(|_: Event<ConfigMap>| ()).is_err());
        // The clients have a task, which ends with the last of them.
        drop((factory, subscriptions, informer, client));
        let metrics = tokio::runtime::Handle::current().metrics();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(metrics.num_alive_tasks(), 0, "tasks go on after the end");
    }
}

/// What happened in all runs, to know that they were worth it.
#[derive(Debug, Default)]
struct Tally {
    events: u64,
    resyncs: u64,
    merged: u64,
    counts: Counts,
}

impl Tally {
    fn add(&mut self, run: &Run) {
        let status = run.informer.status();
        for replica in run.replicas() {
            self.events += replica.events();
            self.resyncs += replica.resyncs();
        }
        self.merged += status.handlers.iter().map(|handler| handler.merged).sum::<u64>();
        for Counts { lists, watches, errors, gone, stale, swept, repaired, restored, .. } in
            status.feeds.iter().map(|feed| feed.counts)
        {
            let counts = &mut self.counts;
            counts.lists += lists;
            counts.watches += watches;
            counts.errors += errors;
            counts.gone += gone;
            counts.stale += stale;
            counts.swept += swept;
            counts.repaired += repaired;
            counts.restored += restored;
        }
    }

    /// Everything that can happen has happened.
    fn check(&self) {
        let Self { events, resyncs, merged, counts } = self;
        let counts = [
            *events,
            *resyncs,
            *merged,
            counts.errors,
            counts.gone,
            counts.stale,
            counts.swept,
            counts.repaired,
            counts.restored,
        ];
        assert!(counts.iter().all(|count| *count > 0), "the runs are too tame: {self:?}");
    }
}

fn drain(replica: &Replica, subscription: &mut Subscription<ConfigMap>, most: usize) {
    for _ in 0..most {
        match subscription.next().now_or_never() {
            Some(Some(event)) => replica.take(&event),
            Some(None) => panic!("a subscription ended"),
            None => return,
        }
    }
}

fn owner_uid(number: usize) -> String {
    format!("owner-{number}")
}

fn owner(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner_uid(number)})
}

fn owners_of(object: &Value) -> Vec<String> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().map(|owner| text(&owner["uid"])).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn run_with(seed: u64, tally: &mut Tally) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut run = Run::start(seed).await;
        for step in 0..STEPS {
            run.step().await;
            if step == STEPS / 2 {
                run.settle().await;
            }
        }
        run.settle().await;
        tally.add(&run);
        run.stop().await;
    });
}

fn number_in(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, and is {text:?}")))
}

/// Says which seed it was, if a run panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "replay with: WINDLASS_MODEL_SEED={} cargo test -p windlass-informer model::",
                self.0
            );
        }
    }
}

#[test]
fn everything_comes_to_be_what_the_server_has() {
    let seed = number_in("WINDLASS_MODEL_SEED");
    let runs = number_in("WINDLASS_MODEL_RUNS");
    let first = seed.unwrap_or(0);
    let seeds = first..first + runs.unwrap_or(if seed.is_some() { 1 } else { RUNS });
    let mut tally = Tally::default();
    for seed in seeds.clone() {
        let _replay = Replay(seed);
        run_with(seed, &mut tally);
    }
    println!("{tally:?}");
    if seeds.count() >= usize::try_from(RUNS).expect("a small number") {
        tally.check();
    }
}
