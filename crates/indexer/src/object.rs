//! An object as the store holds it: its head, and a body that knows no type.
//!
//! Objects are immutable and shared as `Arc<Object>`; a new version is a new object. So nobody can change what
//! is in the cache by accident, and there is nothing to detect, as client-go's mutation detector does.
//!
//! The bytes are a `Box<[u8]>`: two words and not a byte too many, where `Bytes` takes four words and, as long
//! as a slice of it lives, all of the buffer that it was cut from.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::error::DecodeError;
use crate::head::Head;

/// A decoded object whose type only its readers know.
pub(crate) type Decoded = Arc<dyn Any + Send + Sync>;

/// An object: head and body.
pub struct Object {
    head: Head,
    body: Body,
}

/// What is held beside the head.
#[derive(Clone)]
pub(crate) enum Body {
    /// Compact JSON, decoded by whoever reads it.
    Bytes(Box<[u8]>),
    /// In a resident store: decoded, and what that takes, which is a word less than a `usize` with its tag.
    Resident(Decoded, u32),
    /// In a resident store: the bytes did not decode.
    Undecodable(DecodeError),
}

impl Object {
    /// An object from its head and the bytes that the head was read from.
    pub fn new(head: Head, bytes: impl Into<Box<[u8]>>) -> Self {
        Self { head, body: Body::Bytes(bytes.into()) }
    }

    pub(crate) fn with_body(head: Head, body: Body) -> Self {
        Self { head, body }
    }

    pub(crate) fn into_head(self) -> Head {
        self.head
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

    /// Moves the bytes into memory that is taken now, and returns those from before; nothing in a resident store.
    ///
    /// Bytes that arrive from a network are allocated between buffers of TLS and HTTP, which go soon and leave holes
    /// that no other object fits into. Whoever takes in many objects at once moves them all and then drops what they
    /// were in, and so has them side by side.
    #[must_use = "memory that is free at once is what the next object would be moved into"]
    pub fn move_bytes(&mut self) -> Option<Box<[u8]>> {
        match &mut self.body {
            Body::Bytes(bytes) => Some(std::mem::replace(bytes, bytes.clone())),
            Body::Resident(..) | Body::Undecodable(_) => None,
        }
    }

    /// What the object asked of the allocator: itself and its counts, the parts of its head and its body.
    /// Exact, but for the decoded object of a resident store, which is weighed as its layout says. Interned
    /// texts count with their interner.
    pub fn allocated_bytes(&self) -> usize {
        let body = match &self.body {
            Body::Bytes(bytes) => bytes.len(),
            Body::Resident(_, weight) => *weight as usize,
            Body::Undecodable(error) => error.allocated_bytes(),
        };
        2 * size_of::<usize>() + size_of::<Self>() + self.head.allocated_bytes() + body
    }

    pub(crate) fn body(&self) -> &Body {
        &self.body
    }
}

impl fmt::Debug for Object {
    /// Shows the head only: the body may be a Secret's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("head", &self.head).finish_non_exhaustive()
    }
}
