//! Label selectors and field selectors of lists and watches.
//!
//! Both are parsed from the query of a request. The error of an invalid one is the message of the
//! 400. [`object`] has the label selectors inside of objects.

pub(crate) mod field;
pub(crate) mod label;
pub(crate) mod object;
