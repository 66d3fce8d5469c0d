//! All cases of the conformance suite, by area.
//!
//! `cases/list` is the only list; [`for_each_case`](crate::for_each_case) makes the table [`ALL`]
//! and the tests from it. A case that is not listed is an unused function, which the compiler
//! reports.

mod apply;
mod apply_builtins;
mod auth;
mod bodies;
mod builtins;
mod cel;
mod crds;
mod deletion;
mod discovery;
mod dry_run;
mod errors;
mod gc;
mod immutable;
mod list;
mod lists;
mod namespaces;
mod objects;
mod openapi;
mod partial;
mod patches;
mod protobuf;
mod protobuf_answers;
mod rbac;
mod selectors;
mod status;
mod strategic;
mod strategic_refusals;
mod subresources;
mod tables;
mod validation;
mod watches;
mod webhooks;

use std::fmt;

use futures::future::LocalBoxFuture;

use crate::Script;

/// One case: a script, its name, and the area of its recording.
#[derive(Clone, Copy)]
pub struct Case {
    /// The area: a module here, and a file in `tests/recordings`.
    pub area: &'static str,
    /// The name: unique over all areas, because the namespace of the case is named after it.
    pub name: &'static str,
    pub(crate) body: for<'a> fn(&'a mut Script) -> LocalBoxFuture<'a, ()>,
}

/// The minimum number of cases.
pub(crate) const AT_LEAST: usize = 605;

macro_rules! table {
    ($($area:ident: [$($name:ident,)*])*) => {
        /// All cases, in the order of the list.
        pub const ALL: &[Case] = &[$($(Case {
            area: stringify!($area),
            name: stringify!($name),
            body: |script| Box::pin($area::$name(script)),
        },)*)*];
    };
}

crate::for_each_case!(table);

/// Returns the case of this name.
///
/// # Panics
/// If there is no such case.
pub fn named(name: &str) -> &'static Case {
    ALL.iter().find(|case| case.name == name).expect("a listed case must be in the table")
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.area, self.name)
    }
}
