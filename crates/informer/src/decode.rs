//! From the bytes of a body to objects.
//!
//! `frames` splits a body as it arrives. It uses `scan` and `compact` to find where an object ends
//! and to drop whitespace and managedFields. `ingest` reads the head of each object, and keeps the
//! objects that have no readable head in quarantine.

pub(crate) mod compact;
pub(crate) mod frames;
pub(crate) mod ingest;
pub(crate) mod scan;
pub(crate) mod transform;
