//! Errors of reading a store. No error shows the content of an object.

use std::any::type_name;
use std::fmt;

use serde_json::error::Category;

use crate::head::Head;
use crate::key::ObjectKey;
use crate::version::{ResourceVersion, Uid};

/// An object whose bytes do not decode as the requested type.
///
/// Trying again is useless until the object's next version. The error shows which object it is and
/// the position in it, but never a value. The messages of `serde_json` quote values, and the object
/// may be a Secret.
///
/// ```
/// use k8s_openapi::api::core::v1::Secret;
/// use windlass_indexer::Store;
///
/// let mut store = Store::new();
/// let lister = store.reader().lister::<Secret>()?;
/// store.put_bytes(br#"{"metadata":{"name":"a","resourceVersion":"7"},"data":"hunter2"}"#)?;
/// let error = lister.get("a").expect_err("data is not a map");
/// assert_eq!(
///     error.to_string(),
///     "object a (version 7) does not decode as Secret: \
///      a value of the wrong type or form at line 1 column 63",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DecodeError(Box<Failure>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    key: ObjectKey,
    uid: Uid,
    version: ResourceVersion,
    target: &'static str,
    category: Category,
    /// Whether it is nested more deeply than `serde_json` decodes.
    is_too_deep: bool,
    line: usize,
    column: usize,
}

/// The store is resident in another type than the requested one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the store is resident as {resident} and keeps no bytes, so it cannot be read as {wanted}: \
     read it as {resident}, or make it compact"
)]
pub struct LayoutError {
    /// The type that the store holds.
    pub(crate) resident: &'static str,
    /// The requested type.
    pub(crate) wanted: &'static str,
}

/// An index cannot be added or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// There is no such index, or none that has the label.
    #[error(
        "there is no index {index}: add `.index({index})` to the options of the watch or informer, \
         or call `add_index({index})` of the informer or store"
    )]
    Unknown {
        /// The index, as it is written.
        index: String,
    },
    /// There is an index of this type with other settings.
    #[error(
        "there is an index {index} with other settings, and a look-up names the type alone: \
         give yours a type of its own"
    )]
    Different {
        /// The type of the index.
        index: &'static str,
    },
    /// The index needs bytes that a resident store has dropped.
    #[error(
        "index {index} needs a view of the objects' bytes, which this store, \
         resident as {resident}, has not kept: \
         add the index before the first object, or make the store compact"
    )]
    NoBytes {
        /// The type of the index.
        index: &'static str,
        /// The type that the store holds.
        resident: &'static str,
    },
}

impl DecodeError {
    pub(crate) fn new(head: &Head, target: &'static str, error: &serde_json::Error) -> Self {
        Self(Box::new(Failure {
            key: head.key().clone(),
            uid: head.uid().clone(),
            version: head.resource_version().clone(),
            target,
            category: error.classify(),
            is_too_deep: error.to_string().starts_with("recursion limit"),
            line: error.line(),
            column: error.column(),
        }))
    }

    /// The error for an object without bytes, which was decoded as another type elsewhere.
    pub(crate) fn without_bytes(head: &Head, target: &'static str) -> Self {
        let error = serde_json::Error::io(std::io::ErrorKind::Unsupported.into());
        Self::new(head, target, &error)
    }

    /// The key of the object.
    pub fn key(&self) -> &ObjectKey {
        &self.0.key
    }

    /// The uid of the object.
    pub fn uid(&self) -> &Uid {
        &self.0.uid
    }

    /// The resource version that does not decode.
    pub fn version(&self) -> &ResourceVersion {
        &self.0.version
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        // The name is shared with the head.
        size_of::<Failure>() + self.0.uid.allocated_bytes() + self.0.version.allocated_bytes()
    }
}

/// The name of a type without its path, as in `Pod`.
pub(crate) fn short_name<K>() -> &'static str {
    let name = type_name::<K>();
    // A generic type keeps its whole name, because its parameters distinguish it from others.
    if name.contains('<') { name } else { name.rsplit("::").next().unwrap_or(name) }
}

impl std::error::Error for DecodeError {}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { key, uid, version, target, category, is_too_deep, line, column } = &*self.0;
        write!(f, "object {key} (")?;
        if !uid.is_empty() {
            write!(f, "uid {uid}, ")?;
        }
        let what = match category {
            _ if *is_too_deep => "it is nested deeper than 127 levels in a field of that type",
            Category::Data => "a value of the wrong type or form",
            Category::Syntax => "not JSON",
            Category::Eof => "the bytes end too early",
            Category::Io => "it comes from a resident store, without its bytes",
        };
        write!(f, "version {version}) does not decode as {target}: {what}")?;
        if *line > 0 { write!(f, " at line {line} column {column}") } else { Ok(()) }
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DecodeError({self})")
    }
}
