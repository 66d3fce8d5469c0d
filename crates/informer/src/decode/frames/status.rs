//! A Status: how the API server reports a failure, as a body or as an ERROR event.
//!
//! It is read leniently, because an unreadable Status would hide the reason of a failure. What is
//! missing or has the wrong type is empty, except for the code.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// The longest message that is kept, in bytes, because messages are logged.
const MESSAGE_MAX: usize = 2_048;

/// A failure that the API server reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The HTTP status code; 0 if there is none.
    pub code: u16,
    /// One word for machines, such as `Expired`. May be empty.
    pub reason: String,
    /// A sentence for people, cut after 2 KiB. May be empty.
    pub message: String,
    /// How long to wait before the next request, if the server says so.
    pub retry_after: Option<Duration>,
    /// More about the reason, such as `ResourceVersionTooLarge`.
    pub causes: Vec<StatusCause>,
}

/// One cause of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatusCause {
    /// One word for machines.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// The field that it is about. May be empty.
    pub field: String,
}

/// The longest wait that a server can ask for. A longer one is a mistake and could overflow a
/// clock.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

impl Status {
    /// Reads a Status. `None` if the bytes are no JSON object or the code is no number.
    pub(crate) fn parse(object: &[u8]) -> Option<Self> {
        Self::of(&serde_json::from_slice(object).ok()?)
    }

    /// Reads a Status. `None` if it is no object or the code is no number.
    pub(crate) fn of(sent: &Value) -> Option<Self> {
        let details = &sent["details"];
        let code = &sent["code"];
        let causes = details["causes"].as_array().into_iter().flatten().map(|cause| StatusCause {
            reason: text(&cause["reason"]),
            message: cut_short(text(&cause["message"])),
            field: text(&cause["field"]),
        });
        // Go writes zero and the empty string where it has none.
        let retry_seconds = details["retryAfterSeconds"].as_u64().filter(|&seconds| seconds > 0);
        (sent.is_object() && (code.is_null() || code.is_number())).then(|| Self {
            code: code.as_f64().map_or(0, whole_code),
            reason: text(&sent["reason"]),
            message: cut_short(text(&sent["message"])),
            retry_after: retry_seconds
                .map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX)),
            causes: causes.collect(),
        })
    }
}

/// A string; empty if the value is of another type.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The code of a status, also if it was written as `410.0`; 0 if it is not a code.
fn whole_code(code: f64) -> u16 {
    format!("{code:.0}").parse().unwrap_or_default()
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.code)?;
        if !self.reason.is_empty() {
            write!(f, " ({})", self.reason)?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

fn cut_short(mut message: String) -> String {
    if message.len() > MESSAGE_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_a_reflector_acts_on_is_read() {
        let status = Status::parse(
            br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
            "message":"Too large resource version: 9, current: 7","reason":"Timeout",
            "details":{"causes":[
                {"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],
            "retryAfterSeconds":1},"code":504}"#,
        )
        .expect("a Status");
        assert_eq!(status.code, 504);
        assert_eq!(status.retry_after, Some(Duration::from_secs(1)));
        assert_eq!(status.causes[0].reason, "ResourceVersionTooLarge");
        assert_eq!(
            status.to_string(),
            "status 504 (Timeout): Too large resource version: 9, current: 7"
        );
    }

    #[test]
    fn a_status_may_leave_out_everything() {
        assert_eq!(Status::parse(b"{}"), Some(Status::default()));
        assert_eq!(Status::parse(br#"{"code":-1,"details":null}"#), Some(Status::default()));
        assert_eq!(Status::parse(br#"{"code":"x"}"#), None);
        assert_eq!(Status::parse(b"[]"), None);
    }

    #[test]
    fn a_long_message_is_cut_short() {
        let body = format!(r#"{{"message":"{}"}}"#, "ü".repeat(5_000));
        let message = Status::parse(body.as_bytes()).expect("a Status").message;
        assert!(message.len() <= MESSAGE_MAX + '…'.len_utf8() && message.ends_with('…'));
    }

    #[test]
    fn what_is_odd_costs_neither_the_code_nor_the_clock() {
        let status = |text: &str| Status::parse(text.as_bytes()).expect("a status");
        assert_eq!(status(r#"{"metadata":null,"code":410.0,"reason":"Expired"}"#).code, 410);
        let odd = status(r#"{"code":410,"details":{"causes":[{"reason":"R","message":null}]}}"#);
        assert!(odd.code == 410 && odd.causes[0].reason == "R", "{odd:?}");
        assert_eq!(status(r#"{"code":410,"details":7}"#).code, 410);
        let patient = status(r#"{"code":429,"details":{"retryAfterSeconds":9223372036854775807}}"#);
        assert_eq!(patient.retry_after, Some(RETRY_AFTER_MAX));
        assert_eq!(status(r#"{"code":-1}"#).code, 0);
    }
}
