//! The `ConfigMap` of a Gadget.

use k8s_openapi::api::core::v1::ConfigMap;

use crate::gadget::Gadget;

/// The `ConfigMap` that a Gadget should have.
pub(super) fn of(gadget: &Gadget) -> ConfigMap {
    ConfigMap {
        metadata: super::metadata(gadget),
        data: Some([("title".to_owned(), gadget.spec.title.clone())].into()),
        ..ConfigMap::default()
    }
}
