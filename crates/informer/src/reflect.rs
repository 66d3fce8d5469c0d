//! The list and watch of one namespace, or of all: the reflector decides what to request, without
//! any I/O, and the feed sends the requests and waits.

pub(crate) mod feed;
pub(crate) mod position;
pub(crate) mod reflector;
