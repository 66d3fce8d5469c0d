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
//! - One run of an [`Elector`] never leads twice, because the replica may still run work from
//!   before another leader. Its process ends, or it stops all leader-only work and contends again.
//! - If the Lease is deleted, its holder creates it again, and standbys wait for that until the old
//!   Lease would have expired. A replica that has just started has not seen the old Lease, and does
//!   not wait.
//! - Every write of the Lease carries the version that was read, so of two replicas that take over
//!   at the same time one fails.
//!
//! To clear the holder of a Lease by hand is to release it: a standby takes over at its next try,
//! and the old leader notices when it next renews, at most a retry period later.
//!
//! The fields of coordinated leader election (`strategy`, `preferredHolder`) are kept and ignored.
//!
//! `contest` is the pure state machine, `record` is the record in a Lease, `elector` sends the
//! requests.

mod contest;
mod elector;
mod record;
mod request;
mod timing;

pub use elector::{ElectionEnd, Elector, ElectorBuilder, InvalidElection, Leadership};
pub use timing::{InvalidTiming, Timing};
