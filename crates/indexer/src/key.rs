//! The key of an object: its namespace, if it has one, and its name.
//!
//! Deltas, events and queues carry keys. So a key is two shared pointers and cheap to clone. It
//! compares and hashes by its text. Keys are ordered by namespace first, with cluster-scoped keys
//! before all others, so the objects of a namespace are neighbours in the store.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Namespace and name of an object.
///
/// It is displayed as `namespace/name`, or as `name` if there is no namespace.
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
}

/// A borrowed key, as look-ups take it. It is made from `&ObjectKey`, from `(namespace, name)`, or
/// from `"namespace/name"` or `"name"`.
///
/// It compares and hashes like the owned key, because both derive this from the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRef<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
}

/// A text that is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a key: write `namespace/name`, or `name` for a cluster-scoped object")]
pub struct ParseKeyError {
    text: String,
}

impl ObjectKey {
    /// The key of an object in a namespace. An empty namespace means none.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        KeyRef::from((namespace, name)).into()
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self::new(None, name)
    }

    /// A key whose namespace is shared with other keys.
    pub(crate) fn new(namespace: Option<Arc<str>>, name: &str) -> Self {
        Self { namespace, name: name.into() }
    }

    /// The namespace; `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The borrowed key.
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef { namespace: self.namespace(), name: &self.name }
    }

    /// What the name takes from the allocator. The interner counts the namespace.
    pub(crate) fn allocated_bytes(&self) -> usize {
        arc_str_bytes(&self.name)
    }
}

/// What an `Arc<str>` takes from the allocator: two counters and the text, aligned.
pub(crate) fn arc_str_bytes(text: &Arc<str>) -> usize {
    const COUNTER: usize = size_of::<usize>();
    (2 * COUNTER + text.len()).next_multiple_of(COUNTER)
}

impl<'a> KeyRef<'a> {
    /// The key of an object in a namespace, or of a cluster-scoped one. An empty namespace means
    /// none.
    pub fn new(namespace: Option<&'a str>, name: &'a str) -> Self {
        Self { namespace: namespace.filter(|namespace| !namespace.is_empty()), name }
    }

    /// The namespace; `None` for a cluster-scoped object.
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
        Self::new(Some(namespace), name)
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
        Self::new(key.namespace.map(Arc::from), key.name)
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

impl Serialize for ObjectKey {
    /// As text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
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
    use std::hash::{DefaultHasher, Hash, Hasher};

    use super::*;

    #[test]
    fn cluster_scoped_keys_come_first_then_namespaces_in_order() {
        let keys =
            ["z", "a/z", "a/b-c", "b/a"].map(|text| text.parse::<ObjectKey>().expect("valid"));
        assert!(keys[0] < keys[2] && keys[2] < keys[1] && keys[1] < keys[3]);
    }

    #[test]
    fn owned_and_borrowed_keys_hash_alike() {
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
    fn invalid_keys_are_refused_with_a_hint() {
        for text in ["", "/a", "a/", "a/b/c"] {
            let error = text.parse::<ObjectKey>().expect_err("refused").to_string();
            assert!(error.contains("namespace/name"), "{error}");
        }
    }
}
