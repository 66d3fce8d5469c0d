//! An operator as people write them: a `Website` becomes a `ConfigMap`, a Deployment and a Service.
//!
//! Reading order:
//!
//! - [`website`]: the type, and with it the definition of the custom resource;
//! - [`mod@reconciler`]: what is done for each `Website`, and what its status says;
//! - [`config_map`], [`deployment`], [`service`]: the objects that are made, one file each;
//! - [`hosts`]: which `Website` has which host, the thing that the finalizer cleans up;
//! - [`demo`]: the story that the program tells without a cluster.

#![forbid(unsafe_code)]

pub mod config_map;
pub mod demo;
pub mod deployment;
pub mod hosts;
mod labels;
pub mod reconciler;
pub mod run;
pub mod service;
pub mod website;

pub use reconciler::{Websites, controller, reconciler};
pub use website::{Website, WebsiteSpec, WebsiteStatus};
