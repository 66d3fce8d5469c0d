//! The messages between the API server and a webhook, as they are sent.
//!
//! They are types of this crate over raw JSON, not those of `kube`. kube's `AdmissionReview<K>`
//! decodes the object together with the review: if the object does not fit the type, the whole
//! review is lost, and with it the uid that every answer must have. Here the review is decoded
//! first, and the object by the handler that wants it. Fields that these types do not know are
//! kept, and the types need no choice of a Kubernetes version.
//!
//! Invariant: no `Debug` output shows the content of an object.

mod admission;
mod conversion;
mod status;

pub use admission::{
    AdmissionRequest, AdmissionResponse, AdmissionReview, GroupVersionKind, GroupVersionResource,
    PatchType, UserInfo, Verb,
};
pub use conversion::{ConversionRequest, ConversionResponse, ConversionReview};
pub use status::{Status, StatusCause, StatusDetails};

/// `apiVersion` of the admission reviews that are understood.
pub(crate) const ADMISSION_VERSION: &str = "admission.k8s.io/v1";

/// `apiVersion` of the conversion reviews that are understood.
pub(crate) const CONVERSION_VERSION: &str = "apiextensions.k8s.io/v1";
