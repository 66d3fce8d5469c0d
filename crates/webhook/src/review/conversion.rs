//! `apiextensions.k8s.io/v1` `ConversionReview`.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CONVERSION_VERSION, Status};

/// The envelope of a question or of an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversionReview {
    /// `apiextensions.k8s.io/v1`.
    pub api_version: String,
    /// `ConversionReview`.
    pub kind: String,
    /// What the API server asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<ConversionRequest>,
    /// What the webhook answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ConversionResponse>,
}

/// Objects that the API server wants in another version.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversionRequest {
    /// Identifies this call; the answer has the same.
    pub uid: String,
    /// `example.com/v1`.
    #[serde(rename = "desiredAPIVersion")]
    pub desired_api_version: String,
    /// The objects, of any other version of the same group.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// Fields that this type does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The objects in the other version, or why there are none.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversionResponse {
    /// That of the request.
    pub uid: String,
    /// In the order of the request; empty if the conversion failed.
    #[serde(default)]
    pub converted_objects: Vec<Value>,
    /// `Success`, or `Failure` with a message.
    #[serde(default)]
    pub result: Status,
}

impl ConversionReview {
    /// The envelope of an answer.
    pub fn answer(response: ConversionResponse) -> Self {
        Self {
            api_version: CONVERSION_VERSION.to_owned(),
            kind: "ConversionReview".to_owned(),
            request: None,
            response: Some(response),
        }
    }
}

impl fmt::Debug for ConversionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversionRequest")
            .field("uid", &self.uid)
            .field("desired_api_version", &self.desired_api_version)
            .field("objects", &self.objects.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ConversionResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversionResponse")
            .field("uid", &self.uid)
            .field("converted_objects", &self.converted_objects.len())
            .field("result", &self.result)
            .finish()
    }
}
