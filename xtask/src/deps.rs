//! Checks of the dependencies.
//!
//! [`deny`] runs cargo-deny, which checks licences, sources, bans and duplicate versions as
//! configured in `deny.toml`. [`edges`] checks which of our crates may depend on which, a rule that
//! cargo-deny cannot express.

mod deny;
mod edges;

use anyhow::Result;

/// Runs all checks on the workspace.
///
/// # Errors
/// If cargo-deny cannot be installed, or if a check fails.
pub(crate) fn run() -> Result<()> {
    deny::check()?;
    edges::check()
}
