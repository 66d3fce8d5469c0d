//! Calls what the user supplies to a controller, and goes on if it panics: predicates, mappers,
//! policies.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What to do about a panic, for the end of a log line.
pub(crate) const FIX: &str = "fix it: the panic's own message says where, on the standard error \
     output unless there is a hook";

/// What code of the user's returns; `None` if it panics, which the caller logs.
pub(crate) fn caught<R>(call: impl FnOnce() -> R) -> Option<R> {
    // It is only lent what is immutable; its own state after a panic is its own affair.
    catch_unwind(AssertUnwindSafe(call)).ok()
}
