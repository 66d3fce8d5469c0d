//! Leader election: replicas contend for a Lease, and the one that holds it leads.
//!
//! ```text
//!              create, or take over: nobody holds it,          not renewed before the renew
//!              or its holder let it expire                     deadline, or somebody else holds it
//!   standby ───────────────────────────────────────▶ leading ─────────────────────────────▶ lost
//! ```
//!
//! The protocol is client-go's, so replicas of a Go program and of a Windlass program can contend
//! for one Lease. The rules that keep two replicas from leading at once:
//!
//! - A standby takes a Lease over only when it has *observed* it unchanged for the whole lease
//!   duration, by its own monotonic clock. The times in the Lease are for people: wall clocks may
//!   be wrong, or jump.
//! - The leader counts its renew deadline from *before* it sent the last renewal that succeeded.
//!   A standby observes that renewal later, and waits for longer, so the leader stops first.
//! - One run of an [`Elector`] never leads twice: what the replica still runs is from before
//!   another leader. Its process ends, or it stops everything that it ran as the leader, and
//!   contends again.
//! - If somebody deletes the Lease, its holder makes it again, and standbys give it the time for
//!   that. Only a replica that was just started does not know that there was one.
//! - Every write of the Lease carries the version that was read, so of two replicas that take over
//!   at the same time one fails.
//!
//! Whoever empties the holder of a Lease by hand releases it: a standby leads at once, and the old
//! leader notices it when it renews, a retry period later at most.
//!
//! The fields of coordinated leader election (`strategy`, `preferredHolder`) are kept and ignored.
//!
//! `contest` is the pure state machine, `record` is what a Lease says, `elector` sends the
//! requests.

mod contest;
mod elector;
mod record;
mod timing;

pub use elector::{Elector, ElectorBuilder, Ended, InvalidElection, Leadership};
pub use timing::{InvalidTiming, Timing};
