//! A conversion review, from the request to the answer.

mod objects;

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument as _;
use windlass_nesting::{SHALLOW_MAX, StackError, with_stack_for};

use self::objects::Objects;
use super::body::{Bodies, Counted, Read, Shortage};
use super::memory::Memory;
use super::{Answered, NO_UID, Refusal, Reviewed};
use crate::convert::{Problem, Versions, group_version, keep, qualified};
use crate::cut::cut;
use crate::decode;
use crate::metrics::{Outcome, WebhookMetrics};
use crate::review::{
    CONVERSION_VERSION, ConversionRequest, ConversionResponse, ConversionReview, Status,
};
use crate::timeout::{self, CONVERSION_TIMEOUT};
use windlass_serve::LogLimit;

/// All conversions, which share a path.
pub(crate) struct ServedConversions {
    pub(crate) conversions: Vec<Versions>,
    pub(crate) path: Arc<str>,
    pub(crate) bodies: Bodies,
    pub(crate) metrics: WebhookMetrics,
    pub(crate) log: LogLimit,
}

/// Why a review fails: what to say, and what it is counted as.
type Failed = (String, Outcome);

/// Why objects are not converted.
#[derive(Debug)]
enum Stopped {
    Failed(String, Outcome),
    /// There is no review as an answer, and the API server may try again.
    Refused(Refusal),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Shortage> for Stopped {
    fn from(shortage: Shortage) -> Self {
        match shortage {
            Shortage::Ever => Self::Failed(shortage.to_string(), Outcome::Refused),
            Shortage::Now => Self::Refused(shortage.into()),
        }
    }
}

impl Stopped {
    /// What failed, with the object that it is about.
    fn about(self, object: &dyn Display) -> Self {
        match self {
            Self::Failed(message, outcome) => Self::Failed(format!("{object}: {message}"), outcome),
            Self::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

/// How often an object, or something as large, is in memory: as it came and as it was cloned, as
/// the types of both versions, as it is converted, and what that would be on the way back.
const COPIES: usize = 6;

/// The most bytes of a message.
const MESSAGE_MAX: usize = 1024;

impl ServedConversions {
    /// Answers a request. Dropping the future stops between two objects.
    pub(crate) async fn serve(self: Arc<Self>, request: Request) -> Response {
        let in_flight = self.metrics.begin(&self.path);
        let Answered { response, outcome } = self
            .answer(request)
            .await
            .unwrap_or_else(|refusal| refusal.answered(&self.path, &self.log));
        in_flight.finish(response.status(), outcome);
        response
    }

    async fn answer(&self, request: Request) -> Result<Answered, Refusal> {
        let time = timeout::bound(request.uri().query(), CONVERSION_TIMEOUT);
        let deadline = Instant::now() + time;
        let Read { bytes: body, counted, too_long } =
            super::body(request, &self.bodies, deadline).await?;
        let (reviewed, counted) = match too_long {
            Some(message) => (self.unreadable(&body, 413, &message)?, counted),
            None => self.review(&body, counted, deadline).await?,
        };
        drop(body);
        Ok(reviewed.answered(counted)?)
    }

    async fn review(
        &self,
        body: &[u8],
        mut counted: Counted,
        deadline: Instant,
    ) -> Result<(Reviewed, Counted), Refusal> {
        // Objects are decoded one after the other, so that only one is in memory at a time.
        let Some((envelope, objects)) = objects::take_out(body) else {
            return Ok((self.unreadable(body, 413, &Shortage::Ever)?, counted));
        };
        let measured = windlass_nesting::measure(&envelope);
        if measured.depth > SHALLOW_MAX {
            return Ok((self.unreadable(body, 400, &StackError::TooDeep)?, counted));
        }
        match counted.more(measured.memory.saturating_mul(COPIES)) {
            Ok(memory) => counted.merge(memory),
            Err(Shortage::Now) => return Err(Shortage::Now.into()),
            Err(error @ Shortage::Ever) => {
                return Ok((self.unreadable(body, 413, &error)?, counted));
            }
        }
        let mut review = super::parse(&envelope)?;
        let Some(uid) = super::uid(&review) else {
            super::check_type(&review, CONVERSION_VERSION, "ConversionReview")
                .map_err(Refusal::bad_request)?;
            return Err(Refusal::bad_request(NO_UID));
        };
        let request = match decoded(&mut review) {
            Ok(request) => request,
            Err(message) => return Ok((self.failed(uid, (message, Outcome::Refused)), counted)),
        };
        let span = tracing::info_span!(
            "conversion",
            path = &*self.path,
            uid = request.uid,
            to = cut(&request.desired_api_version),
            objects = objects.clone().count(),
        );
        let converted = self.convert(objects, &request, &mut counted, deadline);
        let reviewed = match converted.instrument(span).await {
            Ok(converted) => Self::converted(request.uid, &converted),
            Err(Stopped::Failed(message, outcome)) => self.failed(request.uid, (message, outcome)),
            Err(Stopped::Refused(refusal)) => return Err(refusal),
        };
        Ok((reviewed, counted))
    }

    /// The answer with these objects, which are written already.
    fn converted(uid: String, objects: &[u8]) -> Reviewed {
        let (converted_objects, result) = (Vec::new(), Status::success());
        let response = ConversionResponse { uid, converted_objects, result };
        let Reviewed { body, outcome } =
            Reviewed::new(&ConversionReview::answer(response), Outcome::Converted);
        let start = objects::list(&body, "response", "convertedObjects");
        let start = start.expect("an answer must have a list of objects");
        Reviewed { body: [&body[..start], objects, &body[start..]].concat(), outcome }
    }

    fn unreadable(&self, body: &[u8], code: u16, error: &dyn Display) -> Result<Reviewed, Refusal> {
        let Some(uid) = super::uid_of(body) else {
            return Err(Refusal::with_code(code, error));
        };
        let message = format!("the review cannot be read: {error}");
        Ok(self.failed(uid, (message, Outcome::Refused)))
    }

    fn failed(&self, uid: String, (mut message, outcome): Failed) -> Reviewed {
        // A converter may say what it was given.
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        if let Some(line) = self.log.line(outcome.as_str()) {
            tracing::warn!(uid, left_out = line.left_out, "a conversion failed: {message}");
        }
        let code = if outcome == Outcome::Refused { 400 } else { 500 };
        let result = Status::failure(code, message);
        let response = ConversionResponse { uid, converted_objects: Vec::new(), result };
        Reviewed::new(&ConversionReview::answer(response), outcome)
    }

    /// The objects as they are sent, with commas between them.
    async fn convert(
        &self,
        objects: Objects<'_>,
        request: &ConversionRequest,
        counted: &mut Counted,
        deadline: Instant,
    ) -> Result<Vec<u8>, Stopped> {
        let mut converted = Vec::new();
        for (at, object) in objects.enumerate() {
            if Instant::now() >= deadline {
                let message = "the conversion took too long: ask for fewer objects at a time";
                return Err(Stopped::Failed(message.to_owned(), Outcome::Timeout));
            }
            let short = |shortage| Stopped::from(shortage).about(&format_args!("object {at}"));
            let measured = windlass_nesting::measure(object);
            let memory = counted.more(measured.memory.saturating_mul(COPIES)).map_err(short)?;
            let memory = Memory::new(memory, measured.memory);
            let text = with_stack_for(measured.depth, || {
                self.convert_text(at, object, &request.desired_api_version, memory)
            });
            let text = text.map_err(|error| {
                Stopped::Failed(format!("object {at}: {error}"), Outcome::Refused)
            })??;
            // Twice, because the answer is made of them.
            let more = counted.more(2 * (text.len() + 1)).map_err(short)?;
            counted.merge(more);
            if at > 0 {
                converted.push(b',');
            }
            converted.extend_from_slice(&text);
            // Others get their turn, and a request that was given up ends here.
            tokio::task::yield_now().await;
        }
        Ok(converted)
    }

    /// Converts a text, on a stack that is large enough for it.
    fn convert_text(
        &self,
        at: usize,
        object: &[u8],
        to: &str,
        mut memory: Memory,
    ) -> Result<Vec<u8>, Stopped> {
        let object = super::parse(object).map_err(|_| {
            Refusal::bad_request(format!("object {at} of the review is not valid JSON"))
        })?;
        // A field that is kept in an annotation is nested once it is restored.
        let (depth, kept) = keep::measure(&object);
        let converted = memory.take(kept.saturating_mul(COPIES)).map_err(Stopped::from);
        let converted = converted.and_then(|()| {
            let converted = with_stack_for(depth, || {
                let converted = self.convert_one(&object, to, &mut memory)?;
                Ok(serde_json::to_vec(&converted).expect("a JSON value must serialize"))
            });
            converted
                .unwrap_or_else(|error| Err(Stopped::Failed(error.to_string(), Outcome::Refused)))
        });
        let about = || format!("object {at} ({})", name_of(&object));
        converted.map_err(|stopped| stopped.about(&about()))
    }

    fn convert_one(&self, object: &Value, to: &str, memory: &mut Memory) -> Result<Value, Stopped> {
        let refused = |message| Err(Stopped::Failed(message, Outcome::Refused));
        let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, (group, _)) = (text("kind"), group_version(text("apiVersion")));
        let is_it = |versions: &&Versions| versions.kind == kind && versions.group == group;
        let Some(versions) = self.conversions.iter().find(is_it) else {
            let kind = qualified(cut(kind), cut(group));
            return refused(format!("there is no conversion of {kind}"));
        };
        let (to_group, to_version) = group_version(to);
        if to_group != group {
            let kind = qualified(kind, group);
            return refused(format!("{kind} has no version {}", cut(to)));
        }
        // A converter has no state that a panic could break.
        match catch_unwind(AssertUnwindSafe(|| versions.convert(object, to_version, memory))) {
            Ok(Ok(converted)) => Ok(converted),
            Ok(Err(Problem::Memory(shortage))) => Err(shortage.into()),
            Ok(Err(problem)) => Err(Stopped::Failed(problem.to_string(), Outcome::Failed)),
            Err(_panic) => {
                if let Some(line) = self.log.line("converter panicked") {
                    tracing::error!(
                        left_out = line.left_out,
                        "a converter panicked: the panic hook's message says where"
                    );
                }
                self.metrics.conversion_panics.inc();
                Err(Stopped::Failed("the converter panicked".to_owned(), Outcome::Panic))
            }
        }
    }
}

fn decoded(review: &mut Value) -> Result<ConversionRequest, String> {
    super::check_type(review, CONVERSION_VERSION, "ConversionReview")?;
    let request = review.get_mut("request").map(Value::take).unwrap_or_default();
    let request: ConversionRequest = serde_json::from_value(request)
        .map_err(|error| format!("the request is invalid: {}", decode::problem(&error)))?;
    if request.objects.is_empty() {
        return Ok(request);
    }
    Err("the request is invalid: `objects` is written in an unusual way".to_owned())
}

/// The namespace and name of an object, for messages.
fn name_of(object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    match (cut(text("/metadata/namespace")), cut(text("/metadata/name"))) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}
