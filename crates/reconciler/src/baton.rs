//! Who takes the next key: one worker at a time, which goes on alone while that is enough.
//!
//! Most runs look at caches, find that all is well, and take a few microseconds. To spread those over cores costs more
//! than they do: the queue and the objects move between caches with them, which was a sixth of the CPU time of 50,000
//! such runs. So the worker that has the baton takes a key, and hands the baton on
//! - when its run has to wait for something, so that another worker takes the next key meanwhile;
//! - before its run, as long as runs are not brief: what computes shall use all cores.
//!
//! So a run that computes for long, after many brief ones, keeps the keys behind it waiting while it does. How many do,
//! before the others are spread, depends on how long they take: see [`Baton::judge`].

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// A run that computes for longer is worth another core.
const BRIEF: Duration = Duration::from_micros(50);

/// One that computes for longer was no interruption.
const LONG: Duration = Duration::from_millis(1);

/// With so much trust in the next run to be brief, a worker keeps the baton.
const ENOUGH: i32 = 8;

/// More trust than this is not gathered.
const MOST: i32 = 15;

/// Less than this is not left.
const LEAST: i32 = -64;

#[derive(Debug, Default)]
pub(crate) struct Baton {
    held: Mutex<()>,
    trust: AtomicI32,
}

/// The right to take the next key.
pub(crate) type Turn<'b> = MutexGuard<'b, ()>;

impl Baton {
    /// Waits for it. Whoever waits longest gets it first. Cancel safe.
    pub(crate) async fn take(&self) -> Turn<'_> {
        self.held.lock().await
    }

    /// Does `work`, and hands the baton on if another worker should go on meanwhile; else it comes back.
    pub(crate) async fn carry<'b>(
        &'b self,
        turn: Turn<'b>,
        work: impl Future<Output = ()>,
    ) -> Option<Turn<'b>> {
        let mut turn = Some(turn);
        if self.trust.load(Ordering::Relaxed) < ENOUGH {
            turn = None;
            step_back().await;
        }
        let mut work = pin!(work);
        let mut is_first = true;
        poll_fn(|cx| {
            if !std::mem::take(&mut is_first) {
                return work.as_mut().poll(cx);
            }
            let began = Instant::now();
            let polled = work.as_mut().poll(cx);
            self.judge(began.elapsed());
            if polled.is_pending() {
                turn = None;
            }
            polled
        })
        .await;
        turn
    }

    /// A run has computed for so long before it ended, or had to wait. A brief one adds a little trust. One that was
    /// not takes half of it, since it may have been interrupted. A long one takes all, and more: so many brief ones must
    /// follow before a worker goes on alone again that one in a few dozen is enough to prevent it.
    fn judge(&self, computed: Duration) {
        let trust = self.trust.load(Ordering::Relaxed);
        let trust = match computed {
            computed if computed <= BRIEF => MOST.min(trust + 1),
            computed if computed <= LONG => trust.min(trust / 2),
            _ => LEAST,
        };
        // Of what several workers change at once some is lost, which does no harm.
        self.trust.store(trust, Ordering::Relaxed);
    }
}

/// Lets whoever was woken run first. tokio has put him where only this thread finds him, and this one where all do; so
/// if this goes on computing, it does so on another thread.
async fn step_back() {
    let mut has_stepped_back = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_stepped_back, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::Arc;

    use futures::FutureExt as _;

    use super::*;

    /// One whose runs have been brief, and whose clock stands still, so that all are.
    async fn trusting() -> Baton {
        let baton = Baton::default();
        for _ in 0..ENOUGH {
            let turn = baton.take().await;
            assert!(baton.carry(turn, ready(())).await.is_none(), "not enough runs were brief");
        }
        baton
    }

    fn is_free(baton: &Baton) -> bool {
        baton.held.try_lock().is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn worker_goes_on_alone_after_brief_runs() {
        let baton = trusting().await;
        let turn = baton.take().await;
        let kept = baton.carry(turn, async { assert!(!is_free(&baton)) }).await;
        assert!(kept.is_some() && !is_free(&baton));
    }

    #[tokio::test(start_paused = true)]
    async fn run_that_waits_hands_it_on() {
        let baton = trusting().await;
        let turn = baton.take().await;
        let mut waits = Box::pin(baton.carry(turn, pending()));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(is_free(&baton));
    }

    #[tokio::test]
    async fn runs_that_compute_do_not_keep_it() {
        let baton = Baton::default();
        // In real time any run may happen to be long.
        let turn = loop {
            let turn = baton.take().await;
            if let Some(kept) = baton.carry(turn, ready(())).await {
                break kept;
            }
        };
        let compute = async {
            let began = Instant::now();
            while began.elapsed() <= LONG {}
        };
        drop(baton.carry(turn, compute).await);
        let turn = baton.take().await;
        assert!(baton.carry(turn, async { assert!(is_free(&baton)) }).await.is_none());
    }

    /// Both wait for the baton, and then each, without letting go of its thread, for the other to begin.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn runs_that_compute_overlap() {
        let baton = Arc::new(Baton::default());
        let [waiting, begun] = [(); 2].map(|()| Arc::new(AtomicI32::new(0)));
        let turn = baton.take().await;
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..2 {
            let (baton, waiting) = (Arc::clone(&baton), Arc::clone(&waiting));
            let begun = Arc::clone(&begun);
            workers.spawn(async move {
                waiting.fetch_add(1, Ordering::Relaxed);
                let turn = baton.take().await;
                let work = async {
                    begun.fetch_add(1, Ordering::Relaxed);
                    let since = Instant::now();
                    while begun.load(Ordering::Relaxed) < 2 {
                        assert!(since.elapsed() < Duration::from_mins(1), "the other never began");
                    }
                };
                drop(baton.carry(turn, work).await);
            });
        }
        while waiting.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
        drop(turn);
        workers.join_all().await;
    }

    #[tokio::test(start_paused = true)]
    async fn run_that_is_cancelled_hands_it_on() {
        let baton = trusting().await;
        let turn = baton.take().await;
        let mut waits = Box::pin(baton.carry(turn, pending()));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(waits);
        assert!(is_free(&baton));
    }
}
