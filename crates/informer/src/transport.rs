//! The way to a server: the client stack, lists and watches over it, and which resource a kind is.

pub(crate) mod client;
pub(crate) mod discovery;
pub(crate) mod source;
