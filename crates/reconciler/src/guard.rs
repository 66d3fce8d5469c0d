//! Calls user code that may panic: predicates, mappers, policies.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What to do about a panic, for the end of a log line.
pub(crate) const PANIC_ADVICE: &str =
    "fix it: the message of the panic hook, by default on standard error, says where";

/// What user code returns; `None` if it panics, which the caller logs.
pub(crate) fn caught<R>(call: impl FnOnce() -> R) -> Option<R> {
    // It only gets shared references; its own state after a panic is its own responsibility.
    catch_unwind(AssertUnwindSafe(call)).ok()
}
