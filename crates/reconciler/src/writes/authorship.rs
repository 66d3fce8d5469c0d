//! Decides whether a write changed its object, which means that it made the version that is in its
//! answer. The journal needs it to link an event to the run that caused it, and to find hot loops.
//!
//! The answer to a write that changes nothing has the version that the object had before, which
//! somebody else may have made. No answer says which of the two it is. This is what can be known:
//!
//! - If the status is 201, the write has created the object.
//! - If the request names a version, the server refuses it unless the object has that version. So
//!   the write has changed the object if, and only if, the answer has another one.
//!   [`Live`](crate::Live) names one in `update`, `update_status` and `modify`, and in a `delete`
//!   that is bound to a version.
//! - A version that a cache showed before the request was sent was not made by the write, so the
//!   write has changed nothing.
//! - `metadata.managedFields` says when each manager last changed fields, to the second. If the
//!   controller's entry is the newest, and no other manager has the same second, the controller
//!   made the version. This is a guess in two cases: an earlier write of the controller may have
//!   made the version, if no cache shows it yet; and somebody else may have removed a field, which
//!   can leave no entry. A deletion leaves none either, so an object that is being deleted is not
//!   judged by this rule.
//!
//! In all other cases the effect is unknown, and the version is not attributed to the write: the
//! report then lacks a link between two runs, which is better than a wrong one.

use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;
use windlass_indexer::{Head, ResourceVersion};
use windlass_nesting::read_object;

/// Whether a write changed its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteEffect {
    /// It did. If no cache of the controller shows the version in the answer, and the controller
    /// was the last to change the object, an earlier write may have made that version instead.
    Changed,
    /// It did not, as an apply that found what it wanted.
    Unchanged,
    /// The answer does not tell. This happens after a patch without a field manager, after a write
    /// to an object that somebody else changed later or in the same second, and after a write to
    /// an object that is being deleted, such as a delete that waits for a finalizer.
    Unknown,
}

/// What is known before a write is sent.
#[derive(Default)]
pub(crate) struct BeforeWrite {
    /// The field manager of the request.
    manager: Option<String>,
    /// The version that the request names.
    named: Option<ResourceVersion>,
    /// The newest version that a cache shows.
    shown: Option<ResourceVersion>,
}

impl BeforeWrite {
    /// What is known about a request with this body and field manager, for an object that a cache
    /// shows in the version `shown`.
    pub(crate) fn of(body: &[u8], manager: Option<String>, shown: Option<ResourceVersion>) -> Self {
        // A JSON patch or YAML is not read.
        let named = read_object(body, |body| {
            let named = body["metadata"]["resourceVersion"].as_str();
            // A delete has it in its options.
            let named = named.or_else(|| body["preconditions"]["resourceVersion"].as_str());
            // These two mean any version.
            named.filter(|named| !matches!(*named, "" | "0")).map(ResourceVersion::new)
        });
        Self { manager, named: named.flatten(), shown }
    }

    /// The version that the request names.
    pub(crate) fn named(&self) -> Option<&ResourceVersion> {
        self.named.as_ref()
    }

    /// What the answer says about the effect of the write.
    pub(crate) fn effect(&self, status: StatusCode, head: &Head, answer: &[u8]) -> WriteEffect {
        let version = head.resource_version();
        if status == StatusCode::CREATED {
            return WriteEffect::Changed;
        }
        if let Some(named) = &self.named {
            return if version == named { WriteEffect::Unchanged } else { WriteEffect::Changed };
        }
        if self.shown.as_ref() == Some(version) {
            return WriteEffect::Unchanged;
        }
        // The answer is older than the cache: the cluster was restored from a backup.
        let is_older = self.shown.as_ref().is_some_and(|shown| version < shown);
        let is_last = |manager: &String| wrote_last(manager, answer);
        let is_ours = !is_older
            && head.deletion_timestamp().is_none()
            && self.manager.as_ref().is_some_and(is_last);
        if is_ours { WriteEffect::Changed } else { WriteEffect::Unknown }
    }
}

