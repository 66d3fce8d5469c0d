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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    metadata: Option<SentMetadata>,
    message: Option<String>,
    reason: Option<String>,
    /// Read on its own: what is odd in it must not cost the code.
    details: serde_json::Value,
    code: Option<f64>,
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
    causes: Option<Vec<SentCause>>,
    #[serde(rename = "retryAfterSeconds")]
    retry_after_seconds: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SentCause {
    reason: Option<String>,
    message: Option<String>,
    field: Option<String>,
}

/// How long a server can ask to be left alone. More is a mistake, and would overflow a clock.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

impl Status {
    /// Reads a Status. `None` if this is not one, and no more, since serde's errors quote what they read.
    pub(crate) fn parse(object: &[u8]) -> Option<Self> {
        let sent: Sent = serde_json::from_slice(object).ok()?;
        let details: SentDetails = serde_json::from_value(sent.details).unwrap_or_default();
        let seconds = details.retry_after_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let causes = details.causes.unwrap_or_default().into_iter().map(|cause| {
            let mut message = cause.message.unwrap_or_default();
            cut_short(&mut message);
            let (reason, field) =
                (cause.reason.unwrap_or_default(), cause.field.unwrap_or_default());
            StatusCause { reason, message, field }
        });
        let mut message = sent.message.unwrap_or_default();
        cut_short(&mut message);
        Some(Self {
            code: sent.code.map_or(0, whole_code),
            reason: sent.reason.unwrap_or_default(),
            message,
            // Zero is Go's way to say nothing.
            retry_after: seconds
                .filter(|&seconds| seconds > 0)
                .map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX)),
            causes: causes.collect(),
            continue_token: sent
                .metadata
                .and_then(|metadata| metadata.continue_token)
                .filter(|token| !token.is_empty()),
        })
    }

    /// Whether one of the causes has this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        self.causes.iter().any(|cause| cause.reason == reason)
    }
}

/// The code of a status, however the number was written; 0 if it is none.
fn whole_code(code: f64) -> u16 {
    /// HTTP has no code beyond this.
    const CODE_MAX: f64 = 999.0;
    if (0.0..=CODE_MAX).contains(&code) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was just checked"
        )]
        return code as u16;
    }
    0
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

    #[test]
    fn what_is_odd_costs_neither_the_code_nor_the_clock() {
        let status = |text: &str| Status::parse(text.as_bytes()).expect("a status");
        assert_eq!(status(r#"{"metadata":null,"code":410.0,"reason":"Expired"}"#).code, 410);
        let odd = status(r#"{"code":410,"details":{"causes":[{"reason":"R","message":null}]}}"#);
        assert!(odd.code == 410 && odd.has_cause("R"), "{odd:?}");
        assert_eq!(status(r#"{"code":410,"details":7}"#).code, 410);
        let patient = status(r#"{"code":429,"details":{"retryAfterSeconds":9223372036854775807}}"#);
        assert_eq!(patient.retry_after, Some(RETRY_AFTER_MAX));
        assert_eq!(status(r#"{"code":-1}"#).code, 0);
    }
}
