//! What becomes of keys when the queue is done with them, or is dropped with work inside.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::common::{SECOND, run_ready};
use futures::FutureExt as _;
use tokio::time::advance;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};
use windlass_workqueue::{Add, WorkQueue};

/// A key whose copies are counted.
#[derive(Clone, Debug)]
struct Counted {
    number: u32,
    _copies: Arc<()>,
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Counted {}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

/// Keeps what is logged at warning level or above.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }
    fn event(&self, event: &Event<'_>) {
        let mut line = String::new();
        event.record(&mut Fields(&mut line));
        self.0.lock().unwrap().push(line);
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// What is logged while `body` runs.
fn warnings_of(body: impl FnOnce()) -> Vec<String> {
    let warnings = Warnings::default();
    // With one subscriber only, a log statement that another test's thread reaches first would stay
    // silent here: `tracing` would ask that thread alone whether anybody listens.
    let _second = Dispatch::new(NoSubscriber::new());
    tracing::subscriber::with_default(warnings.clone(), body);
    std::mem::take(&mut warnings.0.lock().unwrap())
}

fn counted(copies: &Arc<()>) -> impl Fn(u32) -> Counted {
    move |number| Counted { number, _copies: Arc::clone(copies) }
}

#[test]
fn keys_inside_a_dropped_queue_are_dropped() {
    let copies = Arc::new(());
    let key = counted(&copies);
    let queue = WorkQueue::new();
    for number in 0..1_000 {
        queue.add(key(number)).unwrap();
        queue.add_after(key(1_000 + number), SECOND).unwrap();
        queue.add_rate_limited(key(2_000 + number)).unwrap();
    }
    queue.add(key(0)).unwrap();
    drop(queue);
    assert_eq!(Arc::strong_count(&copies), 1, "the test's own");
}

#[test]
fn a_queue_dropped_with_work_inside_logs_a_warning() {
    let warnings = warnings_of(|| {
        let queue = WorkQueue::<&str>::builder().name("pods").build().unwrap();
        for key in ["a", "b", "c"] {
            queue.add(key).unwrap();
        }
        queue.add_after("d", SECOND).unwrap();
        drop(queue.clone());
        drop(queue);
    });
    let [warning] = warnings.as_slice() else { panic!("one must be logged: {warnings:?}") };
    for part in ["pods", "ready=3", "waiting=1", "drain"] {
        assert!(warning.contains(part), "{warning:?} must say {part:?}");
    }
}

#[test]
fn the_warning_counts_a_key_once() {
    let warnings = warnings_of(|| {
        let queue = WorkQueue::new();
        for _ in 0..10 {
            queue.add("a").unwrap();
        }
    });
    assert!(warnings[0].contains("ready=1 "), "{warnings:?}");
}

#[test]
fn a_queue_that_is_empty_or_drained_is_dropped_in_silence() {
    let warnings = warnings_of(|| {
        drop(WorkQueue::<&str>::new());

        let drained = WorkQueue::new();
        drained.add("a").unwrap();
        drained.add_after("b", SECOND).unwrap();
        drained.shut_down();
        assert_eq!(run_ready(&drained), ["a"]);
    });
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn a_queue_lives_as_long_as_its_last_lease() {
    let copies = Arc::new(());
    let key = counted(&copies);
    let queue = WorkQueue::new();
    queue.add(key(1)).unwrap();
    queue.add(key(2)).unwrap();
    let lease = queue.try_get().unwrap();
    let warnings = warnings_of(|| drop(queue));
    assert!(warnings.is_empty(), "the lease may still add: {warnings:?}");
    assert_eq!(lease.key().number, 1);
    let warnings = warnings_of(|| drop(lease));
    assert!(warnings[0].contains("ready=1"), "{warnings:?}");
    assert_eq!(Arc::strong_count(&copies), 1, "the test's own");
}

/// client-go: `TestGarbageCollection`.
#[test]
fn finished_keys_are_let_go() {
    let copies = Arc::new(());
    let key = counted(&copies);
    let queue = WorkQueue::new();
    for number in 0..10_000 {
        queue.add(key(number)).unwrap();
    }
    assert_eq!(run_ready(&queue).len(), 10_000);
    assert_eq!(Arc::strong_count(&copies), 1, "the test's own");
}

/// Also while one key runs for ever.
#[test]
fn finished_keys_are_let_go_while_others_run() {
    const MOST_AT_ONCE: u32 = 1_000;
    let copies = Arc::new(());
    let key = counted(&copies);
    let held = || Arc::strong_count(&copies);
    let queue = WorkQueue::new();
    for number in 0..MOST_AT_ONCE {
        queue.add(key(number)).unwrap();
    }
    let running = queue.try_get().unwrap();
    while queue.try_get().is_some() {}
    for number in MOST_AT_ONCE..20 * MOST_AT_ONCE {
        queue.add(key(number)).unwrap();
        drop(queue.try_get().unwrap());
        assert_eq!(held(), 3, "the test's own, and the running key in the queue and in its lease");
    }
    drop(running);
    assert_eq!(held(), 1);
}

/// However a key is added again and again, and whoever looks at the queue meanwhile, while nobody
/// works.
#[tokio::test(start_paused = true)]
async fn merged_keys_are_let_go_while_nobody_works() {
    type Again = fn(&WorkQueue<Counted>, Counted);
    let ways: [Again; 4] = [
        |queue, key| queue.add(key).unwrap(),
        |queue, key| queue.add_after(key, SECOND).unwrap(),
        |queue, key| {
            queue.add(key).unwrap();
            assert_eq!(queue.load().ready, 1);
        },
        |queue, key| {
            queue.add(key.clone()).unwrap();
            assert!(!queue.cancel(&key));
        },
    ];
    // A key that runs, and a worker that finds nothing else to do.
    let copies = Arc::new(());
    let key = counted(&copies);
    let queue = WorkQueue::new();
    queue.add(key(1)).unwrap();
    let running = queue.try_get().unwrap();
    for _ in 0..10_000 {
        queue.add(key(1)).unwrap();
        assert!(queue.try_get().is_none());
        assert_eq!(Arc::strong_count(&copies), 3, "as above");
    }
    drop(running);
    run_ready(&queue);

    for (number, again) in (0..).zip(ways) {
        let copies = Arc::new(());
        let key = counted(&copies);
        let queue = WorkQueue::new();
        for _ in 0..10_000 {
            again(&queue, key(1));
            assert_eq!(Arc::strong_count(&copies), 2, "way {number}");
        }
        queue.shut_down();
        run_ready(&queue);
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_and_given_back_keys_are_let_go() {
    let copies = Arc::new(());
    let key = counted(&copies);
    let queue = WorkQueue::new();
    for number in 0..10_000 {
        queue.add_after(key(number), SECOND).unwrap();
    }
    for number in 0..5_000 {
        assert!(queue.cancel(&key(number)));
    }
    assert_eq!(queue.shut_down().len(), 5_000);
    advance(2 * SECOND).await;
    assert_eq!(Arc::strong_count(&copies), 1, "the test's own");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_is_dropped_with_its_queue() {
    let copies = Arc::new(());
    let queue = WorkQueue::new();
    queue.add_after(counted(&copies)(1), SECOND).unwrap();
    let mut workers = tokio::task::JoinSet::new();
    let worker = queue.clone();
    workers.spawn(async move { drop(worker.get().await) });
    drop(queue);
    tokio::task::yield_now().await;
    assert_eq!(Arc::strong_count(&copies), 2, "the worker keeps the queue");
    workers.abort_all();
    assert!(workers.join_next().await.unwrap().unwrap_err().is_cancelled());
    assert_eq!(Arc::strong_count(&copies), 1);
}

/// A key whose drop is the caller's code, and calls the queue, or panics once if it is told to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Willful(u32);

static WILLFUL: OnceLock<WorkQueue<Willful>> = OnceLock::new();
static PANICS_ONCE: AtomicBool = AtomicBool::new(false);

impl Drop for Willful {
    fn drop(&mut self) {
        if let Some(queue) = WILLFUL.get() {
            queue.len();
            let other = std::mem::ManuallyDrop::new(Self(u32::MAX));
            queue.failures(&other);
        }
        assert!(!PANICS_ONCE.swap(false, Ordering::Relaxed), "a key's own panic");
    }
}

/// Keys that are merged, cancelled, given back and finished are dropped when the queue is not
/// locked.
#[tokio::test(start_paused = true)]
async fn keys_may_do_anything_when_they_are_dropped() {
    let queue = WILLFUL.get_or_init(WorkQueue::new);
    for number in 0..2_000 {
        queue.add(Willful(number)).unwrap();
        queue.add(Willful(number)).unwrap();
        queue.add_after(Willful(number + 2_000), SECOND).unwrap();
    }
    for number in 2_000..3_000 {
        assert!(queue.cancel(&Willful(number)));
    }
    assert_eq!(run_ready(queue).len(), 2_000);
    for number in 0..2_000 {
        queue.add_rate_limited(Willful(number)).unwrap();
        queue.forget(&Willful(number));
        assert!(queue.cancel(&Willful(number)));
    }

    // The last key panics when it is dropped. Nothing else is harmed.
    for number in 0..1_000 {
        queue.add(Willful(number)).unwrap();
    }
    let mut leases: Vec<_> = std::iter::from_fn(|| queue.try_get()).collect();
    let last = leases.pop().unwrap();
    drop(leases);
    PANICS_ONCE.store(true, Ordering::Relaxed);
    catch_unwind(AssertUnwindSafe(|| drop(last))).unwrap_err();
    assert_eq!((queue.load().running, queue.load().waiting), (0, 1_000));
    queue.add(Willful(0)).unwrap();
    assert_eq!(run_ready(queue), [Willful(0)]);
    assert_eq!(queue.shut_down_with_drain().await.len(), 1_000);
}

/// A cause whose drop is the caller's code, and calls the queue.
#[derive(Debug)]
struct Nosy;

static NOSY: OnceLock<WorkQueue<u32, Nosy>> = OnceLock::new();

impl Drop for Nosy {
    fn drop(&mut self) {
        if let Some(queue) = NOSY.get() {
            queue.len();
        }
    }
}

/// Causes are dropped when the queue is not locked, also those that a run has too many of.
#[tokio::test(start_paused = true)]
async fn causes_may_call_the_queue_when_they_are_dropped() {
    let queue = NOSY.get_or_init(|| WorkQueue::builder().build().unwrap());
    let timer = |delay| Add::after(delay).cause(Nosy);
    queue.add_with(1, timer(3 * SECOND)).unwrap();
    queue.add_with(1, timer(2 * SECOND)).unwrap();
    queue.add(1).unwrap();
    queue.add_with(1, timer(SECOND)).unwrap();
    let lease = queue.try_get().unwrap();
    assert_eq!(lease.causes().count(), 0);
    queue.add_with(1, timer(SECOND)).unwrap();
    lease.retry_after(SECOND / 2).unwrap();
    assert_eq!(queue.get().await.unwrap().causes().count(), 0);

    for _ in 0..20 {
        queue.add_with(2, Add::now().cause(Nosy)).unwrap();
        queue.add_with(3, timer(SECOND)).unwrap();
    }
    let lease = queue.get().await.unwrap();
    assert_eq!((lease.causes().count(), lease.causes_omitted()), (8, 12));
    queue.shut_down();
    assert!(lease.retry().unwrap_err().is_shut_down());
}

/// A cause that panics when it is dropped, if it is the first one to go after the fuse was lit.
struct Explosive(Arc<AtomicBool>);

impl Drop for Explosive {
    fn drop(&mut self) {
        assert!(!self.0.swap(false, Ordering::Relaxed), "a cause that panics on drop");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_if_a_cause_panics_while_the_run_begins() {
    for take in [take_at_once, take_by_get] {
        let fuse = Arc::new(AtomicBool::new(false));
        let queue = WorkQueue::<&str, Explosive>::builder().build().unwrap();
        let cause = || Explosive(Arc::clone(&fuse));
        // As many as a run keeps, so that the cause of the timer pushes one out when it fires.
        for _ in 0..8 {
            queue.add_with("a", Add::rate_limited().cause(cause())).unwrap();
        }
        queue.add_with("a", Add::after(SECOND).cause(cause())).unwrap();
        advance(SECOND * 2000).await;
        fuse.store(true, Ordering::Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| take(&queue))).is_err(), "the cause must panic");
        assert!(!fuse.load(Ordering::Relaxed));
        assert!(queue.wait_idle().now_or_never().is_some(), "no run may be left");
    }
}

fn take_at_once(queue: &WorkQueue<&str, Explosive>) {
    drop(queue.try_get());
}

fn take_by_get(queue: &WorkQueue<&str, Explosive>) {
    drop(queue.get().now_or_never());
}