/// Whether a manager changed the object after all others.
fn wrote_last(manager: &str, answer: &[u8]) -> bool {
    let wrote_last = read_object(answer, |object| {
        let managers = object["metadata"]["managedFields"].as_array();
        let managers = managers.map_or(&[][..], Vec::as_slice);
        let times_of = |is_ours: bool| {
            let is_named = move |entry: &&Value| (entry["manager"] == manager) == is_ours;
            let named = managers.iter().filter(is_named);
            named.map(|entry| entry["time"].as_str()?.parse::<Timestamp>().ok())
        };
        let Some(ours) = times_of(true).flatten().max() else { return false };
        // An entry without a time may be the last one.
        times_of(false).all(|theirs| theirs.is_some_and(|theirs| theirs < ours))
    });
    wrote_last.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_indexer::HeadParser;

    use super::WriteEffect::{Changed, Unchanged, Unknown};
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
    fn before(named: Option<&str>, shown: Option<&str>) -> BeforeWrite {
        let (named, shown) = (named.map(ResourceVersion::new), shown.map(ResourceVersion::new));
        BeforeWrite { manager: Some("us".into()), named, shown }
    }

    fn effect(before: &BeforeWrite, status: StatusCode, answer: &Value) -> WriteEffect {
        let answer = answer.to_string().into_bytes();
        let head = HeadParser::default().parse(&answer).expect("a head");
        before.effect(status, &head, &answer)
    }

    #[test]
    fn what_was_created_is_ours() {
        assert_eq!(effect(&before(None, None), StatusCode::CREATED, &object(&[])), Changed);
    }

    #[test]
    fn version_that_the_request_named_is_not_ours_and_any_other_is() {
        let naming = |text| before(Some(text), Some("7"));
        assert_eq!(effect(&naming("7"), OK, &object(&[("us", 5)])), Unchanged);
        assert_eq!(effect(&naming("6"), OK, &object(&[("others", 5)])), Changed);
    }

    #[test]
    fn version_that_was_shown_before_is_not_ours() {
        let shown = |text| before(None, Some(text));
        let by_us = object(&[("us", 5), ("others", 4)]);
        assert_eq!(effect(&shown("6"), OK, &by_us), Changed);
        assert_eq!(effect(&shown("7"), OK, &by_us), Unchanged);
        assert_eq!(effect(&shown("8"), OK, &by_us), Unknown);
    }

    #[test]
    fn last_writer_is_known_to_the_second() {
        let by_last = |managers| effect(&before(None, None), OK, &object(managers));
        assert_eq!(by_last(&[("us", 5)]), Changed);
        assert_eq!(by_last(&[("us", 3), ("others", 4), ("us", 5)]), Changed);
        assert_eq!(by_last(&[("us", 5), ("others", 5)]), Unknown);
        assert_eq!(by_last(&[("us", 5), ("others", 6)]), Unknown);
        assert_eq!(by_last(&[("us", 5), ("others", 0)]), Unknown);
        assert_eq!(by_last(&[("others", 5)]), Unknown);
        assert_eq!(by_last(&[]), Unknown);
    }

    #[test]
    fn version_of_an_object_that_is_being_deleted_may_be_the_deletion() {
        let mut deleted = object(&[("us", 5)]);
        deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:06Z".into();
        assert_eq!(effect(&before(None, None), OK, &deleted), Unknown);
    }

    #[test]
    fn version_is_read_from_the_request() {
        let cases = [
            (r#"{"metadata":{"resourceVersion":"7"},"spec":{"a":[1]}}"#, Some("7")),
            (r#"{"metadata":{"resourceVersion":"0"}}"#, None),
            (r#"{"metadata":{"resourceVersion":""}}"#, None),
            (r#"{"preconditions":{"uid":"u","resourceVersion":"7"}}"#, Some("7")),
            (r#"{"preconditions":{"uid":"u"}}"#, None),
            (r#"{"metadata":{}}"#, None),
            (r#"[{"op":"remove","path":"/data"}]"#, None),
            ("metadata:\n  resourceVersion: '7'\n", None),
            ("", None),
        ];
        for (body, expected) in cases {
            let named = BeforeWrite::of(body.as_bytes(), None, None).named;
            assert_eq!(named, expected.map(ResourceVersion::new), "{body}");
        }
    }
}
