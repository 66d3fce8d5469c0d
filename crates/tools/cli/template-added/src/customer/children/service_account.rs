//! The `ServiceAccount` of a Customer: who its pods are to the API server.

use k8s_openapi::api::core::v1::ServiceAccount;

use crate::customer::Customer;

/// The `ServiceAccount` that a Customer should have. It has no rights of its own.
pub(super) fn of(customer: &Customer) -> ServiceAccount {
    ServiceAccount { metadata: super::metadata(customer), ..ServiceAccount::default() }
}
