//! The kind `Customer`.
//!
//! - [`v1alpha1`]: its type, from which the definition for the API server is generated;
//! - [`reconciler`]: what is done for each Customer, and what its status says;
//! - `children`: the objects that a Customer owns, one file for each kind.

mod children;
pub mod reconciler;
pub mod v1alpha1;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use kube::core::crd::merge_crds;

pub use reconciler::{CustomerReconciler, controller};
// The version that the operator works with.
pub use v1alpha1::{Customer, CustomerSpec, CustomerStatus};

/// The definition for the API server, with all versions. Customers are stored in the version that
/// `merge_crds` is given.
///
/// # Panics
/// Never: the versions are of one kind.
pub fn definition() -> CustomResourceDefinition {
    let versions = vec![
        // More versions come here: see `cargo windlass add version`.
        v1alpha1::Customer::crd(),
    ];
    let definition = merge_crds(versions, "v1alpha1").expect("versions of one kind must merge");
    // Who converts between versions comes here: see `cargo windlass add version`.
    definition
}
