//! Lists and watches of one namespace, or of all: the pure reflector decides what to ask for, and the feed around it
//! sends requests and waits.

pub(crate) mod feed;
pub(crate) mod gathered;
pub(crate) mod reflector;
