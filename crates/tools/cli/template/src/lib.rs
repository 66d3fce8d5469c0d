//! The operator of Gadgets.
//!
//! Reading order:
//!
//! - [`gadget`]: the kind: its type, what is done for each Gadget, and the objects that it owns;
//! - `demo`: a cluster in this process, for `cargo run`.

#[cfg(feature = "demo")]
pub mod demo;
pub mod gadget;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use windlass::prelude::{Manager, Options};

/// The name of the operator: of its Lease, and in a label on everything that it makes.
pub const OPERATOR: &str = "gadget-operator";

/// The definitions of its kinds, as `deploy/crd.yaml` has them.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    vec![
        gadget::definition(),
        // More kinds come here: see `cargo windlass add kind`.
    ]
}

/// The operator, ready to run.
pub fn manager(options: Options) -> Manager {
    Manager::new(options)
        .controller(gadget::controller(), gadget::GadgetReconciler)
        // More controllers and webhooks come here: see `cargo windlass add`.
        .leader_election(OPERATOR)
}
