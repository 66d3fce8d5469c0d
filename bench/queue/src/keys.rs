//! The keys: the same strings as in the Go counterpart, held in two ways.

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

/// The namespace that a key made by [`interned_keys`] names: its symbol is its index.
pub(crate) fn namespace_of(key: SymbolU32) -> usize {
    key.to_usize() % NAMESPACES
}
