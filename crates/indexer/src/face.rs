//! A type that a store is read as: how its objects are decoded, and the accounts of its hot set.
//!
//! This is where `K` ends: above are [`Lister`](crate::Lister) and [`Cached`](crate::Cached), below everything
//! is bytes and `dyn Any`.

use std::any::{TypeId, type_name};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::de::DeserializeOwned;

use crate::error::DecodeError;
use crate::head::Head;
use crate::object::{Body, Decoded, Object};

/// What an object of a type takes in memory, in bytes.
pub(crate) type Weigh<K> = fn(object: &K, json: usize) -> usize;

type Decode = dyn Fn(&[u8]) -> Result<(Decoded, usize), serde_json::Error> + Send + Sync;

/// One type that a store is read as.
pub(crate) struct Face {
    type_id: TypeId,
    name: &'static str,
    decode: Box<Decode>,
    /// What the hot set of this type may take.
    pub(crate) hot_bytes_max: usize,
    pub(crate) hot_bytes: AtomicUsize,
    pub(crate) hot_entries: AtomicUsize,
    /// Keys whose current version is known not to decode.
    pub(crate) undecodable: AtomicUsize,
    /// Hits of slots that are gone; those of living slots are counted there.
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
}

/// How much larger than its JSON a decoded object is, beside its own size. Measured for pods of
/// `k8s-openapi`, which are mostly optional fields that are not there: 27 to 30 KB for 4.3 KB.
const DECODED_PER_BYTE: usize = 6;

/// The estimate that a type is weighed by, unless its layout says otherwise.
pub(crate) fn estimate<K>(_: &K, json: usize) -> usize {
    2 * size_of::<usize>() + size_of::<K>() + DECODED_PER_BYTE * json
}

impl Face {
    /// A type of which what is read stays for a while.
    pub(crate) fn new<K>(hot_bytes_max: usize, weigh: Weigh<K>) -> Self
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        Self::decoding(hot_bytes_max, weigh, |object| object)
    }

    /// A type of which everything stays.
    pub(crate) fn resident<K>(weigh: Weigh<K>) -> Self
    where
        K: DeserializeOwned + Clone + Send + Sync + 'static,
    {
        // A list that was read from JSON has grown by doubling; that of a clone is as large as it needs to be.
        Self::decoding(usize::MAX, weigh, |object: K| object.clone())
    }

    // `keep` is no pointer, so that one that does nothing is left out by the compiler: objects are large to move.
    fn decoding<K>(
        hot_bytes_max: usize,
        weigh: Weigh<K>,
        keep: impl Fn(K) -> K + Send + Sync + 'static,
    ) -> Self
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        let decode = move |bytes: &[u8]| {
            let object = keep(decode(bytes)?);
            let weight = weigh(&object, bytes.len());
            Ok((Arc::new(object) as Decoded, weight))
        };
        Self {
            type_id: TypeId::of::<K>(),
            name: short_name::<K>(),
            decode: Box::new(decode),
            hot_bytes_max,
            hot_bytes: AtomicUsize::new(0),
            hot_entries: AtomicUsize::new(0),
            undecodable: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    pub(crate) fn is<K: 'static>(&self) -> bool {
        self.type_id == TypeId::of::<K>()
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Decodes, and says what the result takes.
    pub(crate) fn decode(
        &self,
        head: &Head,
        bytes: &[u8],
    ) -> Result<(Decoded, usize), DecodeError> {
        (self.decode)(bytes).map_err(|error| DecodeError::new(head, self.name, &error))
    }

    /// The body that a store resident in this type holds in place of `object`'s.
    pub(crate) fn reside(&self, object: &Object) -> Body {
        match object.body() {
            Body::Bytes(bytes) => match self.decode(object.head(), bytes) {
                Ok((decoded, weight)) => {
                    Body::Resident(decoded, u32::try_from(weight).unwrap_or(u32::MAX))
                }
                Err(error) => Body::Undecodable(error),
            },
            Body::Resident(decoded, _) if !self.is_of(decoded) => {
                Body::Undecodable(self.without_bytes(object.head()))
            }
            body => body.clone(),
        }
    }

    /// Whether a decoded object is of this type.
    pub(crate) fn is_of(&self, decoded: &Decoded) -> bool {
        (**decoded).type_id() == self.type_id
    }

    /// The error for an object that is held in another type, without its bytes.
    pub(crate) fn without_bytes(&self, head: &Head) -> DecodeError {
        DecodeError::without_bytes(head, self.name)
    }

    pub(crate) fn is_over_budget(&self) -> bool {
        self.hot_bytes.load(Ordering::Relaxed) > self.hot_bytes_max
    }
}

/// Decodes JSON. Whether the bytes are UTF-8 is checked for all of them at once, which takes a tenth of the time that
/// it takes for one string after the other.
fn decode<K: DeserializeOwned>(bytes: &[u8]) -> Result<K, serde_json::Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        // Perhaps it is in a part that the type does not have; if not, this says where it is.
        Err(_) => serde_json::from_slice(bytes),
    }
}

/// The name of a type without its path: `Pod`.
pub(crate) fn short_name<K>() -> &'static str {
    let name = type_name::<K>();
    let outer = name.split('<').next().unwrap_or(name);
    // Of a generic type the whole name is kept, because what tells two of them apart is inside.
    if outer.len() < name.len() { name } else { outer.rsplit("::").next().unwrap_or(outer) }
}

impl fmt::Debug for Face {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Face").field("name", &self.name).finish_non_exhaustive()
    }
}
