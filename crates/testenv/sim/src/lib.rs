//! Searches for the faults that break an operator: crashes, lost answers, stale views.
//!
//! Reading order of the source: `simulation`, then `process`, `boundary`, `server` and `world`, which
//! are the simulated world; `fault`, `explore`, `judge` and `state`, which are the search.

#![forbid(unsafe_code)]

mod boundary;
mod call;
mod explore;
mod fault;
mod judge;
mod latency;
mod operator;
mod process;
mod record;
mod report;
mod server;
mod simulation;
mod stale;
mod state;
mod view;
mod world;

pub use explore::{Explore, REPLAY};
pub use fault::{Failure, Fault, Until};
pub use judge::Finding;
pub use operator::ProcessHandle;
pub use report::Report;
pub use server::Refused;
pub use simulation::Simulation;
pub use state::Difference;
pub use view::{ClusterView, User};
