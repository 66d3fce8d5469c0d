//! Read your writes: what runs have written, and which of it the caches do not show yet.

pub(crate) mod authorship;
pub(crate) mod expectations;
pub(crate) mod overlay;
pub(crate) mod rebase;
pub(crate) mod recording;
pub(crate) mod rights;
pub(crate) mod server_warnings;
pub(crate) mod write;
