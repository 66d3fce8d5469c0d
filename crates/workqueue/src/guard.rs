//! Calls code of the user's (a limiter, a group function, an observer) and goes on if it panics.
//!
//! The panic must not go further. The calling worker may hold a lease, which may be ending because
//! of another panic already, and then a second panic would abort the process.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `call`. If it panics, logs that `what` panicked and what follows from it, and returns
/// `None`.
pub(crate) fn guarded<R>(
    queue: &str,
    what: &str,
    consequence: &str,
    call: impl FnOnce() -> R,
) -> Option<R> {
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
