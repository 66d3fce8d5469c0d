//! Which objects a list or a watch is about: label selectors and field selectors.
//!
//! Both are parsed from the query of a request; a text that is not one gives the words of the 400
//! answer. [`object`] has the selectors that stand in objects.

pub(crate) mod field;
pub(crate) mod label;
pub(crate) mod object;
