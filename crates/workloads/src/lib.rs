//! Deployments make replica sets, replica sets make pods, and pods become ready: what
//! kube-controller-manager, the scheduler and the nodes do on a real cluster, for one that has none
//! of them.
//!
//! It is for the embedded API server of Windlass, which stores workloads and does nothing with
//! them: for demos, and for tests of controllers that own a Deployment or wait for pods. The three
//! controllers are written on Windlass, and share the informers of one factory with whoever else
//! uses it.
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
//! - Pods: bound to a node that does not exist, `Running` and ready after a delay, and gone as soon
//!   as their deletion was asked for.
//!
//! Names, labels, annotations, owner references and statuses end as those of
//! kube-controller-manager do, which the tests compare. Only the hash in the name of a replica set
//! is computed otherwise.
//!
//! # What it does not
//!
//! No scheduling: every pod gets the same node, whatever it asks for, except those with scheduling
//! gates. No probes, init containers, volumes, images or IPs, and no container that ends, so that
//! pods of jobs run for ever. No grace period on deletion. No jobs, stateful sets or daemon sets.
//! On a real cluster it would fight with the controllers there, so do not run it on one; the pods
//! alone, on a control plane without nodes, are what [`Workloads::pods_only`] is for.
//!
//! # Reading order of the source
//!
//! `workloads` (the face), `objects` (what is read and written), `deployment`, `replica_set`,
//! `kubelet` (one controller each, decisions in files of their own below them), `claim` (whose
//! object is it), `pod`, `clock` (what they share).

#![forbid(unsafe_code)]

mod claim;
mod clock;
mod deployment;
mod kubelet;
mod objects;
mod pod;
mod replica_set;
mod workloads;

pub use workloads::{START_DELAY, Workloads, WorkloadsError};
