//! Runs controllers as a service.
//!
//! Several replicas of an operator run at the same time, and one of them works: the leader.
//!
//! - [`election`]: who leads. The replicas contend for a Lease, as client-go's do.
//! - [`fence`]: what only the leader may do. A client with a [`Fence`] refuses writes as soon as
//!   the leadership may be over, even if the process was paused and does not know yet.
//! - [`http`](mod@http): the endpoints of every replica, with TLS and access control.

#![forbid(unsafe_code)]

pub mod election;
pub mod fence;
pub mod http;

pub use election::{
    Elector, ElectorBuilder, Ended, InvalidElection, InvalidTiming, Leadership, Timing,
};
pub use fence::{Fence, NotLeader, TookTooLong};
