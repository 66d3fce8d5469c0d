//! Read your writes: which requests write, what was written, and which of it the caches do not
//! show yet.

pub(crate) mod applied;
pub(crate) mod authorship;
pub(crate) mod expectations;
pub(crate) mod overlay;
pub(crate) mod rebase;
pub(crate) mod request;
pub(crate) mod server_warnings;
pub(crate) mod write;
