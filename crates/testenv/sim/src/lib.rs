//! Searches for the faults that break an operator: crashes, lost answers, stale views.
//!
//! A [`Simulation`] runs the operator and a story again and again on a cluster in this process, and
//! breaks something in each run. When the cluster is at rest after a step, it must be as it is
//! without the fault. `docs/simulation.md` says how that works, how a report is read, and what
//! cannot be found.
//!
//! ```
//! # use std::sync::Arc;
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kube::ResourceExt as _;
//! # use serde_json::json;
//! # use windlass::manager::{Manager, Options};
//! # use windlass::prelude::*;
//! use windlass_sim::{Explore, Simulation};
//!
//! # struct Copies;
//! # impl Reconcile<ConfigMap> for Copies {
//! #     async fn reconcile(&self, map: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
//! #         if map.name_any() == "source" {
//! #             let mut copy = ConfigMap { data: map.data.clone(), ..ConfigMap::default() };
//! #             copy.metadata.name = Some("copy".to_owned());
//! #             copy.metadata.namespace = map.namespace();
//! #             cx.live().apply_owned(copy, &*map).await?;
//! #         }
//! #         Ok(Action::done())
//! #     }
//! # }
//! # fn operator(options: Options) -> Manager {
//! #     let maps = Watch::<ConfigMap>::new();
//! #     Manager::new(options).controller(Controller::named("copies", maps), Copies)
//! # }
//! # fn source(value: &str) -> ConfigMap {
//! #     serde_json::from_value(json!({"metadata": {"name": "source"}, "data": {"a": value}})).unwrap()
//! # }
//! Simulation::new(|process| operator(process.options()))
//!     .step("create", |user| user.create(source("one")))
//!     .step("change", |user| user.patch::<ConfigMap>("source", json!({"data": {"a": "two"}})))
//!     .always("at most one copy", |cluster| match cluster.list::<ConfigMap>().len() {
//!         0..=2 => Ok(()),
//!         count => Err(format!("there are {count} objects")),
//!     })
//!     .explore(Explore::nothing().crashes())
//!     .check();
//! ```
//!
//! Reading order of the source: `simulation`; then `process`, `boundary`, `operator`, `server` and
//! `world`, which are the simulated world; then `fault`, `explore`, `state`, `judge` and `report`,
//! which are the search.

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

pub use explore::{Explore, REPLAY, RUNS_MAX};
pub use fault::{Failure, Fault, Until};
pub use judge::Finding;
pub use operator::ProcessHandle;
pub use report::Report;
pub use server::Refused;
pub use simulation::Simulation;
pub use state::Difference;
pub use view::{ClusterView, User};
