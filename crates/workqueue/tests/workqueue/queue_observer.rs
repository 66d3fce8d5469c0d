//! What an observer hears: the metrics of each phase of a key's life.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{SECOND, run_ready};
use tokio::time::advance;
use windlass_workqueue::{Add, Exponential, Load, LoadHandle, Observer, Priority, WorkQueue};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Added { depth: usize },
    Started { queued: Duration, depth: usize },
    Finished { ran: Duration },
    Retried,
}

/// Keeps everything it hears.
#[derive(Default)]
struct Recorder {
    steps: Mutex<Vec<Step>>,
    handle: Mutex<Option<LoadHandle>>,
}

impl Recorder {
    fn push(&self, step: Step) {
        self.steps.lock().unwrap().push(step);
    }

    fn load(&self) -> Option<Load> {
        self.handle.lock().unwrap().as_ref().expect("a handle must be attached").load()
    }
}

impl Observer for Recorder {
    fn added(&self, depth: usize) {
        self.push(Step::Added { depth });
    }
    fn started(&self, queued: Duration, depth: usize) {
        self.push(Step::Started { queued, depth });
    }
    fn finished(&self, ran: Duration) {
        self.push(Step::Finished { ran });
    }
    fn retried(&self) {
        self.push(Step::Retried);
    }
    fn attached(&self, handle: LoadHandle) {
        let earlier = self.handle.lock().unwrap().replace(handle);
        assert!(earlier.is_none(), "a queue must attach one handle");
    }
}

fn observed_queue() -> (WorkQueue<&'static str>, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let limiter = Exponential::new(SECOND, 100 * SECOND).unwrap();
    let builder = WorkQueue::builder().observer(recorder.clone()).limiter(limiter);
    (builder.build().unwrap(), recorder)
}

/// What was reported since the last call. Looking at the queue makes ready what is due.
fn heard(queue: &WorkQueue<&'static str>, recorder: &Recorder) -> Vec<Step> {
    let _ = queue.len();
    std::mem::take(&mut recorder.steps.lock().unwrap())
}

/// client-go: `TestMetrics` of the queue.
#[tokio::test(start_paused = true)]
async fn every_phase_of_a_key_is_told() {
    let (queue, recorder) = observed_queue();
    queue.add("a").unwrap();
    assert_eq!(heard(&queue, &recorder), [Step::Added { depth: 1 }]);

    advance(5 * SECOND).await;
    let lease = queue.try_get().unwrap();
    assert_eq!(heard(&queue, &recorder), [Step::Started { queued: 5 * SECOND, depth: 0 }]);

    advance(3 * SECOND).await;
    drop(lease);
    assert_eq!(heard(&queue, &recorder), [Step::Finished { ran: 3 * SECOND }]);
}

#[tokio::test(start_paused = true)]
async fn merged_adds_are_not_told() {
    let (queue, recorder) = observed_queue();
    for key in ["a", "b", "a", "b", "a"] {
        queue.add(key).unwrap();
    }
    queue.add_after("a", SECOND).unwrap();
    queue.add_with("b", Add::now().priority(Priority::High)).unwrap();
    assert_eq!(heard(&queue, &recorder), [Step::Added { depth: 1 }, Step::Added { depth: 2 }]);
}

#[tokio::test(start_paused = true)]
async fn a_key_readded_while_it_runs_is_told_when_it_is_added() {
    let (queue, recorder) = observed_queue();
    queue.add("a").unwrap();
    let lease = queue.try_get().unwrap();
    advance(SECOND).await;
    queue.add("a").unwrap();
    queue.add("a").unwrap();
    assert_eq!(
        heard(&queue, &recorder),
        [
            Step::Added { depth: 1 },
            Step::Started { queued: Duration::ZERO, depth: 0 },
            Step::Added { depth: 1 },
        ]
    );
    advance(SECOND).await;
    drop(lease);
    assert_eq!(heard(&queue, &recorder), [Step::Finished { ran: 2 * SECOND }]);
    drop(queue.try_get());
    assert_eq!(
        heard(&queue, &recorder),
        [Step::Started { queued: SECOND, depth: 0 }, Step::Finished { ran: Duration::ZERO },]
    );
}

