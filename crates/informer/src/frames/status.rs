//! A Status: how the API server says that something failed, as a body or as an ERROR event.
//!
//! Read leniently: what is missing is empty, and what is unknown is ignored, since a Status that cannot be
//! read would hide the reason behind it.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// The longest message that is kept, in bytes: messages end up in logs.
const MESSAGE_MAX: usize = 2_048;

/// A failure that the API server reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The HTTP status code that belongs to it; 0 if it does not say.
    pub code: u16,
    /// One word for machines, as in `Expired`; may be empty.
    pub reason: String,
    /// A sentence for people, cut short after 2 KiB; may be empty.
    pub message: String,
    /// How long to wait before the next try, if the server says so.
    pub retry_after: Option<Duration>,
    /// More about the reason, as in `ResourceVersionTooLarge`.
    pub causes: Vec<StatusCause>,
    /// With `Expired`: a token that continues the list, though not from the same moment.
    pub continue_token: Option<String>,
}

/// One cause of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StatusCause {
    /// One word for machines.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// The field that it is about; may be empty.
    pub field: String,
}

/// A Status as it is sent. Go leaves out what is empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Sent {
    metadata: SentMetadata,
    message: Option<String>,
    reason: Option<String>,
    details: Option<SentDetails>,
    code: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SentMetadata {
    #[serde(rename = "continue")]
    continue_token: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SentDetails {
    causes: Option<Vec<StatusCause>>,
    #[serde(rename = "retryAfterSeconds")]
    retry_after_seconds: Option<i64>,
}

impl Status {
    /// Reads a Status. `None` if this is not one, and no more, since serde's errors quote what they read.
    pub(super) fn parse(object: &[u8]) -> Option<Self> {
        let sent: Sent = serde_json::from_slice(object).ok()?;
        let details = sent.details.unwrap_or_default();
        let seconds = details.retry_after_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let mut causes = details.causes.unwrap_or_default();
        for cause in &mut causes {
            cut_short(&mut cause.message);
        }
        let mut message = sent.message.unwrap_or_default();
        cut_short(&mut message);
        Some(Self {
            code: sent.code.and_then(|code| u16::try_from(code).ok()).unwrap_or_default(),
            reason: sent.reason.unwrap_or_default(),
            message,
            // Zero is Go's way to say nothing.
            retry_after: seconds.filter(|&seconds| seconds > 0).map(Duration::from_secs),
            causes,
            continue_token: sent.metadata.continue_token.filter(|token| !token.is_empty()),
        })
    }

    /// Whether one of the causes has this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.causes.iter().any(|cause| cause.reason == reason)
    }
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

fn cut_short(message: &mut String) {
    if message.len() > MESSAGE_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        message.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_a_reflector_acts_on_is_read() {
        let status = Status::parse(
            br#"{"kind":"Status","apiVersion":"v1","metadata":{"continue":"abc"},"status":"Failure",
            "message":"Too large resource version: 9, current: 7","reason":"Timeout","details":{"causes":[
            {"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],
            "retryAfterSeconds":1},"code":504}"#,
        )
        .expect("a Status");
        assert_eq!(status.code, 504);
        assert_eq!(status.retry_after, Some(Duration::from_secs(1)));
        assert_eq!(status.continue_token.as_deref(), Some("abc"));
        assert!(status.has_cause("ResourceVersionTooLarge"));
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
    }

    #[test]
    fn a_long_message_is_cut_short() {
        let body = format!(r#"{{"message":"{}"}}"#, "ü".repeat(5_000));
        let message = Status::parse(body.as_bytes()).expect("a Status").message;
        assert!(message.len() <= MESSAGE_MAX + '…'.len_utf8() && message.ends_with('…'));
    }
}
