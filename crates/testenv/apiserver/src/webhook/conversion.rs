//! The conversion settings of a definition.

use serde_json::Value;

use super::client::ClientConfig;

/// The webhook that converts the objects of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(super) client: ClientConfig,
    /// The version of the reviews that are sent to the webhook, if it accepts a known one.
    pub(super) review_version: Option<&'static str>,
}

impl Conversion {
    /// Reads `spec.conversion`. Returns `None` unless a webhook converts.
    pub(crate) fn read(conversion: &Value) -> Option<Self> {
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let versions = webhook["conversionReviewVersions"].as_array().into_iter().flatten();
        let known = |version: &Value| match version.as_str() {
            Some("v1") => Some("v1"),
            Some("v1beta1") => Some("v1beta1"),
            _ => None,
        };
        Some(Self {
            client: ClientConfig::read(&webhook["clientConfig"]),
            review_version: versions.into_iter().find_map(known),
        })
    }
}