/// controller-runtime: metrics of an item whose delay expired. The depth does not count waiting
/// keys, and time in the queue counts from when the key was due.
#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_told_when_it_becomes_ready() {
    let (queue, recorder) = observed_queue();
    queue.add_after("a", 10 * SECOND).unwrap();
    advance(9 * SECOND).await;
    assert_eq!(heard(&queue, &recorder), []);
    assert_eq!(queue.load().waiting, 1);
    advance(3 * SECOND).await;
    assert_eq!(heard(&queue, &recorder), [Step::Added { depth: 1 }]);
    advance(SECOND).await;
    drop(queue.try_get());
    assert_eq!(
        heard(&queue, &recorder),
        [Step::Started { queued: 3 * SECOND, depth: 0 }, Step::Finished { ran: Duration::ZERO },]
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_key_is_not_told() {
    let (queue, recorder) = observed_queue();
    queue.add_after("a", SECOND).unwrap();
    assert!(queue.cancel(&"a"));
    advance(2 * SECOND).await;
    assert_eq!(heard(&queue, &recorder), []);
}

/// client-go: `TestRateLimitingQueue` and its retries metric.
#[tokio::test(start_paused = true)]
async fn rate_limited_adds_are_told_as_retries() {
    let (queue, recorder) = observed_queue();
    queue.add_rate_limited("a").unwrap();
    queue.add_with("b", Add::rate_limited()).unwrap();
    queue.add_after("c", SECOND).unwrap();
    assert_eq!(heard(&queue, &recorder), [Step::Retried, Step::Retried]);
    queue.add("d").unwrap();
    queue.try_get().unwrap().retry().unwrap();
    assert_eq!(
        heard(&queue, &recorder)[2..],
        [Step::Retried, Step::Finished { ran: Duration::ZERO }]
    );
}

/// As in client-go: nothing is retried if nothing was added.
#[tokio::test(start_paused = true)]
async fn a_rate_limited_add_that_is_refused_is_no_retry() {
    let (queue, recorder) = observed_queue();
    queue.shut_down();
    assert!(queue.add_rate_limited("a").is_err());
    assert!(queue.add("a").is_err());
    assert_eq!(heard(&queue, &recorder), []);
}

#[tokio::test(start_paused = true)]
async fn the_depth_returns_to_zero() {
    let (queue, recorder) = observed_queue();
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    assert_eq!(run_ready(&queue).len(), 3);
    let depths: Vec<_> = heard(&queue, &recorder)
        .into_iter()
        .filter_map(|step| match step {
            Step::Added { depth } | Step::Started { depth, .. } => Some(depth),
            Step::Finished { .. } | Step::Retried => None,
        })
        .collect();
    assert_eq!(depths, [1, 2, 3, 2, 1, 0]);
}

/// Ready, waiting and running keys; how long these have taken together, and the longest of them.
fn figures(load: Load) -> (usize, usize, usize, Duration, Duration) {
    (load.ready, load.waiting, load.running, load.unfinished, load.longest_running)
}

/// client-go: `TestUnfinishedWorkMetrics` in `TestMetrics`.
#[tokio::test(start_paused = true)]
async fn the_probe_tells_of_unfinished_work() {
    let (queue, recorder) = observed_queue();
    let seen = || figures(recorder.load().unwrap());
    assert_eq!(seen(), (0, 0, 0, Duration::ZERO, Duration::ZERO));
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    queue.add_after("d", 100 * SECOND).unwrap();
    let a = queue.try_get().unwrap();
    advance(3 * SECOND).await;
    let b = queue.try_get().unwrap();
    advance(2 * SECOND).await;
    assert_eq!(seen(), (1, 1, 2, 7 * SECOND, 5 * SECOND));
    assert_eq!(queue.load(), recorder.load().unwrap());
    drop(a);
    assert_eq!(seen(), (1, 1, 1, 2 * SECOND, 2 * SECOND));
    drop(b);
    assert_eq!(seen(), (1, 1, 0, Duration::ZERO, Duration::ZERO));
}

/// Two runs of one key within one tick of the clock are two runs, and only the second is
/// unfinished.
#[tokio::test(start_paused = true)]
async fn unfinished_work_counts_every_run_once() {
    let (queue, _recorder) = observed_queue();
    queue.add("long").unwrap();
    let long = queue.try_get().unwrap();
    for _ in 0..3 {
        queue.add("short").unwrap();
        drop(queue.try_get().unwrap());
    }
    queue.add("short").unwrap();
    let short = queue.try_get().unwrap();
    advance(10 * SECOND).await;
    assert_eq!(figures(queue.load()), (0, 0, 2, 20 * SECOND, 10 * SECOND));
    drop((long, short));
}

#[tokio::test(start_paused = true)]
async fn thousands_of_short_runs_do_not_hide_a_long_one() {
    let queue = WorkQueue::<u32>::new();
    queue.add(u32::MAX).unwrap();
    let long = queue.try_get().unwrap();
    for key in 0..2_000 {
        queue.add(key).unwrap();
        advance(Duration::from_millis(1)).await;
        drop(queue.try_get().unwrap());
    }
    assert_eq!(figures(queue.load()), (0, 0, 1, 2 * SECOND, 2 * SECOND));
    drop(long);
    assert_eq!(figures(queue.load()), (0, 0, 0, Duration::ZERO, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn the_probe_does_not_keep_the_queue_alive() {
    let (queue, recorder) = observed_queue();
    let other = queue.clone();
    drop(queue);
    assert!(recorder.load().is_some());
    drop(other);
    assert_eq!(recorder.load(), None);
}

/// A metrics system that cares for some of the steps only.
#[tokio::test(start_paused = true)]
async fn an_observer_may_leave_steps_out() {
    struct Deaf;
    impl Observer for Deaf {}
    let queue = WorkQueue::<&str>::builder().observer(Arc::new(Deaf)).build().unwrap();
    queue.add("a").unwrap();
    queue.add_rate_limited("b").unwrap();
    assert_eq!(run_ready(&queue), ["a"]);
}

/// Observers run without the queue's lock.
#[tokio::test(start_paused = true)]
async fn an_observer_may_call_the_queue() {
    #[derive(Default)]
    struct Asking(Mutex<Option<LoadHandle>>);
    impl Asking {
        fn ask(&self) {
            let handle = self.0.lock().unwrap().clone();
            assert!(handle.unwrap().load().is_some());
        }
    }
    impl Observer for Asking {
        fn added(&self, _depth: usize) {
            self.ask();
        }
        fn started(&self, _queued: Duration, _depth: usize) {
            self.ask();
        }
        fn finished(&self, _ran: Duration) {
            self.ask();
        }
        fn retried(&self) {
            self.ask();
        }
        fn attached(&self, handle: LoadHandle) {
            *self.0.lock().unwrap() = Some(handle);
        }
    }
    let queue = WorkQueue::<&str>::builder().observer(Arc::<Asking>::default()).build().unwrap();
    queue.add("a").unwrap();
    queue.get().await.unwrap().retry().unwrap();
    queue.get().await.unwrap().finish();
    assert_eq!(queue.load(), Load::default());
}
