//! How objects are decoded as one type, and the hot set of that type.
//!
//! A store can be read as several types. Each has one decoder. The type parameter `K` ends here:
//! the code below this file handles bytes and `dyn Any`.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::error::{DecodeError, short_name};
use crate::head::Head;
use crate::hot_set::HotSet;
use crate::object::{Body, Decoded};
use crate::sync::Lock;

/// What a decoded object takes in memory, in bytes, given the object and the length of its JSON.
pub(crate) type Weigh<K> = fn(object: &K, json: usize) -> usize;

/// A decoded object and its weight.
pub(crate) type Weighed = (Decoded, usize);

type Decode = dyn Fn(&[u8]) -> Result<Weighed, serde_json::Error> + Send + Sync;

/// Decodes objects as one type.
pub(crate) struct Decoder {
    type_id: TypeId,
    pub(crate) name: &'static str,
    decode: Box<Decode>,
    /// Its lock is taken before that of the map, never after.
    pub(crate) hot_set: Lock<HotSet>,
}

/// How much larger than its JSON a decoded object is, beside its own size. A pod of `k8s-openapi`
/// takes 27 to 30 KB for 4.3 KB of JSON, because it consists mostly of absent optional fields.
const DECODED_PER_BYTE: usize = 6;

/// The weight of a decoded object, unless the layout has its own function.
pub(crate) fn estimate<K>(_: &K, json: usize) -> usize {
    2 * size_of::<usize>() + size_of::<K>() + DECODED_PER_BYTE * json
}

impl Decoder {
    /// A decoder for a compact store.
    pub(crate) fn compact<K>(hot_set_bytes: usize) -> Self
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        Self::new(hot_set_bytes, estimate, |object: K| object)
    }

    /// A decoder for a resident store. Nothing goes into its hot set.
    pub(crate) fn resident<K>(weigh: Weigh<K>) -> Self
    where
        K: DeserializeOwned + Clone + Send + Sync + 'static,
    {
        // Serde grows lists by doubling. The lists of a clone have no spare capacity.
        Self::new(0, weigh, |object: K| object.clone())
    }

    fn new<K>(
        hot_set_bytes: usize,
        weigh: Weigh<K>,
        finish: impl Fn(K) -> K + Send + Sync + 'static,
    ) -> Self
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        let decode = move |bytes: &[u8]| {
            let object = finish(serde_json::from_slice(bytes)?);
            let weight = weigh(&object, bytes.len());
            Ok((Arc::new(object) as Decoded, weight))
        };
        Self {
            type_id: TypeId::of::<K>(),
            name: short_name::<K>(),
            decode: Box::new(decode),
            hot_set: Lock::new(HotSet::new(hot_set_bytes)),
        }
    }

    pub(crate) fn is<K: 'static>(&self) -> bool {
        self.type_id == TypeId::of::<K>()
    }

    /// Decodes bytes.
    pub(crate) fn decode(&self, head: &Head, bytes: &[u8]) -> Result<Weighed, DecodeError> {
        (self.decode)(bytes).map_err(|error| DecodeError::new(head, self.name, &error))
    }

    /// What a resident object is as this type.
    pub(crate) fn resident_object(
        &self,
        head: &Head,
        decoded: &Decoded,
    ) -> Result<Decoded, DecodeError> {
        if (**decoded).type_id() == self.type_id {
            return Ok(Arc::clone(decoded));
        }
        Err(DecodeError::without_bytes(head, self.name))
    }

    /// The body that a store resident in this type holds for these bytes.
    pub(crate) fn resident_body(&self, head: &Head, bytes: &[u8]) -> Body {
        match self.decode(head, bytes) {
            Ok((decoded, weight)) => {
                Body::Resident(decoded, u32::try_from(weight).unwrap_or(u32::MAX))
            }
            Err(error) => Body::Undecodable(error),
        }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("name", &self.name).finish_non_exhaustive()
    }
}
