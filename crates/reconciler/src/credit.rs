//! Whether a write made the version that it was answered with.
//!
//! A write that changes nothing is answered with the version that the object had, which somebody
//! else may have made. No answer says which of the two it was. This is what can be known:
//!
//! - A write that is answered with 201 has created the object.
//! - A request that names a version is refused if the object has another one. So it has changed the
//!   object if, and only if, the answer has a version that it did not name. Every update and every
//!   modification by [`Live`](crate::Live) names one.
//! - A version that a cache has shown before the request was sent is not by the write.
//! - The object notes who changed its fields, and when, to the second (`metadata.managedFields`).
//!   If the controller was the last, and nobody else changed a field in the same second, the
//!   version is the controller's. Neither a deletion nor the removal of a field is noted there.
//!
//! Whatever is not known by this counts as somebody else's: a cause that says less is better than
//! one that is wrong.

use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use windlass_indexer::{Head, ResourceVersion};

/// What is known before a write is sent.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// The name in which the request writes fields.
    manager: Option<String>,
    /// The version that the request names.
    named: Option<ResourceVersion>,
    /// The version that a cache shows.
    shown: Option<ResourceVersion>,
}

/// What is read of a request, or of an answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    resource_version: Option<String>,
    managed_fields: Vec<Manager>,
}

/// Somebody who has written fields, and when.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Manager {
    manager: String,
    time: String,
}

impl Before {
    /// Of a request with this body, of the controller `manager`, whose object is `shown` by a cache
    /// in this version.
    pub(crate) fn of(body: &[u8], manager: Option<String>, shown: Option<ResourceVersion>) -> Self {
        // A list of operations, or YAML, is not looked into.
        let object: Object = serde_json::from_slice(body).unwrap_or_default();
        let named = object.metadata.resource_version.as_deref();
        // These two ask for no version in particular.
        let named = named.filter(|named| !matches!(*named, "" | "0")).map(ResourceVersion::new);
        Self { manager, named, shown }
    }

    /// Whether the version in the answer is known to be by the write.
    pub(crate) fn is_changed(&self, status: StatusCode, head: &Head, answer: &[u8]) -> bool {
        if status == StatusCode::CREATED {
            return true;
        }
        if let Some(named) = &self.named {
            return head.resource_version() != named;
        }
        let is_shown = self.shown.as_ref().is_some_and(|shown| head.resource_version() <= shown);
        let is_last = |manager: &String| is_last(manager, answer);
        !is_shown
            && head.deletion_timestamp().is_none()
            && self.manager.as_ref().is_some_and(is_last)
    }
}

/// Whether a manager changed the object after all others.
fn is_last(manager: &str, answer: &[u8]) -> bool {
    let object: Object = serde_json::from_slice(answer).unwrap_or_default();
    let managers = &object.metadata.managed_fields;
    let times = |of: bool| {
        let named = managers.iter().filter(move |entry| (entry.manager == manager) == of);
        named.map(|entry| entry.time.parse::<Timestamp>().ok())
    };
    let Some(ours) = times(true).flatten().max() else { return false };
    // An entry without a time may be the last one.
    times(false).all(|theirs| theirs.is_some_and(|theirs| theirs < ours))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_indexer::{HeadParser, Interner};

    use super::*;

    const OK: StatusCode = StatusCode::OK;

    /// An object of version 7 with these managers, and the second in which each wrote last; 0 for
    /// one that does not say.
    fn object(managers: &[(&str, u32)]) -> Value {
        let entry = |(manager, second): &(&str, u32)| match second {
            0 => json!({"manager": manager, "operation": "Update", "subresource": "scale"}),
            _ => json!({"manager": manager, "time": format!("2026-01-01T00:00:{second:02}Z")}),
        };
        let managers: Vec<_> = managers.iter().map(entry).collect();
        json!({"metadata": {"name": "one", "resourceVersion": "7", "managedFields": managers}})
    }

    /// Known before a write of ours.
    fn before(named: Option<&str>, shown: Option<&str>) -> Before {
        let (named, shown) = (named.map(ResourceVersion::new), shown.map(ResourceVersion::new));
        Before { manager: Some("us".into()), named, shown }
    }

    fn is_changed(before: &Before, status: StatusCode, answer: &Value) -> bool {
        let answer = answer.to_string().into_bytes();
        let head = HeadParser::new(Interner::new()).parse(&answer).expect("a head");
        before.is_changed(status, &head, &answer)
    }

    #[test]
    fn what_was_created_is_ours() {
        assert!(is_changed(&before(None, None), StatusCode::CREATED, &object(&[])));
    }

    #[test]
    fn version_that_the_request_named_is_not_ours_and_any_other_is() {
        let naming = |text| before(Some(text), Some("7"));
        assert!(!is_changed(&naming("7"), OK, &object(&[("us", 5)])));
        assert!(is_changed(&naming("6"), OK, &object(&[("others", 5)])));
    }

    #[test]
    fn version_that_was_shown_before_is_not_ours() {
        let shown = |text| before(None, Some(text));
        let by_us = object(&[("us", 5), ("others", 4)]);
        assert!(is_changed(&shown("6"), OK, &by_us));
        assert!(!is_changed(&shown("7"), OK, &by_us));
        assert!(!is_changed(&shown("8"), OK, &by_us));
    }

    #[test]
    fn last_writer_is_known_to_the_second() {
        let is_ours = |managers| is_changed(&before(None, None), OK, &object(managers));
        assert!(is_ours(&[("us", 5)]));
        assert!(is_ours(&[("us", 3), ("others", 4), ("us", 5)]));
        assert!(!is_ours(&[("us", 5), ("others", 5)]));
        assert!(!is_ours(&[("us", 5), ("others", 6)]));
        assert!(!is_ours(&[("us", 5), ("others", 0)]));
        assert!(!is_ours(&[("others", 5)]));
        assert!(!is_ours(&[]));
    }

    #[test]
    fn version_of_an_object_that_is_being_deleted_may_be_the_deletion() {
        let mut deleted = object(&[("us", 5)]);
        deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:06Z".into();
        assert!(!is_changed(&before(None, None), OK, &deleted));
    }

    #[test]
    fn version_is_read_from_the_request() {
        let cases = [
            (r#"{"metadata":{"resourceVersion":"7"},"spec":{"a":[1]}}"#, Some("7")),
            (r#"{"metadata":{"resourceVersion":"0"}}"#, None),
            (r#"{"metadata":{"resourceVersion":""}}"#, None),
            (r#"{"metadata":{}}"#, None),
            (r#"[{"op":"remove","path":"/data"}]"#, None),
            ("metadata:\n  resourceVersion: '7'\n", None),
            ("", None),
        ];
        for (body, expected) in cases {
            let named = Before::of(body.as_bytes(), None, None).named;
            assert_eq!(named, expected.map(ResourceVersion::new), "{body}");
        }
    }
}
