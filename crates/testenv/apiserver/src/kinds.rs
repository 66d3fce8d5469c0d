//! The kinds of the server: all resources, built in or custom, are described by the same data.
//!
//! A request names a group, a version and a plural, and the [`Registry`] resolves them to a
//! [`Resource`]. From there on, no code asks whether the kind is built in: scope, subresources,
//! selectable fields, generation and update rules come from [`Kind`](crate::kind::Kind). The
//! built-in kinds are a table ([`builtin`]). A `CustomResourceDefinition` becomes a `Kind` as well
//! and is added to the registry.
//!
//! Invariants: a (group, plural) is registered at most once; a [`KindId`] is never reused; each
//! kind has exactly one storage version.

mod builtin;
mod defaults;
pub(crate) mod registry;
pub(crate) mod shape;
mod validate;
mod versions;

#[cfg(test)]
pub(crate) use self::builtin::builtin;
pub(crate) use self::defaults::default_builtin;
pub(crate) use self::registry::{KindId, Registered, Registry};
pub(crate) use self::shape::{convert_builtin, decode_builtin, decode_type, prune_metadata};
pub(crate) use self::validate::{
    check_review_versions, check_service, check_url, validate_builtin, validate_builtin_update,
};
pub(crate) use self::versions::by_preference;
