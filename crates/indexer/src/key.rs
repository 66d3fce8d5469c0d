//! The name of an object in its type: namespace, if it has one, and name.
//!
//! Everything downstream passes keys around: deltas, events, queues. So a key is two shared pointers, cheap to
//! clone, and hashes and orders by its text. Keys order by namespace first, cluster-scoped ones before all
//! others, which makes the objects of a namespace neighbours in the store.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use crate::interner::{Symbol, arc_str_bytes};

/// Namespace and name of an object. Displayed as `namespace/name`, or `name` if it has no namespace.
///
/// ```
/// use windlass_indexer::ObjectKey;
///
/// let key: ObjectKey = "default/web".parse()?;
/// assert_eq!(key, ObjectKey::namespaced("default", "web"));
/// assert_eq!((key.namespace(), key.name()), (Some("default"), "web"));
/// assert_eq!(key.to_string(), "default/web");
/// assert_eq!(ObjectKey::cluster("node-1").to_string(), "node-1");
/// # Ok::<(), windlass_indexer::ParseKeyError>(())
/// ```
#[derive(Clone)]
pub struct ObjectKey {
    namespace: Option<Symbol>,
    name: Arc<str>,
}

/// A key that borrows its text: what a look-up needs. It comes from `&ObjectKey`, from
/// `(namespace, name)`, and from `"namespace/name"` or `"name"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyRef<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
}

/// A text that is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no key: write `namespace/name`, or `name` for a cluster-scoped object")]
pub struct ParseKeyError {
    text: String,
}

impl ObjectKey {
    /// The key of an object in a namespace; an empty one is none.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        KeyRef::from((namespace, name)).into()
    }

    /// The key of an object without a namespace.
    pub fn cluster(name: &str) -> Self {
        Self::new(None, name)
    }

    /// A key whose namespace is shared with others.
    pub fn new(namespace: Option<Symbol>, name: &str) -> Self {
        Self { namespace, name: name.into() }
    }

    /// The namespace, if the object has one.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The namespace to be shared with another key.
    pub fn namespace_symbol(&self) -> Option<&Symbol> {
        self.namespace.as_ref()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key, borrowed.
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef { namespace: self.namespace(), name: &self.name }
    }

    /// What the name takes; the namespace belongs to the interner.
    pub(crate) fn allocated_bytes(&self) -> usize {
        arc_str_bytes(&self.name)
    }
}

impl<'a> KeyRef<'a> {
    /// Of an object in `namespace`, or of a cluster-scoped one.
    pub fn new(namespace: Option<&'a str>, name: &'a str) -> Self {
        Self { namespace, name }
    }

    /// The namespace, if the object has one.
    pub fn namespace(&self) -> Option<&'a str> {
        self.namespace
    }

    /// The name.
    pub fn name(&self) -> &'a str {
        self.name
    }
}

impl<'a> From<&'a ObjectKey> for KeyRef<'a> {
    fn from(key: &'a ObjectKey) -> Self {
        key.as_ref()
    }
}

impl<'a> From<(&'a str, &'a str)> for KeyRef<'a> {
    fn from((namespace, name): (&'a str, &'a str)) -> Self {
        Self { namespace: Some(namespace).filter(|namespace| !namespace.is_empty()), name }
    }
}

impl<'a> From<&'a str> for KeyRef<'a> {
    fn from(text: &'a str) -> Self {
        match text.split_once('/') {
            Some(parts) => parts.into(),
            None => Self { namespace: None, name: text },
        }
    }
}

impl From<KeyRef<'_>> for ObjectKey {
    fn from(key: KeyRef<'_>) -> Self {
        Self::new(key.namespace.map(Symbol::new), key.name)
    }
}

impl FromStr for ObjectKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let key = KeyRef::from(text);
        if key.name.is_empty() || key.name.contains('/') || text.starts_with('/') {
            return Err(ParseKeyError { text: text.to_owned() });
        }
        Ok(key.into())
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        // Names differ more often than namespaces do.
        self.name == other.name && self.namespace == other.namespace
    }
}

impl Eq for ObjectKey {}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.namespace.cmp(&other.namespace).then_with(|| self.name.cmp(&other.name))
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(self.as_ref(), state);
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(*self, state);
    }
}

/// Not in line: keys are hashed in many places, and more often than not the code is not in the processor's caches.
#[inline(never)]
fn hash<H: Hasher>(key: KeyRef<'_>, state: &mut H) {
    key.name.hash(state);
    key.namespace.unwrap_or_default().hash(state);
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_ref(), f)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_ref(), f)
    }
}

impl fmt::Display for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use super::*;

    #[test]
    fn cluster_scoped_keys_come_first_then_namespaces_in_order() {
        let keys =
            ["z", "a/z", "a/b-c", "b/a"].map(|text| text.parse::<ObjectKey>().expect("valid"));
        assert!(keys[0] < keys[2] && keys[2] < keys[1] && keys[1] < keys[3]);
    }

    #[test]
    fn keys_and_what_looks_them_up_hash_alike() {
        let hash = |key: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            key(&mut hasher);
            hasher.finish()
        };
        for text in ["z", "a/z", "a/b"] {
            let key: ObjectKey = text.parse().expect("valid");
            let looked_up = KeyRef::from(text);
            assert_eq!(hash(&|state| key.hash(state)), hash(&|state| looked_up.hash(state)));
        }
        let [one, two] = ["a/b", "b/a"].map(KeyRef::from);
        assert_ne!(hash(&|state| one.hash(state)), hash(&|state| two.hash(state)));
    }

    #[test]
    fn texts_that_are_no_keys_are_refused_with_what_to_write() {
        for text in ["", "/a", "a/", "a/b/c"] {
            let error = text.parse::<ObjectKey>().expect_err("refused").to_string();
            assert!(error.contains("namespace/name"), "{error}");
        }
    }
}
