//! Code of the user's that panics.

use super::*;

/// Fails the first time, then asks for another run in a second.
fn fails_then_repeats() -> impl Reconcile<ConfigMap> {
    does(|_, cx: &RunContext| {
        let is_first = cx.attempt() == 1 && !cx.causes().contains(&Cause::Timer);
        Box::pin(async move {
            if is_first {
                return Err(Error::msg("not yet"));
            }
            Ok(Action::requeue_after(Duration::from_secs(1)))
        })
    })
}

fn panics_on_timers(_: &ObjectKey, cause: &Cause) -> Priority {
    assert_ne!(*cause, Cause::Timer, "no idea how urgent a timer is");
    Priority::High
}

/// worker.rs `settle` called the policy unguarded: its panic ended the controller, and aborted the
/// runs of other workers wherever they were.
#[tokio::test(start_paused = true)]
async fn priority_policy_that_panics_on_a_timer_keeps_the_timer() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let running = run_with(client, |b| b.priority(panics_on_timers), fails_then_repeats());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let runs = running.controller.runs(&key("default/one"));
    running.end().await.expect("it stops");
    assert_eq!(runs.last().expect("it ran").causes, [Cause::Timer]);
    let line = log.lines_with("the priority policy panicked").pop().expect("a line");
    assert!(line.contains("default/one") && line.contains("timer"), "{line}");
}

/// Panics, always.
struct Panics;

impl RateLimiter<ObjectKey> for Panics {
    fn next_delay(&mut self, _: &ObjectKey, _: u32, _: Instant) -> Duration {
        panic!("no idea how long")
    }
}

/// The limiter was called unguarded in the queue, and so its panic ended the controller, too.
#[tokio::test(start_paused = true)]
async fn limiter_that_panics_keeps_the_retry() {
    let log = Log::start();
    let (_cluster, client) = cluster().await;
    let running = run_with(client, |b| b.limiter(Panics), fails_then_repeats());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let runs = running.controller.runs(&key("default/one"));
    running.end().await.expect("it stops");
    assert_eq!(runs.last().expect("it ran").outcome, Outcome::RequeueAfter(Duration::from_secs(1)));
    let lines = log.lines_with("the limiter of the work queue panicked");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("configmap"), "{lines:?}");
}
