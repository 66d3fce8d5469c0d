//! Webhooks of Kubernetes operators: admission and conversion, and their certificates.

#![forbid(unsafe_code)]

pub mod certificates;
