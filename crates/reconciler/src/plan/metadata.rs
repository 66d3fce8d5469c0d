//! What a plan reads of an object to check a write.
//!
//! Objects stay text, because they may be nested so deeply that a value of them must not be dropped
//! on any thread: see [`windlass_nesting`].

use windlass_nesting::read_object;

/// What is known of an object; nothing if a text is none.
#[derive(Clone, Debug, Default)]
pub(super) struct Metadata {
    pub(super) name: Option<String>,
    /// Whether the server makes up the name.
    pub(super) has_generated_name: bool,
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
    pub(super) is_being_deleted: bool,
}

impl Metadata {
    /// That of an object; `None` if it is not JSON, or too deep.
    pub(super) fn of(json: &[u8]) -> Option<Self> {
        read_object(json, |object| {
            let metadata = &object["metadata"];
            let text = |field: &str| {
                metadata[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
            };
            Self {
                name: text("name"),
                has_generated_name: metadata["generateName"].is_string(),
                uid: text("uid"),
                version: text("resourceVersion"),
                is_being_deleted: !metadata["deletionTimestamp"].is_null(),
            }
        })
    }
}
