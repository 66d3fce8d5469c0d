//! Restarts workloads when their configuration changes: the operator
//! [Wave](https://github.com/wave-k8s/wave), rewritten on Windlass.
//!
//! A Deployment, `StatefulSet` or `DaemonSet` that asks for it gets a hash over all `ConfigMap`s
//! and Secrets that it refers to, as an annotation of its pod template. If the hash changes, so
//! does the template, and Kubernetes replaces the pods.
//!
//! Reading order:
//!
//! - [`annotation`]: how a workload asks for it;
//! - [`reference`](mod@reference): what a workload refers to;
//! - [`configuration`]: what is there of it, as a hash, or what is missing;
//! - [`index`]: which workloads refer to an object;
//! - [`reconciler`](mod@reconciler): what is done for a workload, and when;
//! - [`throttle`]: how many workloads are restarted at once;
//! - [`demo`]: the story that the program tells without a cluster.

#![forbid(unsafe_code)]

pub mod annotation;
pub mod configuration;
pub mod demo;
pub mod index;
pub mod reconciler;
pub mod reference;
pub mod run;
pub mod throttle;
pub mod workload;
