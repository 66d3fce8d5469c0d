//! The operator in a process: how it is made, started, and asked what it does.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass::manager::{Options, View};
use windlass::reconciler::Cause;
use windlass_environment::Environment;

use crate::boundary::{Boundary, Sent};
use crate::process::{Process, Time};
use crate::record::Record;
use crate::server::BEGINNING;
use crate::world::MakeOperator;

/// The namespace of a process.
pub(crate) const NAMESPACE: &str = "default";

/// What a process knows when its operator is made. It is made again after each crash.
#[derive(Clone, Debug)]
pub struct ProcessHandle {
    incarnation: u32,
    seed: u64,
}

impl ProcessHandle {
    pub(crate) fn new(incarnation: u32, seed: u64) -> Self {
        Self { incarnation, seed }
    }

    /// The options for the manager: nothing is served over HTTP, and no leader is elected, because
    /// there is one replica. To simulate the election, too, set `leader_elect`: a process that
    /// starts after a crash then waits until the Lease of the one before has expired.
    pub fn options(&self) -> Options {
        let mut options = Options::default().without_http();
        options.leader_elect = false;
        options.leader_election_namespace = Some(NAMESPACE.to_owned());
        options
    }

    /// A seed for random sources of your own: another one for each process, the same in each
    /// repetition.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How often the process was started, this time included.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }
}

/// An operator that runs.
pub(crate) struct Running {
    process: Process,
    boundary: Boundary,
    view: View,
    ended: Arc<Mutex<Option<Result<(), String>>>>,
    environment: Environment,
    started: Time,
    epoch: Instant,
}

impl Running {
    pub(crate) fn start(now: Time, handle: &ProcessHandle, make: &MakeOperator) -> Self {
        let process = Process::start(now);
        let boundary = Boundary::new(process.gate());
        let ended = Arc::new(Mutex::new(None));
        let (view, epoch, environment) = {
            let _entered = process.runtime().enter();
            let epoch = Instant::now();
            let environment = Environment::new(move || wall_clock(now, epoch), handle.seed);
            let entered = environment.enter();
            let (wire, result) = (boundary.clone(), Arc::clone(&ended));
            let manager = make(handle)
                .without_logs()
                .connect(move |stack| Ok(stack.around(wire.clone(), NAMESPACE)));
            let view = manager.view();
            process.runtime().spawn(async move {
                let running = manager.run_until(CancellationToken::new());
                let ran = AssertUnwindSafe(running).catch_unwind().await;
                let ran = match ran {
                    Ok(ran) => ran.map_err(|error| error.to_string()),
                    Err(_) => Err("it panicked".to_owned()),
                };
                *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(ran);
            });
            drop(entered);
            (view, epoch, environment)
        };
        Self { process, boundary, view, ended, environment, started: now, epoch }
    }

    /// Runs it until this time, or until it has sent something. Returns whether it has.
    pub(crate) fn run(&self, until: Time) -> bool {
        let _entered = self.environment.enter();
        self.process.run(until)
    }

    pub(crate) fn now(&self) -> Time {
        self.process.now()
    }

    pub(crate) fn take_sent(&self) -> Vec<Sent> {
        self.boundary.take()
    }

    /// How it ended by itself, if it has.
    pub(crate) fn ended(&self) -> Option<Result<(), String>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it still has to do; `None` if nothing. A key that only waits for its timer does not
    /// count: some operators look at their objects again and again.
    pub(crate) fn obstacle(&self) -> Option<String> {
        let _entered = self.process.runtime().enter();
        if let Some(obstacle) = self.view.obstacle() {
            return Some(obstacle);
        }
        self.view.controllers().iter().find_map(|controller| {
            let snapshot = controller.queue().snapshot();
            snapshot.keys.iter().find_map(|status| {
                let (name, key) = (controller.name(), &status.key);
                if status.running.is_some() {
                    return Some(format!("{name} runs {key}"));
                }
                let next = status.next_run.as_ref()?;
                let waits = next.causes.iter().all(|cause| *cause == Cause::Timer);
                match next.due {
                    None => Some(format!("{key} of {name} is ready")),
                    Some(_) if status.failures > 0 => {
                        Some(format!("{key} of {name} failed {} times", status.failures))
                    }
                    Some(_) if waits => None,
                    Some(_) => Some(format!("{key} of {name} is due soon")),
                }
            })
        })
    }

    /// Adds the runs that have ended to the story, and notes the panics among them.
    pub(crate) fn note_runs(&self, name: &str, record: &mut Record) {
        for controller in self.view.controllers() {
            let counts = controller.status().counts;
            if counts.panicked > 0 {
                let panicked = format!("a run of {} panicked", controller.name());
                record.note_violation(self.process.now(), panicked);
            }
            if !record.tells() {
                continue;
            }
            for run in controller.recent_runs(10_000).runs {
                let (key, run) = run;
                let at = run.started.saturating_duration_since(self.epoch);
                let at = self.started + u64::try_from(at.as_millis()).unwrap_or_default();
                let causes: Vec<String> = run.causes.iter().map(ToString::to_string).collect();
                let behind = if run.cache_behind { ", its caches were behind" } else { "" };
                let controller = controller.name();
                record.tell(at, || {
                    let causes = causes.join(", ");
                    let outcome = tell_outcome(&run.outcome);
                    format!("{name} runs {controller} {key} because of {causes}{behind}: {outcome}")
                });
            }
        }
    }
}

fn tell_outcome(outcome: &windlass::reconciler::Outcome) -> String {
    format!("{outcome:?}")
}

fn wall_clock(started: Time, epoch: Instant) -> Timestamp {
    let elapsed = SignedDuration::try_from(epoch.elapsed()).unwrap_or(SignedDuration::MAX);
    let started = SignedDuration::from_millis(i64::try_from(started).unwrap_or(i64::MAX));
    let beginning: Timestamp = BEGINNING.parse().expect("the beginning must be a time");
    beginning.saturating_add(started + elapsed).unwrap_or(Timestamp::MAX)
}
