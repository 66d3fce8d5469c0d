//! Published bugs of well-known operators, each as a small operator of our own: the mechanism is
//! theirs, the code is not. `docs/simulation.md` has the table of how the simulator finds them.
//!
//! Every operator works in two [ways](Way): as published, and mended. `cargo test -p zoo` shows
//! that the simulator finds the first and passes the second.

pub mod crash_between_steps;
pub mod inventory;
pub mod missed_scale_down;
pub mod sets_from_the_past;
pub mod stale_deletion;
pub mod status_for_ever;
pub mod store;

/// How an operator works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// With the bug.
    Published,
    /// Without it.
    Mended,
}
