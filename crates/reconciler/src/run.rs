//! One run: what it is given, the caches that it reads, and the client that records its writes.

pub(crate) mod cache_view;
pub(crate) mod context;
pub(crate) mod frozen;
pub(crate) mod recording;
pub(crate) mod sent_by;
pub(crate) mod span;
