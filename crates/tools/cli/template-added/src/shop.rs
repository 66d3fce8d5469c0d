//! The kind `Shop`.
//!
//! - [`v1alpha1`]: its type, from which the definition for the API server is generated;
//! - [`reconciler`]: what is done for each Shop, and what its status says;
//! - `children`: the objects that a Shop owns, one file for each kind.

pub mod admission;
mod children;
pub mod convert;
pub mod reconciler;
pub mod v1alpha1;
pub mod v1beta1;
pub mod v2;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use kube::core::crd::merge_crds;

pub use reconciler::{ShopReconciler, controller};
// The version that the operator works with.
pub use v2::{Shop, ShopSpec, ShopStatus};

/// The definition for the API server, with all versions. Shops are stored in the version that
/// `merge_crds` is given.
///
/// # Panics
/// Never: the versions are of one kind.
pub fn definition() -> CustomResourceDefinition {
    let versions = vec![
        // More versions come here: see `cargo windlass add version`.
        v2::Shop::crd(),
        v1beta1::Shop::crd(),
        v1alpha1::Shop::crd(),
    ];
    let definition = merge_crds(versions, "v1alpha1").expect("versions of one kind must merge");
    // Who converts between versions comes here: see `cargo windlass add version`.
    convert::by_webhook(definition)
}
