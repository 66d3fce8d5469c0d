//! The queue under test: steps applied on the paused clock, waiting gets polled by hand.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use tokio::runtime::Runtime;
use tokio::time::Instant;
use windlass_workqueue::{Add, Group, Lease, WorkQueue};

use super::reference::{Cause, GROUPS, Key, Model, PASSERS_BY, Step, TICK};

pub(crate) struct QueueTest {
    // Dropped in this order: what the queue handed out, the queue, the clock.
    gets: Vec<Get>,
    leases: Vec<Lease<Key, Cause>>,
    queue: WorkQueue<Key, Cause>,
    runtime: Runtime,
    handed_out: Vec<(Key, Vec<Cause>)>,
    given_up: Vec<Key>,
    shut_down: bool,
    /// The last of the keys that came and went.
    passed_by: Key,
    /// The last cause.
    caused: Cause,
}

/// A `get` that waits, and whether it has been woken since it was last polled.
struct Get {
    future: Pin<Box<dyn Future<Output = Taken>>>,
    woken: Arc<Flag>,
}

type Taken = Option<Lease<Key, Cause>>;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl QueueTest {
    fn start_get(&mut self) {
        let queue = self.queue.clone();
        let future = Box::pin(async move { queue.get().await });
        self.gets.push(Get { future, woken: Arc::new(Flag(AtomicBool::new(true))) });
    }

    /// Polls what has been woken until nothing is, as an executor would.
    fn serve_gets(&mut self) {
        let _context = self.runtime.enter();
        while let Some(index) =
            self.gets.iter().position(|get| get.woken.0.swap(false, Ordering::Relaxed))
        {
            let get = &mut self.gets[index];
            let waker = Waker::from(Arc::clone(&get.woken));
            if let Poll::Ready(lease) = get.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                drop(self.gets.remove(index));
                if let Some(lease) = lease {
                    self.hold(lease);
                }
            }
        }
    }

    fn hold(&mut self, lease: Lease<Key, Cause>) {
        let twice = self.leases.iter().any(|other| other.key() == lease.key());
        assert!(!twice, "{} runs twice at once", lease.key());
        self.handed_out.push((*lease.key(), lease.causes().copied().collect()));
        self.leases.push(lease);
    }

    fn done(&mut self, index: usize, panic: bool) {
        let lease = self.leases.remove(index);
        if !panic {
            drop(lease);
            return;
        }
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let _lease = lease;
            std::panic::resume_unwind(Box::new("a worker's panic"));
        }));
        assert!(panicked.is_err());
    }

    /// Compares everything that can be asked.
    fn compare(&self, model: &Model) {
        let load = self.queue.load();
        assert_eq!(load.ready, model.ready(), "ready");
        assert_eq!(load.waiting, model.waiting(), "waiting");
        assert_eq!(load.running, model.leases.len(), "running");
        let now = Instant::now();
        for key in Model::keys() {
            let due = model.due_in(key).map(|ticks| now + TICK * ticks);
            assert_eq!(self.queue.due(&key).filter(|due| *due > now), due, "due time of {key}");
            let status = self.queue.status(&key);
            let is_running = status.as_ref().is_some_and(|status| status.running.is_some());
            assert_eq!(is_running, model.leases.contains(&key), "{key} runs");
            let ahead = status.and_then(|status| status.next_run);
            let causes: Vec<_> =
                ahead.iter().flat_map(|ahead| ahead.causes.iter().copied()).collect();
            assert_eq!(causes, model.causes_ahead(key), "causes of {key}");
        }
    }

    fn apply_step(&mut self, step: &Step) {
        match *step {
            Step::Add(key) => assert_eq!(self.queue.add(key).is_err(), self.shut_down),
            Step::AddWith { key, priority, ticks } => {
                self.caused += 1;
                let add = Add::after(TICK * ticks).priority(priority).cause(self.caused);
                assert_eq!(self.queue.add_with(key, add).is_err(), self.shut_down);
            }
            Step::TryGet => {
                if let Some(lease) = self.queue.try_get() {
                    self.hold(lease);
                }
            }
            Step::StartGet => self.start_get(),
            Step::CancelGet(get) => drop(self.gets.remove(get)),
            Step::Done { lease, panic } => self.done(lease, panic),
            Step::Retry { lease, ticks } => {
                let retried = self.leases.remove(lease).retry_after(TICK * ticks);
                assert_eq!(retried.is_err(), self.shut_down);
            }
            Step::Cancel(key) => drop(self.queue.cancel(&key)),
            Step::Churn { .. } if self.shut_down => {}
            Step::Churn { at_once } => {
                self.passed_by = (self.passed_by + PASSERS_BY) % 60_000;
                let keys = 1_000 + self.passed_by..1_000 + self.passed_by + PASSERS_BY;
                let come = |key| {
                    let add = Add::after(TICK).cause(Cause::from(key));
                    self.queue.add_with(key, add).expect("the queue must be open");
                };
                if at_once {
                    keys.clone().for_each(come);
                }
                for key in keys {
                    if !at_once {
                        come(key);
                    }
                    assert!(self.queue.cancel(&key));
                }
            }
            Step::Advance(ticks) => advance(&self.runtime, TICK * ticks),
            Step::Look => {}
            Step::ShutDown => {
                self.shut_down = true;
                let given_up = self.queue.shut_down();
                self.given_up.extend(given_up.into_iter().map(|waiting| waiting.key));
            }
        }
    }
}

