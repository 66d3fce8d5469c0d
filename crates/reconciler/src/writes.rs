//! Read your writes: which requests write, what was written, and which of it the caches do not
//! show yet.
//!
//! Lock order: the write log of a run or [`Expectations`](expectations::Expectations), then the
//! sources of the controller, then the position of a feed. Neither of the first two is locked while
//! the other is.

pub(crate) mod answers;
pub(crate) mod applied;
pub(crate) mod authorship;
pub(crate) mod expectations;
pub(crate) mod request;
pub(crate) mod server_warnings;
pub(crate) mod write;
