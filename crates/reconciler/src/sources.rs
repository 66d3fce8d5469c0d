//! What a controller watches: which events count, which keys they lead to, and when.

pub(crate) mod enqueue;
pub(crate) mod filter;
pub(crate) mod key_stream;
pub(crate) mod log_limit;
pub(crate) mod mapping;
pub(crate) mod pause;
pub(crate) mod predicate;
pub(crate) mod source;
pub(crate) mod watch;
