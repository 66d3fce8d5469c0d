//! The file in which tests record the requests of an operator, and from which `cargo windlass rbac`
//! derives Roles.
//!
//! A file has one JSON object in a line, an [`Entry`]: either a request that was sent, or a right
//! that the operator declares. Only facts are here. Which right a request needs, and which rights
//! go with it, is for the reader to say.
//!
//! Each entry has the [`VERSION`] of the format. A reader refuses any other, so that the two never
//! misunderstand each other.
//!
//! Reading order: `entry` (the types), `recorder` (writes a file), `read` (reads a folder).

#![forbid(unsafe_code)]

mod entry;
mod read;
mod recorder;

pub use entry::{
    Condition, DeclaredRight, Entry, Fact, Outcome, Owner, Request, Right, Scope, Sender, Target,
    Written,
};
pub use read::{ReadError, read};
pub use recorder::Recorder;

/// The version of the format that this crate writes and reads. Increase it when the meaning of an
/// entry changes.
pub const VERSION: u32 = 1;

/// The environment variable that names the folder of the files. `cargo windlass rbac` sets it for
/// the tests, and nothing but the test environment reads it.
pub const VARIABLE: &str = "WINDLASS_RBAC_EVIDENCE";
