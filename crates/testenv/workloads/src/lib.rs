//! Deployments make replica sets, replica sets, stateful sets and jobs make pods, pods become
//! ready, and services know where they are: what kube-controller-manager, the scheduler and the
//! nodes do on a real cluster, for one that has none of them.
//!
//! It is for the embedded API server of Windlass, which stores workloads and does nothing with
//! them: for demos, and for tests of controllers that own a Deployment or wait for pods. The
//! controllers are written on Windlass, and share the informers of one factory with whoever else
//! uses it. `windlass-cluster` has both in one process.
//!
//! ```
//! use std::time::Duration;
//! use tokio_util::sync::CancellationToken;
//! use windlass::prelude::SharedInformerFactory;
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
//! - Replica sets: as many pods as asked for, adoption and release by selector, the order of
//!   deletion that upstream has, `minReadySeconds`, status.
//! - Stateful sets: pods with stable names, in order or in parallel, from any ordinal on; rolling
//!   updates with a partition, `OnDelete`, revisions with upstream's names and a bounded history;
//!   claims from templates, and their retention.
//! - Jobs: completions, parallelism, indexes, retries with a growing delay up to `backoffLimit`,
//!   `suspend`, `activeDeadlineSeconds`, `ttlSecondsAfterFinished`; every pod counted once, by
//!   upstream's finalizer.
//! - Pods: put on the node with the fewest pods that fits (cordons, taints, `nodeSelector`,
//!   required node affinity), running and ready after a delay, with an address of their own, and
//!   gone as soon as their deletion was asked for. Those that are not to run for ever end after a
//!   while, and succeed; annotations on them say otherwise, see [`Workloads::run_time`].
//! - Nodes, if [asked for](Workloads::nodes): objects that say that they are ready, and can be
//!   cordoned and drained.
//! - Services with a selector: endpoint slices, with ports by name and number, conditions, nodes
//!   and zones.
//! - Disruption budgets: how many of their pods may be evicted, so that `kubectl drain` waits.
//!
//! Names, labels, annotations, owner references and statuses end as those of
//! kube-controller-manager do, which the tests compare. Only the hash in the name of a replica set
//! is computed otherwise.
//!
//! # What it does not
//!
//! Nodes hold any number of pods, whatever those ask for; other kinds of affinity, spread
//! constraints, priorities and preemption are ignored, and a node that is deleted keeps its pods.
//! No probes, init containers, volumes or images, and no grace period on deletion. Claims stay
//! pending. Of jobs, `podFailurePolicy`, `successPolicy` and `backoffLimitPerIndex` are ignored,
//! with an event that says so; of stateful sets, `maxUnavailable`, as by default upstream. No
//! daemon sets, cron jobs, Endpoints (only slices of them) or hints for routing. On a real cluster
//! it would fight with the controllers there, so do not run it on one; the pods alone, on a control
//! plane without nodes, are what [`Workloads::pods_only`] is for.
//!
//! # Reading order of the source
//!
//! `workloads` (the face), `objects` (what is read and written), `deployment`, `replica_set`,
//! `stateful_set`, `job`, `endpoint_slice`, `disruption`, `scheduler`, `kubelet` (one controller
//! each, decisions in files of their own below them), `nodes`, `addresses` (what is made up),
//! `adoption` (whose object is it), `pod`, `clock` (what they share).

#![forbid(unsafe_code)]

mod addresses;
mod adoption;
mod clock;
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
