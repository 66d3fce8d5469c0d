//! Calls what the user supplies to a queue, and goes on if it panics: a limiter, a group function,
//! an observer.
//!
//! The panic must not go further: the worker that meets it may hold a lease, and that may be ending
//! because of another panic already, when a second one would end the process.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `what`. Should it panic, that is logged, with what follows from it, and nothing is
/// returned.
pub(crate) fn guarded<R>(
    queue: &str,
    what: &str,
    consequence: &str,
    call: impl FnOnce() -> R,
) -> Option<R> {
    // What state it is in after a panic is its own affair.
    let returned = catch_unwind(AssertUnwindSafe(call)).ok();
    if returned.is_none() {
        tracing::error!(
            queue,
            "the {what} of the work queue panicked: {consequence}; fix it: the panic's own message \
             says where"
        );
    }
    returned
}
