//! A bounded map: when it is full, what was used longest ago goes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Entries by key, and the order in which they were used.
///
/// Every entry stands in both maps, under the tick of its last use.
#[derive(Debug)]
pub(super) struct Lru<V> {
    entries: HashMap<Arc<str>, Entry<V>>,
    order: BTreeMap<u64, Arc<str>>,
    ticks: u64,
    capacity: usize,
}

#[derive(Debug)]
struct Entry<V> {
    used: u64,
    value: V,
}

impl<V> Lru<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), ticks: 0, capacity }
    }

    /// The value of a key, which counts as a use.
    pub(super) fn touch(&mut self, key: &str) -> Option<&mut V> {
        let entry = self.entries.get_mut(key)?;
        let name = self.order.remove(&entry.used).expect("an entry must have its place in order");
        self.ticks += 1;
        entry.used = self.ticks;
        self.order.insert(self.ticks, name);
        Some(&mut entry.value)
    }

    /// The value of a key, which does not count as a use.
    pub(super) fn peek(&mut self, key: &str) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Puts a value in. If that is one too many, the one goes that was used longest ago of those that `may_go`; if
    /// there is none, the map grows.
    pub(super) fn insert(&mut self, key: Arc<str>, value: V, may_go: impl Fn(&V) -> bool) {
        self.remove(&key);
        if self.entries.len() >= self.capacity {
            let mut oldest = self.order.values();
            let gone = oldest.find(|key| may_go(&self.entries[*key].value)).cloned();
            if let Some(gone) = gone {
                self.remove(&gone);
            }
        }
        self.ticks += 1;
        self.order.insert(self.ticks, Arc::clone(&key));
        self.entries.insert(key, Entry { used: self.ticks, value });
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(lru: &Lru<u32>) -> Vec<&str> {
        assert_eq!(lru.entries.len(), lru.order.len());
        lru.order.values().map(|key| &**key).collect()
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut lru = Lru::new(3);
        for (value, key) in ["a", "b", "c"].into_iter().enumerate() {
            lru.insert(key.into(), u32::try_from(value).expect("small"), |_| true);
        }
        assert_eq!(lru.touch("a"), Some(&mut 0));
        lru.insert("d".into(), 3, |_| true);
        assert_eq!(keys(&lru), ["c", "a", "d"]);
        assert_eq!(lru.touch("b"), None);
    }

    #[test]
    fn what_must_stay_stays() {
        let mut lru = Lru::new(2);
        lru.insert("a".into(), 1, |_| true);
        lru.insert("b".into(), 2, |_| true);
        lru.insert("c".into(), 3, |value| *value != 1);
        assert_eq!(keys(&lru), ["a", "c"]);
        lru.insert("d".into(), 4, |_| false);
        assert_eq!(keys(&lru), ["a", "c", "d"]);
    }

    #[test]
    fn peeking_is_no_use_and_replacing_is() {
        let mut lru = Lru::new(2);
        lru.insert("a".into(), 1, |_| true);
        lru.insert("b".into(), 2, |_| true);
        assert_eq!(lru.peek("a"), Some(&mut 1));
        assert_eq!(keys(&lru), ["a", "b"]);
        lru.insert("a".into(), 3, |_| true);
        assert_eq!(keys(&lru), ["b", "a"]);
        lru.remove("b");
        assert_eq!(keys(&lru), ["a"]);
    }
}
