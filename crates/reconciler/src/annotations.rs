//! Reads an annotation of a cached object without decoding the object.
//!
//! Heads have no annotations, because most of them are long and nobody reads them. So they are read
//! from the bytes of the object, after a search that rules out most objects. A resident cache has
//! no bytes, so building a controller that reads annotations from one is an error.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use windlass_indexer::Object;

#[derive(Deserialize)]
struct OnlyMetadata<'a> {
    #[serde(borrow)]
    metadata: OnlyAnnotations<'a>,
}

#[derive(Deserialize)]
struct OnlyAnnotations<'a> {
    #[serde(borrow, default)]
    annotations: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
}

/// The value of an annotation.
pub(crate) fn annotation(object: &Object, name: &str) -> Option<String> {
    let text = std::str::from_utf8(object.bytes()?).ok()?;
    // Servers write names of annotations as they are, without escapes.
    if !text.contains(name) {
        return None;
    }
    let object: OnlyMetadata<'_> = serde_json::from_str(text).ok()?;
    object.metadata.annotations?.remove(name).map(Cow::into_owned)
}
