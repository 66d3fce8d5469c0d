//! How a definition has its objects converted between its versions: by which webhook, if by one.

use serde_json::Value;

use super::client::ClientConfig;

/// How a definition has its objects converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(super) client: ClientConfig,
    /// The version of reviews that the webhook is sent.
    pub(super) review_version: Option<&'static str>,
}

impl Conversion {
    /// Reads `spec.conversion`; none if no webhook converts.
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
