//! What informers leave behind: nothing. A thousand of them are started and stopped, a hundred
//! thousand names go through one, and memory and tasks come back.
//!
//! The allocator of this binary counts the bytes that are live. Each test runs on one thread, and
//! each thread counts its own, so that tests do not see each other.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use windlass_indexer::{ByLabel, ByOwner};
use windlass_informer::source::{Answer, ListWatch, Request};
use windlass_informer::{
    Event, HandlerOptions, InformerOptions, Resource, SharedInformer, SharedInformerFactory,
};
use windlass_testserver::TestServer;

/// Counts what is live, thread by thread.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    // A thread that ends may free what it can no longer count.
    let _ = LIVE.try_with(|live| live.set(live.get() + change));
}

fn size_of(layout: Layout) -> isize {
    isize::try_from(layout.size()).expect("no allocation is larger than half of the memory")
}

#[expect(unsafe_code, reason = "there is no safe way to be an allocator; it only counts")]
// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(size_of(layout));
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-size_of(layout));
        // SAFETY: the pointer comes from `alloc` above, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn live() -> isize {
    LIVE.with(Cell::get)
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Lets all tasks go on until there are as many as that.
async fn until_tasks(wanted: usize) {
    for _ in 0..1_000 {
        if tasks() == wanted {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("there are {} tasks, and there should be {wanted}", tasks());
}

fn options() -> InformerOptions {
    InformerOptions::new().index(ByOwner).index(ByLabel::all()).seed(1)
}

/// An informer with handlers, a subscription and a reader, from a factory of its own.
async fn use_factory(client: &kube::Client) {
    let factory = SharedInformerFactory::new(client.clone());
    let informer = factory.informer_with::<ConfigMap>(|_| options()).expect("an informer");
    use_informer(&informer);
    factory.start();
    factory.wait_for_sync().await.expect("synced");
    read(&informer);
    factory.shut_down().await;
}

/// One that runs alone, in two namespaces.
async fn use_alone(client: &kube::Client) {
    let options = options().namespaces(["default", "kube-system"]);
    let informer = SharedInformer::<ConfigMap>::new(client.clone(), options).expect("an informer");
    use_informer(&informer);
    let stop = CancellationToken::new();
    let used = async {
        informer.wait_for_sync().await.expect("synced");
        read(&informer);
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(informer.run(stop.clone()), used);
    ran.expect("it ran");
}

/// One of a factory that lives on: it ends when nobody uses it any more.
async fn use_and_leave(factory: &SharedInformerFactory) {
    let informer = factory.informer_with::<ConfigMap>(|_| options()).expect("an informer");
    let handler = informer.add_handler(|_: Event<ConfigMap>| ()).expect("it has not stopped");
    factory.start();
    assert!(handler.wait_for_sync().await);
    read(&informer);
    handler.remove();
}

fn use_informer(informer: &SharedInformer<ConfigMap>) {
    let resync = HandlerOptions::new().resync(Duration::from_millis(1));
    informer.add_handler_with(resync, |_: Event<ConfigMap>| ()).expect("it has not stopped");
    let removed = informer.add_handler(|_: Event<ConfigMap>| ()).expect("it has not stopped");
    removed.remove();
    drop(informer.subscribe().expect("it has not stopped"));
}

fn read(informer: &SharedInformer<ConfigMap>) {
    let object = informer.lister().get("default/c0").expect("it decodes");
    assert!(object.is_some() && informer.lister().list().iter().count() == 5);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_informers_leave_nothing_behind() {
    let cluster = TestServer::embedded();
    let client = cluster.client().expect("a client");
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for number in 0..5 {
        let object = json!({"metadata": {"name": format!("c{number}"), "labels": {"a": "b"}}});
        let object = serde_json::from_value(object).expect("a config map");
        api.create(&PostParams::default(), &object).await.expect("created");
    }
    let factory = SharedInformerFactory::new(client.clone());
    let tasks = tasks();
    let mut at_first = 0;
    for round in 0..350 {
        use_factory(&client).await;
        use_alone(&client).await;
        use_and_leave(&factory).await;
        until_tasks(tasks).await;
        if round == 15 {
            at_first = live();
        }
    }
    let grown = live() - at_first;
    println!("{grown} bytes more after a thousand informers");
    assert!(grown < 20 * 1_000, "{grown} bytes are left of a thousand informers");
}

/// A source whose events a test sends itself; it has nothing at first.
struct Told {
    events: Mutex<Option<mpsc::Receiver<Bytes>>>,
}

impl ListWatch for Told {
    fn request<'a>(&'a self, request: &'a Request) -> Answer<'a> {
        assert!(matches!(request, Request::Watch(watch) if watch.wants_initial_events()));
        let events = self.events.lock().expect("no panic").take().expect("one watch is enough");
        let events = stream::unfold(events, |mut events| async {
            let event = events.recv().await?;
            Some((Ok(event), events))
        });
        Box::pin(async { Ok(Box::pin(events) as windlass_informer::source::Body) })
    }
}

const NO_OBJECTS: &str = r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

/// How many objects are there at the same time.
const AT_ONCE: u64 = 50;

/// Objects that nobody has seen before come, and go.
fn churn(first: u64) -> [Bytes; 2] {
    ["ADDED", "DELETED"].map(|change| {
        let mut events = String::new();
        for number in first..first + AT_ONCE {
            let version = number * 2 + u64::from(change == "DELETED");
            let namespace = number / 10;
            let version = version + 10;
            writeln!(
                events,
                r#"{{"type":"{change}","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"namespace":"namespace-{namespace}","name":"name-{number}","uid":"uid-{number}","resourceVersion":"{version}","labels":{{"hash":"{number}","key-{number}":"value"}},"ownerReferences":[{{"apiVersion":"v1","kind":"Pod","name":"p","uid":"o-{number}"}}]}},"data":{{"number":"{number}"}}}}}}"#
            )
            .expect("a text has room");
        }
        events.into()
    })
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_names_leave_nothing_behind() {
    let (send, events) = mpsc::channel(1);
    let source = Told { events: Mutex::new(Some(events)) };
    let informer = SharedInformer::<ConfigMap>::with_source(
        source,
        Resource::of::<ConfigMap>(),
        options().hot_set_bytes(10_000),
    )
    .expect("an informer");
    let (gone, mut seen_gone) = watch::channel(0_u64);
    let reader = informer.lister().clone();
    let handler = move |event: Event<ConfigMap>| {
        // Some become hot, if they are still there.
        if event.key().name().ends_with('7') {
            reader.get(event.key()).expect("it decodes");
            event.object().get().expect("it decodes");
        }
        if let Event::Deleted { .. } = event {
            gone.send_modify(|gone| *gone += 1);
        }
    };
    informer.add_handler(handler).expect("it has not stopped");
    // Somebody who never takes an event must not cost more and more.
    let idle = informer.subscribe().expect("it has not stopped");
    let stop = CancellationToken::new();
    let test = async {
        send.send(NO_OBJECTS.into()).await.expect("it listens");
        let mut at_first = 0;
        for first in (0..110_000).step_by(usize::try_from(AT_ONCE).expect("small")) {
            for chunk in churn(first) {
                send.send(chunk).await.expect("it listens");
            }
            seen_gone.wait_for(|gone| *gone == first + AT_ONCE).await.expect("it goes on");
            if first == 10_000 {
                at_first = live();
            }
        }
        let grown = live() - at_first;
        println!("{grown} bytes more after a hundred thousand names");
        assert!(informer.lister().reader().is_empty());
        assert!(idle.status().pending <= 2_000, "{:?}", idle.status());
        assert!(grown < 5 * 100_000, "{grown} bytes are left of a hundred thousand names");
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(informer.run(stop.clone()), test);
    ran.expect("it ran");
    until_tasks(0).await;
}
