//! Runs controllers as a service.
//!
//! [`Manager`] is what a program runs: it starts and stops controllers and tasks in order, serves
//! probes and metrics, and elects a leader. In reading order:
//!
//! - `manager` is the builder that programs use, [`Options`] are its command-line options;
//! - `run` is the order of start and stop, `service` what runs in between: `controllers`, `task`s
//!   and the election, in `group`s of named tasks. `state` is read by probes and reports;
//! - `plan` shows what the operator would do, instead of running it;
//! - `connect` finds the cluster, `signals` stops the process;
//! - `rights`: what the account of the operator must be allowed to do, and whether it is;
//!   `own_requests` marks the requests of the manager itself;
//! - [`http`]: probes, metrics, and the debug endpoint; `webhooks`: admission and conversion.
//! - [`dashboard`]: a page that shows a running operator, and what it needs.
//! - [`election`]: leader election on a Lease, with client-go's protocol. `candidacy` runs it for
//!   the manager.
//! - [`fence`]: a client with a [`Fence`] refuses writes as soon as the leadership may be over,
//!   even if the process was paused and has not noticed.
//! - [`logging`]: log lines as text or JSON, and traces.
//! - [`metrics`]: metrics for Prometheus, under the names of controller-runtime and client-go.

#![forbid(unsafe_code)]

mod candidacy;
mod connect;
mod controllers;
pub mod dashboard;
pub mod election;
mod error;
pub mod fence;
mod group;
pub mod http;
pub mod logging;
mod manager;
pub mod metrics;
mod options;
mod own_requests;
mod plan;
mod rights;
mod run;
mod service;
mod signals;
mod state;
mod task;
mod watchdog;
mod webhooks;

pub use candidacy::OnLostLeadership;

pub use election::{
    ElectionEnd, Elector, ElectorBuilder, InvalidElection, InvalidTiming, Leadership, Timing,
};
pub use error::{ManagerError, NoCluster};
pub use fence::{Fence, TookTooLong};
pub use logging::{Logging, LoggingError};
pub use manager::Manager;
pub use metrics::Metrics;
pub use options::{LogFormat, Options, PlanFormat};
pub use own_requests::OwnRequest;
pub use plan::OperatorPlan;
pub use state::View;
pub use task::TaskContext;
pub use windlass_informer::NotLeader;
