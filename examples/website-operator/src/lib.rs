//! An operator as people write them: a `Website` becomes a `ConfigMap`, a Deployment and a Service.
//!
//! Reading order:
//!
//! - [`website`]: the kind, its two versions and its webhooks, and the definition for the server;
//! - [`mod@reconciler`]: what is done for each `Website`, and what its status says;
//! - [`config_map`], [`deployment`], [`service`]: the objects that are made, one file each;
//! - [`hosts`]: which `Website` has which host, the thing that the finalizer cleans up;
//! - `demo`: the story that the program tells without a cluster, with the feature of this name.

#![forbid(unsafe_code)]

pub mod config_map;
#[cfg(feature = "demo")]
pub mod demo;
pub mod deployment;
pub mod hosts;
mod labels;
pub mod reconciler;
pub mod run;
pub mod service;
pub mod website;

use windlass::webhook::Webhooks;

pub use reconciler::{Websites, controller, reconciler};
pub use website::v2::{Server, Website, WebsiteSpec};
pub use website::{WebsiteStatus, definition};

/// The name of the operator: of its Lease, its webhooks and their Service, and of its namespace in
/// `deploy/`.
pub const NAME: &str = "website-operator";

/// The webhooks of the operator: Websites are corrected, checked, and converted between versions.
pub fn webhooks() -> Webhooks {
    Webhooks::new()
        .default::<Website>(website::admission::Admit)
        .validate::<Website>(website::admission::Admit)
        .convert(website::convert::conversion())
}
