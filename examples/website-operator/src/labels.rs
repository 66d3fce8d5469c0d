//! Labels by which people and Services find what the operator made.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use kube::api::ObjectMeta;

use crate::Website;

/// On every object that the operator makes.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "website-operator");

/// The name of the Website, on what belongs to it.
const INSTANCE: &str = "app.kubernetes.io/instance";

/// Selects the pods of a Website.
pub(crate) fn pods_of(site: &Website) -> BTreeMap<String, String> {
    let managed_by = (MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    [managed_by, (INSTANCE.to_owned(), site.name_any())].into()
}

/// The metadata of an object that is made for a Website, and has its name.
pub(crate) fn metadata(site: &Website) -> ObjectMeta {
    ObjectMeta {
        name: site.metadata.name.clone(),
        namespace: site.namespace(),
        labels: Some(pods_of(site)),
        ..ObjectMeta::default()
    }
}
