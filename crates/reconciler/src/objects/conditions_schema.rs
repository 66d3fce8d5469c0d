//! The schema of conditions, for custom resources that derive theirs.

use schemars::{Schema, SchemaGenerator, json_schema};

/// The schema of a list of conditions as Kubernetes has it: one of each type, merged by type.
///
/// Without it, a derived schema has a plain list, and each server-side apply replaces all
/// conditions, also those of other controllers.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
///
/// #[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
/// struct WebsiteStatus {
///     #[serde(default)]
///     #[schemars(schema_with = "windlass_reconciler::conditions_schema")]
///     conditions: Vec<Condition>,
/// }
/// ```
pub fn conditions_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string"},
                "message": {"type": "string"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64"},
            },
        },
    })
}
