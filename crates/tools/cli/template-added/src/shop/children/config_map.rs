//! The `ConfigMap` of a Shop.

use k8s_openapi::api::core::v1::ConfigMap;

use crate::shop::Shop;

/// The `ConfigMap` that a Shop should have.
pub(super) fn of(shop: &Shop) -> ConfigMap {
    ConfigMap {
        metadata: super::metadata(shop),
        data: Some([("title".to_owned(), shop.spec.title.clone())].into()),
        ..ConfigMap::default()
    }
}
