//! How the versions of a Gadget are converted. The hub is the version that the operator works with,
//! and every other version is converted to the hub and back.
//!
//! `cargo windlass add version` copied the fields, so a version becomes another one as it is. When
//! you rename or move a field, say here what becomes of it. Server-side apply converts parts of
//! Gadgets, too, so every field should have a default (`#[serde(default)]`).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use windlass::webhook::{ClientTarget, Conversion, Convert, ConvertError};

use super::{Gadget, v1alpha1};
use crate::OPERATOR;
use crate::webhooks::webhooks;

/// The conversion between all versions.
pub fn conversion() -> Conversion<Gadget> {
    Conversion::hub::<Gadget>()
        .spoke::<v1alpha1::Gadget>()
        // What a version has no field for is kept in an annotation, and comes back.
        .keep_unknown_fields()
}

/// Says in the definition that the operator converts, behind the Service of deploy/webhooks.yaml.
pub(super) fn by_webhook(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let (namespace, name) = (OPERATOR.to_owned(), OPERATOR.to_owned());
    let service = ClientTarget::Service { namespace, name, port: None };
    let conversion = serde_json::from_value(webhooks().conversion_of_crd(&service));
    definition.spec.conversion = Some(conversion.expect("a conversion must decode"));
    definition
}

impl Convert<v1alpha1::Gadget> for Gadget {
    fn from_spoke(spoke: v1alpha1::Gadget) -> Result<Self, ConvertError> {
        let v1alpha1::Gadget { metadata, spec, status } = spoke;
        Ok(Self { metadata, spec: same(&spec)?, status: same(&status)? })
    }

    fn into_spoke(self) -> Result<v1alpha1::Gadget, ConvertError> {
        let Self { metadata, spec, status } = self;
        Ok(v1alpha1::Gadget { metadata, spec: same(&spec)?, status: same(&status)? })
    }
}

/// The same fields in another version.
fn same<F, T>(fields: &F) -> Result<T, ConvertError>
where
    F: serde::Serialize,
    T: serde::de::DeserializeOwned,
{
    let same = serde_json::to_value(fields).and_then(serde_json::from_value);
    // The error would show what the object contains.
    same.map_err(|_| "a field does not fit the other version".into())
}
