//! The `ServiceAccount` of a Gadget: who its pods are to the API server.

use k8s_openapi::api::core::v1::ServiceAccount;

use crate::gadget::Gadget;

/// The `ServiceAccount` that a Gadget should have. It has no rights of its own.
pub(super) fn of(gadget: &Gadget) -> ServiceAccount {
    ServiceAccount { metadata: super::metadata(gadget), ..ServiceAccount::default() }
}
