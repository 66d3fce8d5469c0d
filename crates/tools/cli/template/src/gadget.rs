//! The kind `Gadget`.
//!
//! - [`v1alpha1`]: its type, from which the definition for the API server is generated;
//! - [`reconciler`]: what is done for each Gadget, and what its status says;
//! - `children`: the objects that a Gadget owns, one file for each kind.

mod children;
pub mod reconciler;
pub mod v1alpha1;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use kube::core::crd::merge_crds;

pub use reconciler::{GadgetReconciler, controller};
// The version that the operator works with.
pub use v1alpha1::{Gadget, GadgetSpec, GadgetStatus};

/// The definition for the API server, with all versions. Gadgets are stored in the version that
/// `merge_crds` is given.
///
/// # Panics
/// Never: the versions are of one kind.
pub fn definition() -> CustomResourceDefinition {
    let versions = vec![
        // More versions come here: see `cargo windlass add version`.
        v1alpha1::Gadget::crd(),
    ];
    let definition = merge_crds(versions, "v1alpha1").expect("versions of one kind must merge");
    // Who converts between versions comes here: see `cargo windlass add version`.
    definition
}
