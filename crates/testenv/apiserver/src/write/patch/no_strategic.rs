//! Replaces strategic merge patches if the feature `kubectl` is off: every patch is refused.

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::json;
use crate::write::decode::Decoder;

/// A parsed patch, of which there is none.
#[derive(Debug)]
pub(crate) enum StrategicPatch {}

impl StrategicPatch {
    pub(super) fn parse(_: json::ParsedJson) -> Result<Self, Failure> {
        Err(Failure::unsupported_body(
            "strategic merge patches without the feature `kubectl` of windlass-apiserver",
            "turn it on, or send application/merge-patch+json or application/apply-patch+yaml",
        ))
    }

    pub(super) fn apply(
        &self,
        _: &Decoder<'_>,
        _: Map<String, Value>,
    ) -> Result<Map<String, Value>, Failure> {
        match *self {}
    }

    pub(super) fn apply_to_scale(&self, _: Value) -> Result<Value, Failure> {
        match *self {}
    }
}
