//! From the bytes of a body to objects: the body is split as it arrives, objects are made compact, and their
//! heads are read. What cannot be read is quarantined.

pub(crate) mod compact;
pub(crate) mod frames;
pub(crate) mod ingest;
pub(crate) mod scan;
pub(crate) mod transform;
