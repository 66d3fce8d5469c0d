//! Who takes the next key: one worker at a time, which goes on alone while that is enough.
//!
//! Most runs look at caches, find that all is well, and take a few microseconds. To spread those over cores costs more
//! than they do: the queue and the objects move between caches with them, which was a fifth of the CPU time of 50,000
//! such runs. So the worker that has the baton takes a key, and hands the baton on
//! - when its run has to wait for something, so that another worker takes the next key meanwhile;
//! - before its run, as long as runs are not brief: what computes shall use all cores.
//!
//! So a run that computes for long, among brief ones, keeps the keys behind it waiting, twice at most: the next ones
//! begin without the baton.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// A run that computes for longer is worth another core.
const BRIEF: Duration = Duration::from_micros(50);

/// With so much trust in the next run to be brief, a worker keeps the baton. A brief run adds one.
const ENOUGH: u32 = 8;

/// More trust than this is not gathered; a long run takes half of it, since it may have been an interruption.
const MOST: u32 = 2 * ENOUGH - 1;

#[derive(Debug, Default)]
pub(crate) struct Baton {
    held: Mutex<()>,
    trust: AtomicU32,
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
        // Several workers may change it at once, and then some of that is lost, which does no harm.
        let trust = self.trust.load(Ordering::Relaxed);
        let turn = (trust >= ENOUGH).then_some(turn);
        let mut work = pin!(work);
        let began = Instant::now();
        let is_pending = futures::poll!(work.as_mut()).is_pending();
        let is_brief = began.elapsed() <= BRIEF;
        let trust = if is_brief { MOST.min(trust + 1) } else { trust / 2 };
        self.trust.store(trust, Ordering::Relaxed);
        if is_pending {
            drop(turn);
            work.await;
            return None;
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

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
    async fn worker_goes_on_alone_trusting() {
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
        let compute = || async {
            let began = Instant::now();
            while began.elapsed() <= BRIEF {}
        };
        drop(baton.carry(turn, compute()).await);
        let turn = baton.take().await;
        drop(baton.carry(turn, compute()).await);
        let turn = baton.take().await;
        assert!(baton.carry(turn, async { assert!(is_free(&baton)) }).await.is_none());
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
