//! Calls user code (a limiter, a group function, an observer) and catches its panics.
//!
//! The panic must not propagate. The caller may be dropping a lease because of another panic, and
//! a second panic would abort the process.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `call`. If it panics, logs that `what` panicked and what follows from it, and returns
/// `None`.
pub(crate) fn guarded<R>(
    queue: &str,
    what: &str,
    consequence: &str,
    call: impl FnOnce() -> R,
) -> Option<R> {
    let returned = catch_unwind(AssertUnwindSafe(call));
    // Forgotten, because dropping the panic's payload may panic as well.
    let returned = returned.map_err(std::mem::forget).ok();
    if returned.is_none() {
        tracing::error!(
            queue,
            "the {what} of the work queue panicked: {consequence}; the panic message says where"
        );
    }
    returned
}
