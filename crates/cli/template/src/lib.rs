//! The operator of Gadgets.
//!
//! Reading order:
//!
//! - [`gadget`]: the type, and with it the definition of the custom resource;
//! - [`reconciler`]: what is done for each Gadget, and what its status says;
//! - `children`: the objects that a Gadget owns, one file for each kind;
//! - `demo`: a cluster in this process, for `cargo run`.

mod children;
#[cfg(feature = "demo")]
pub mod demo;
pub mod gadget;
pub mod reconciler;

pub use gadget::{Gadget, GadgetSpec, GadgetStatus};

use windlass::prelude::{Manager, Options};

/// The name of the operator: of its Lease, and in a label on everything that it makes.
pub const OPERATOR: &str = "gadget-operator";

/// The operator, ready to run. More controllers and webhooks are added here.
pub fn manager(options: Options) -> Manager {
    Manager::new(options)
        .leader_election(OPERATOR)
        .controller(reconciler::controller(), reconciler::GadgetReconciler)
}
