//! The files of a Website, as a `ConfigMap`.

use k8s_openapi::api::core::v1::ConfigMap;

use crate::Website;
use crate::labels;

/// The `ConfigMap` that a Website should have.
pub fn config_map(site: &Website) -> ConfigMap {
    ConfigMap {
        metadata: labels::metadata(site),
        data: Some(site.spec.files.clone()),
        ..ConfigMap::default()
    }
}
