//! A cache of reviews by the API server.
//!
//! Concurrent requests with the same key share one review: the first one sends it, and the others
//! wait. If the first one is cancelled, the next one sends it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use ring::digest::{Context, SHA256};
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// How many answers are cached. Bounded, because anyone who can reach the port can send tokens.
const ANSWERS_MAX: usize = 1024;

/// The key of an answer: a digest, so that no token is stored.
pub(super) type Digest = [u8; 32];

pub(super) struct Cache<V> {
    /// An empty slot belongs to a review under way. The lock is never held across a review.
    slots: Mutex<LruCache<Digest, Slot<V>>>,
}

type Slot<V> = Arc<OnceCell<Answer<V>>>;

struct Answer<V> {
    value: V,
    until: Instant,
}

impl<V: Clone> Cache<V> {
    pub(super) fn new() -> Self {
        Self { slots: Mutex::new(LruCache::new(ANSWERS_MAX)) }
    }

    /// The cached answer, or a new one. A review returns its answer and how long to cache it.
    pub(super) async fn get(&self, key: Digest, review: impl Future<Output = (V, Duration)>) -> V {
        let slot = self.slot(key);
        let answer = slot.get_or_init(|| async {
            let (value, ttl) = review.await;
            Answer { value, until: Instant::now() + ttl }
        });
        answer.await.value.clone()
    }

    fn slot(&self, key: Digest) -> Slot<V> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let is_valid =
            |slot: &&Slot<V>| slot.get().is_none_or(|answer| Instant::now() < answer.until);
        if let Some(slot) = slots.get(&key).filter(is_valid) {
            return Arc::clone(slot);
        }
        let slot = Slot::default();
        slots.insert(key, Arc::clone(&slot));
        slot
    }
}

/// One digest of several parts, each with its length, so that `ab, c` differs from `a, bc`.
pub(super) fn digest<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        let part = part.as_ref();
        context.update(&part.len().to_be_bytes());
        context.update(part);
    }
    context.finish().as_ref().try_into().expect("SHA-256 must have 32 bytes")
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::FutureExt as _;
    use tokio::task::unconstrained;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn flood_of_tokens_is_cached_within_the_bound() {
        let cache = Cache::new();
        // Some reviews never end.
        for token in 0..5 * ANSWERS_MAX {
            let review = async {
                if token % 2 == 0 {
                    pending::<()>().await;
                }
                (token, Duration::from_mins(1))
            };
            let answer = cache.get(digest([token.to_be_bytes()]), review);
            assert_eq!(unconstrained(answer).now_or_never().is_some(), token % 2 == 1);
        }
        assert_eq!(cache.slots.lock().expect("not poisoned").len(), ANSWERS_MAX);
        let last = digest([(5 * ANSWERS_MAX - 1).to_be_bytes()]);
        assert_eq!(cache.get(last, pending()).await, 5 * ANSWERS_MAX - 1);
    }
}
