//! How objects are decoded as one type, and the hot set of that type.
//!
//! A store can be read as several types. Each has one [`TypeView`]. The type parameter `K` ends
//! here: the code below this file handles bytes and `dyn Any`.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use crate::error::{DecodeError, short_name};
use crate::head::Head;
use crate::hot_set::HotSet;
use crate::object::{Body, Decoded, ObjectType};
use crate::sync::Lock;

/// How objects are decoded as one type.
#[derive(Clone, Copy)]
pub(crate) struct TypeDecoder {
    type_id: TypeId,
    pub(crate) name: &'static str,
    decode: fn(&[u8]) -> serde_json::Result<Decoded>,
    /// The size of a value of the type, without what it points to.
    size: usize,
}

/// A type that the store is read as: its decoder, and the objects that are kept decoded.
#[derive(Debug)]
pub(crate) struct TypeView {
    pub(crate) decoder: TypeDecoder,
    /// Its lock is taken before that of the map, never after.
    pub(crate) hot_set: Lock<HotSet>,
}

/// How much larger than its JSON a decoded object is, beside its own size. A pod of `k8s-openapi`
/// takes 27 to 30 KB for 4.3 KB of JSON, because it consists mostly of absent optional fields.
const DECODED_PER_BYTE: usize = 6;

impl TypeView {
    pub(crate) fn new(decoder: TypeDecoder, hot_set_bytes: usize) -> Self {
        Self { decoder, hot_set: Lock::new(HotSet::new(hot_set_bytes)) }
    }
}

impl TypeDecoder {
    /// For a compact store.
    pub(crate) fn compact<K: ObjectType>() -> Self {
        Self::new::<K>(|bytes| Ok(Arc::new(serde_json::from_slice::<K>(bytes)?)))
    }

    /// For a resident store.
    pub(crate) fn resident<K: ObjectType + Clone>() -> Self {
        // Serde grows lists by doubling. The lists of a clone have no spare capacity.
        Self::new::<K>(|bytes| Ok(Arc::new(serde_json::from_slice::<K>(bytes)?.clone())))
    }

    fn new<K: 'static>(decode: fn(&[u8]) -> serde_json::Result<Decoded>) -> Self {
        Self { type_id: TypeId::of::<K>(), name: short_name::<K>(), decode, size: size_of::<K>() }
    }

    pub(crate) fn is<K: 'static>(&self) -> bool {
        self.type_id == TypeId::of::<K>()
    }

    /// Decodes bytes.
    pub(crate) fn decode(&self, head: &Head, bytes: &[u8]) -> Result<Decoded, DecodeError> {
        (self.decode)(bytes).map_err(|error| DecodeError::new(head, self.name, &error))
    }

    /// About what an object takes in memory when it is decoded.
    pub(crate) fn weight(&self, bytes: &[u8]) -> usize {
        2 * size_of::<usize>() + self.size + DECODED_PER_BYTE * bytes.len()
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
            Ok(decoded) => {
                Body::Resident(decoded, u32::try_from(self.weight(bytes)).unwrap_or(u32::MAX))
            }
            Err(error) => Body::Undecodable(error),
        }
    }
}

impl PartialEq for TypeDecoder {
    fn eq(&self, other: &Self) -> bool {
        self.type_id == other.type_id
    }
}

impl fmt::Debug for TypeDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypeDecoder").field(&self.name).finish()
    }
}
