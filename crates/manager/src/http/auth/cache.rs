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
    use super::*;

    /// Anyone who can reach the port can send tokens.
    #[tokio::test(start_paused = true)]
    async fn flood_of_tokens_is_bounded_and_the_last_are_cached() {
        let cache = Cache::new();
        let key = |number: usize| digest([number.to_be_bytes()]);
        for number in 0..10 * ANSWERS_MAX {
            let ttl = Duration::from_mins(1);
            assert_eq!(cache.get(key(number), async move { (number, ttl) }).await, number);
        }
        assert_eq!(cache.slots.lock().expect("not poisoned").len(), ANSWERS_MAX);
        let asked_again = || async { (usize::MAX, Duration::ZERO) };
        let last = 10 * ANSWERS_MAX - 1;
        assert_eq!(cache.get(key(last), asked_again()).await, last);
        assert_eq!(cache.get(key(0), asked_again()).await, usize::MAX);
    }
}
