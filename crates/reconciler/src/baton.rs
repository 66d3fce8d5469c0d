//! Who takes the next key: one worker at a time, which goes on alone while that is enough.
//!
//! Most runs look at caches, find that all is well, and take a few microseconds. To spread those over cores costs more
//! than they do: the queue and the objects move between caches with them, which was a sixth of the CPU time of 50,000
//! such runs. So the worker that has the baton takes a key, and hands the baton on
//! - when its run has to wait for something, so that another worker takes the next key meanwhile;
//! - before its run, if runs are not brief and there is a line of keys, or if some are long: what computes shall use all cores.
//!
//! So a run that computes for long, after many that did not, keeps the keys behind it waiting while it does. What is brief, a line,
//! and long, is in [`Trust`].

mod trust;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::sync::{Mutex, MutexGuard};

use trust::Trust;

#[derive(Debug)]
pub(crate) struct Baton {
    held: Mutex<()>,
    /// None where there is nobody to hand it on to.
    trust: Option<Trust>,
}

/// The right to take the next key.
pub(crate) type Turn<'b> = MutexGuard<'b, ()>;

impl Baton {
    /// For so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self { held: Mutex::default(), trust: (workers > 1).then(Trust::default) }
    }

    /// Waits for it. Whoever waits longest gets it first. Cancel safe.
    pub(crate) async fn take(&self) -> Turn<'_> {
        self.held.lock().await
    }

    /// Does `work`, and hands the baton on if another worker should go on meanwhile; else it comes back. `line` tells how many
    /// keys are ready.
    // The work is not moved here: it is large, and each move of it would cost more than all else that is done here.
    pub(crate) async fn carry<'b>(
        &'b self,
        turn: Turn<'b>,
        line: impl FnOnce() -> usize,
        mut work: Pin<&mut impl Future<Output = ()>>,
    ) -> Option<Turn<'b>> {
        let Some(trust) = &self.trust else {
            work.await;
            return Some(turn);
        };
        let mut turn = Some(turn);
        if !trust.is_alone_enough(line) {
            turn = None;
            step_back().await;
        }
        let mut is_first = true;
        poll_fn(|cx| {
            if !std::mem::take(&mut is_first) {
                return work.as_mut().poll(cx);
            }
            let polled = trust.judge(|| work.as_mut().poll(cx));
            if polled.is_pending() {
                turn = None;
            }
            polled
        })
        .await;
        turn
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
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::time::Instant;

    use super::*;

    /// More keys than a worker works off alone, unless their runs are brief.
    const LONG_LINE: usize = 1_000;

    impl Baton {
        /// Does `work` while many other keys wait.
        async fn carry_before_others<'b>(
            &'b self,
            turn: Turn<'b>,
            work: impl Future<Output = ()>,
        ) -> Option<Turn<'b>> {
            self.carry(turn, || LONG_LINE, pin!(work)).await
        }

        fn is_free(&self) -> bool {
            self.held.try_lock().is_ok()
        }
    }

    /// One whose runs have been brief, and whose clock stands still, so that all are.
    async fn trusting() -> Baton {
        let baton = Baton::new(2);
        for _ in 0..100 {
            drop(baton.carry_before_others(baton.take().await, ready(())).await);
        }
        baton
    }

    #[tokio::test(start_paused = true)]
    async fn worker_goes_on_alone_after_brief_runs() {
        let baton = trusting().await;
        let turn = baton.take().await;
        let kept = baton.carry_before_others(turn, async { assert!(!baton.is_free()) }).await;
        assert!(kept.is_some() && !baton.is_free());
    }

    #[tokio::test(start_paused = true)]
    async fn worker_goes_on_alone_while_nobody_waits() {
        let baton = Baton::new(2);
        let turn = baton.take().await;
        let first = pin!(async { assert!(baton.is_free(), "it may be long") });
        assert!(baton.carry(turn, || 0, first).await.is_none());
        let turn = baton.take().await;
        let work = pin!(async { assert!(!baton.is_free()) });
        assert!(baton.carry(turn, || 0, work).await.is_some());
        let turn = baton.take().await;
        let work = pin!(async { assert!(baton.is_free()) });
        assert!(baton.carry(turn, || LONG_LINE, work).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn run_that_waits_hands_it_on() {
        let baton = trusting().await;
        let turn = baton.take().await;
        let mut waits = Box::pin(baton.carry_before_others(turn, pending()));
        assert!(waits.as_mut().now_or_never().is_none());
        assert!(baton.is_free());
    }

    #[tokio::test(start_paused = true)]
    async fn run_that_took_long_has_the_next_one_hand_it_on_though_nobody_waits() {
        let baton = trusting().await;
        let advance = |time| async move {
            // All of it in one poll, as by a run that computes.
            let _ = tokio::time::advance(time).now_or_never();
        };
        let turn = baton.take().await;
        let kept = baton.carry(turn, || 0, pin!(advance(Duration::from_millis(2)))).await;
        assert!(kept.is_some());
        let work = pin!(async { assert!(baton.is_free()) });
        assert!(baton.carry(kept.expect("kept"), || 0, work).await.is_none());
    }

    /// Both wait for the baton, and then each, without letting go of its thread, for the other to begin.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn runs_that_compute_overlap() {
        let baton = Arc::new(Baton::new(2));
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
                drop(baton.carry_before_others(turn, work).await);
            });
        }
        while waiting.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
        drop(turn);
        workers.join_all().await;
    }

    #[tokio::test(start_paused = true)]
    async fn only_worker_keeps_it_whatever_runs_do() {
        let baton = Baton::new(1);
        let turn = baton.take().await;
        let waits = tokio::time::sleep(Duration::from_secs(1));
        let kept = baton.carry_before_others(turn, waits).await.expect("kept");
        let work = async { assert!(!baton.is_free()) };
        assert!(baton.carry_before_others(kept, work).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn run_that_is_cancelled_hands_it_on() {
        let baton = trusting().await;
        let turn = baton.take().await;
        let mut waits = Box::pin(baton.carry_before_others(turn, pending()));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(waits);
        assert!(baton.is_free());
    }
}
