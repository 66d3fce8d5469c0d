//! An object as the store holds it: its head, and a body without a type.
//!
//! Objects are immutable and shared as `Arc<Object>`. A new version is a new object. So nobody can
//! change the cache by accident, and no mutation detector is needed, as client-go has one.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::error::DecodeError;
use crate::head::Head;

/// A type that objects are read as: a Kubernetes type, metadata only, or a type of your own.
/// Implemented for every type that fits.
pub trait ObjectType: DeserializeOwned + Send + Sync + 'static {}

impl<T: DeserializeOwned + Send + Sync + 'static> ObjectType for T {}

/// A decoded object. Only its readers know its type.
pub(crate) type Decoded = Arc<dyn Any + Send + Sync>;

/// An object: head and body.
pub struct Object {
    pub(crate) head: Head,
    pub(crate) body: Body,
}

/// What is held beside the head.
pub(crate) enum Body {
    /// Compact JSON, decoded by each reader.
    Bytes(Box<[u8]>),
    /// In a resident store: the decoded object and its weight. A `u32` keeps the enum small.
    Resident(Decoded, u32),
    /// In a resident store: the bytes did not decode.
    Undecodable(DecodeError),
}

impl Object {
    /// Creates an object from its head and the bytes that the head was read from.
    pub fn new(head: Head, bytes: impl Into<Box<[u8]>>) -> Self {
        Self { head, body: Body::Bytes(bytes.into()) }
    }

    /// The metadata.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The object as JSON; `None` in a resident store, which does not keep it.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Bytes(bytes) => Some(bytes),
            Body::Resident(..) | Body::Undecodable(_) => None,
        }
    }

    /// What the object takes from the allocator: itself, the parts of its head, and its body.
    ///
    /// It is exact, except for the decoded object of a resident store, whose weight the layout
    /// estimates. The interner counts interned texts.
    pub fn allocated_bytes(&self) -> usize {
        let body = match &self.body {
            Body::Bytes(bytes) => bytes.len(),
            Body::Resident(_, weight) => *weight as usize,
            Body::Undecodable(error) => error.allocated_bytes(),
        };
        2 * size_of::<usize>() + size_of::<Self>() + self.head.allocated_bytes() + body
    }
}

impl fmt::Debug for Object {
    /// Shows the head only: the body may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("head", &self.head).finish_non_exhaustive()
    }
}
