//! Answers of the API server that are kept for a while.
//!
//! Requests that ask the same at the same time share one review: the first one makes it, and the
//! others wait. If the first one goes away, the next one makes it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use ring::digest::{Context, SHA256};
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// How many answers are kept. Whoever can reach the port can send tokens, so there is a bound.
const ANSWERS_MAX: usize = 1024;

/// Stands for a token, so that no token is kept.
pub(super) type Digest = [u8; 32];

pub(super) struct Cache<V> {
    /// An empty slot is of a review under way. The lock is never held across a review.
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

    /// The answer that is kept, or a new one. A review says how long its answer is kept.
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
        let is_of_use =
            |slot: &&Slot<V>| slot.get().is_none_or(|answer| Instant::now() < answer.until);
        if let Some(slot) = slots.get(&key).filter(is_of_use) {
            return Arc::clone(slot);
        }
        let slot = Slot::default();
        slots.insert(key, Arc::clone(&slot));
        slot
    }
}

/// One digest of several parts, each with its length, so that parts cannot run into each other.
pub(super) fn digest<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        let part = part.as_ref();
        context.update(&part.len().to_be_bytes());
        context.update(part);
    }
    context.finish().as_ref().try_into().expect("SHA-256 must have 32 bytes")
}
