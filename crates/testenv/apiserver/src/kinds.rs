//! What the server can hold: every resource, built in or custom, described by the same data.
//!
//! A request names a group, a version and a plural; the [`Registry`] turns them into a
//! [`Resource`], and from there on nothing asks whether the kind is built in: scope, subresources,
//! selectable fields, generation and update rules are read from [`Kind`](crate::kind::Kind). The
//! built-ins are a table ([`builtin`]); a `CustomResourceDefinition` becomes the same type and is
//! put into the registry beside them.
//!
//! Invariants: a (group, plural) is registered at most once; a [`KindId`] is never given to a
//! second kind; of the versions of a kind exactly one is the storage version.

mod builtin;
mod defaults;
mod registry;
pub(crate) mod shape;
mod validate;
mod versions;

#[cfg(test)]
pub(crate) use self::builtin::builtin;
pub(crate) use self::defaults::default_builtin;
pub(crate) use self::registry::{Group, KindId, Registered, Registry};
pub(crate) use self::shape::{
    PatchPlace, convert, convert_builtin, decode_builtin, decode_type, prune_metadata,
};
pub(crate) use self::validate::{
    check_review_versions, check_service, check_url, validate_builtin, validate_builtin_update,
};
pub(crate) use self::versions::by_preference;