impl StateMachineTest for QueueTest {
    type SystemUnderTest = Self;
    type Reference = Model;

    fn init_test(model: &Model) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        // Half a tick off, so that no timer's rounding to milliseconds matters.
        let queue = runtime.block_on(async {
            let mut builder = WorkQueue::builder().aging(TICK * model.aging);
            if model.fair {
                builder = builder.fair_by(|key: &Key| Group::of(&(key % GROUPS)));
            }
            let queue = builder.build().expect("a valid queue");
            tokio::time::advance(TICK / 2).await;
            queue
        });
        Self {
            gets: Vec::new(),
            leases: Vec::new(),
            queue,
            runtime,
            handed_out: Vec::new(),
            given_up: Vec::new(),
            shut_down: false,
            passed_by: 0,
            caused: 0,
        }
    }

    fn apply(mut test: Self, model: &Model, step: Step) -> Self {
        test.handed_out.clear();
        let runtime = test.runtime.handle().clone();
        let _context = runtime.enter();
        test.apply_step(&step);
        test.serve_gets();
        assert_eq!(test.handed_out, model.handed_out, "handed out by {step:?}");
        assert_eq!(test.gets.len(), model.gets, "gets that wait after {step:?}");
        if matches!(step, Step::Look) {
            test.compare(model);
        }
        test
    }

    fn teardown(mut test: Self, model: Model) {
        // Everything that is left comes out, in the order that the model predicts.
        let runtime = test.runtime.handle().clone();
        let mut model = Model::apply(model, &Step::ShutDown);
        {
            let _context = runtime.enter();
            test.apply_step(&Step::ShutDown);
        }
        test.serve_gets();
        while !test.leases.is_empty() || model.ready() > 0 {
            let step = if test.leases.is_empty() {
                Step::TryGet
            } else {
                Step::Done { lease: 0, panic: false }
            };
            model = Model::apply(model, &step);
            test = Self::apply(test, &model, step);
        }
        assert!(test.gets.is_empty(), "every get must end");
        assert_eq!(test.given_up, model.given_up, "what was still waiting");
        let drained = futures::FutureExt::now_or_never(test.queue.shut_down_with_drain());
        assert!(drained.is_some(), "the drain must be complete");
    }
}

/// Moves the paused clock; timers that are due wake their futures.
fn advance(runtime: &Runtime, duration: Duration) {
    runtime.block_on(tokio::time::advance(duration));
}
