//! Simulates what kube-controller-manager, the scheduler and the nodes do on a real cluster:
//! Deployments create replica sets; replica sets, stateful sets and jobs create pods; pods become
//! ready; services get their endpoints.
//!
//! It is for the embedded API server of Windlass, which only stores workloads: for demos, and for
//! tests of controllers that own a Deployment or wait for pods. The controllers are written with
//! Windlass, and share the informers of one factory with its other users. `windlass-cluster` runs
//! both in one process.
//!
//! ```
//! use std::time::Duration;
//! use tokio_util::sync::CancellationToken;
//! use windlass_informer::SharedInformerFactory;
//! use windlass_workloads::{Workloads, WorkloadsError};
//!
//! async fn live(client: kube::Client, stop: CancellationToken) -> Result<(), WorkloadsError> {
//!     let factory = SharedInformerFactory::new(client);
//!     Workloads::new(&factory).start_delay(Duration::from_millis(200)).run(stop).await
//! }
//! ```
//!
//! # What it does
//!
//! - Deployments: a replica set for each pod template, rolling updates within `maxSurge` and
//!   `maxUnavailable`, `Recreate`, scaling (in proportion, during a rollout), pausing, rollbacks
//!   that find their old replica set again, a bounded history, the progress deadline, status and
//!   conditions.
//! - Replica sets: the desired number of pods, adoption and release by selector, upstream's order
//!   of deletion, `minReadySeconds`, status.
//! - Stateful sets: pods with stable names, in order or in parallel, from any start ordinal;
//!   rolling updates with a partition, `OnDelete`, revisions with upstream's names and a bounded
//!   history; claims from templates, and their retention.
//! - Jobs: completions, parallelism, indexes, retries with a growing delay up to `backoffLimit`,
//!   `suspend`, `activeDeadlineSeconds`, `ttlSecondsAfterFinished`; every pod is counted once, by
//!   means of upstream's finalizer.
//! - Pods: assigned to the fitting node with the fewest pods (cordons, taints, `nodeSelector`,
//!   required node affinity), running and ready after a delay, with an address of their own, and
//!   removed as soon as they are deleted. Pods that are not meant to run forever end after a while,
//!   and succeed; annotations override this, see [`Workloads::run_time`].
//! - Nodes, if [requested](Workloads::nodes): objects with the condition `Ready` that can be
//!   cordoned and drained.
//! - Services with a selector: endpoint slices, with ports by name and number, conditions, nodes
//!   and zones.
//! - Disruption budgets: how many of their pods may be evicted, so that `kubectl drain` waits.
//!
//! Names, labels, annotations, owner references and statuses end up as those of
//! kube-controller-manager; the tests compare them. Only the hash in the name of a replica set is
//! computed differently.
//!
//! # What it does not do
//!
//! Nodes hold any number of pods, whatever resources they request; other kinds of affinity, spread
//! constraints, priorities and preemption are ignored, and a deleted node keeps its pods. No
//! probes, init containers, volumes or images, and no grace period on deletion. Claims stay
//! pending. Of jobs, `podFailurePolicy`, `successPolicy` and `backoffLimitPerIndex` are ignored,
//! with an event that says so; of stateful sets, `maxUnavailable`, as by default upstream. No
//! daemon sets, cron jobs, Endpoints (only slices) or topology hints. Do not run it on a real
//! cluster: it would conflict with the controllers there. For a control plane without nodes,
//! [`Workloads::pods_only`] simulates the pods alone.
//!
//! # Reading order of the source
//!
//! `workloads` (the public API), `objects` (what is read and written), `deployment`, `replica_set`,
//! `stateful_set`, `job`, `endpoint_slice`, `disruption`, `scheduler`, `kubelet` (one controller
//! each, with decisions in modules of their own below), `nodes`, `addresses` (made-up nodes and
//! addresses), `adoption` (ownership of objects), `pod`, `clock` (shared helpers).

#![forbid(unsafe_code)]

mod addresses;
mod adoption;
mod clock;
mod condition;
mod deployment;
mod disruption;
mod endpoint_slice;
mod error;
mod job;
mod kubelet;
mod nodes;
mod objects;
mod pod;
mod replica_set;
mod scheduler;
mod stateful_set;
mod workloads;

pub use error::WorkloadsError;
pub use workloads::{RUN_TIME, START_DELAY, Workloads};
