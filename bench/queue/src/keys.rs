//! The keys: the same strings as in the Go counterpart, held in two ways.

use std::hash::Hash;
use std::sync::Arc;

use string_interner::backend::StringBackend;
use string_interner::symbol::SymbolU32;
use string_interner::{StringInterner, Symbol};

/// Namespaces over which the keys are spread.
const NAMESPACES: usize = 100;

/// Keys, with what keeps them meaningful while they are used.
pub(crate) struct Keys<K> {
    pub(crate) keys: Arc<Vec<K>>,
    _interner: Option<StringInterner<StringBackend<SymbolU32>>>,
}

/// A key of the queue under test.
pub(crate) trait Key: Eq + Hash + Clone + Send + Sync + 'static {
    /// Its place among all keys.
    fn index(&self) -> usize;
}

impl Key for Arc<str> {
    fn index(&self) -> usize {
        let number = self.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
        number.expect("a key must end with its number")
    }
}

impl Key for SymbolU32 {
    fn index(&self) -> usize {
        self.to_usize()
    }
}

fn name(index: usize) -> String {
    format!("namespace-{}/object-{index}", index % NAMESPACES)
}

pub(crate) fn arc_str_keys(count: usize) -> Keys<Arc<str>> {
    let keys = (0..count).map(|index| name(index).into()).collect();
    Keys { keys: Arc::new(keys), _interner: None }
}

pub(crate) fn interned_keys(count: usize) -> Keys<SymbolU32> {
    let mut interner = StringInterner::new();
    let keys = (0..count).map(|index| interner.get_or_intern(name(index))).collect();
    Keys { keys: Arc::new(keys), _interner: Some(interner) }
}

/// The namespace that a key names.
pub(crate) fn namespace_of(key: &impl Key) -> usize {
    key.index() % NAMESPACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_know_their_index() {
        for (index, key) in arc_str_keys(200).keys.iter().enumerate() {
            assert_eq!(key.index(), index);
        }
        for (index, key) in interned_keys(200).keys.iter().enumerate() {
            assert_eq!(key.index(), index);
        }
    }
}
