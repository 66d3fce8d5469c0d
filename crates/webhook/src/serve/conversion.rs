//! A conversion review, from the request to the answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument as _;
use windlass_nesting::StackError;

use super::body::Bodies;
use super::{Answered, Refusal, Reviewed};
use crate::convert::{Versions, group_version, keep, qualified};
use crate::decode;
use crate::log_limit::LogLimit;
use crate::metrics::{Outcome, WebhookMetrics};
use crate::review::{
    CONVERSION_VERSION, ConversionRequest, ConversionResponse, ConversionReview, Status,
};
use crate::timeout::{self, CONVERSION_TIMEOUT};

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
        let (body, counted) = super::body(request, &self.bodies, deadline).await?;
        let depth = windlass_nesting::depth(&body);
        let reviewed = match super::with_stack_for(depth, self.review(&body, deadline)).await {
            Ok(reviewed) => reviewed?,
            Err(error) => self.unreadable(super::uid_of(&body)?, &error),
        };
        Ok(reviewed.answered(counted))
    }

    async fn review(&self, body: &[u8], deadline: Instant) -> Result<Reviewed, Refusal> {
        let mut review = super::parse(body)?;
        let Some(uid) = super::uid(&review) else {
            super::check_type(&review, CONVERSION_VERSION, "ConversionReview")
                .map_err(Refusal::bad_request)?;
            return Err(Refusal::bad_request("the review has no `request` with a `uid`"));
        };
        let request = match decoded(&mut review) {
            Ok(request) => request,
            Err(message) => return Ok(self.reviewed(uid, Err((message, Outcome::Refused)))),
        };
        // A field that is kept in an annotation is nested once it is restored.
        let depth = request.objects.iter().map(keep::depth).max().unwrap_or(0);
        let answer = async {
            let span = tracing::info_span!(
                "conversion",
                path = &*self.path,
                uid = request.uid,
                to = request.desired_api_version,
                objects = request.objects.len(),
            );
            let converted = self.convert(&request, deadline).instrument(span).await;
            self.reviewed(request.uid.clone(), converted)
        };
        let reviewed = super::with_stack_for(depth, answer).await;
        Ok(reviewed.unwrap_or_else(|error| self.unreadable(uid, &error)))
    }

    fn unreadable(&self, uid: String, error: &StackError) -> Reviewed {
        let message = format!("the review cannot be read: {error}");
        self.reviewed(uid, Err((message, Outcome::Refused)))
    }

    fn reviewed(&self, uid: String, converted: Result<Vec<Value>, Failed>) -> Reviewed {
        let (converted_objects, result, outcome) = match converted {
            Ok(objects) => (objects, Status::success(), Outcome::Converted),
            Err((message, outcome)) => {
                if let Some(line) = self.log.line(outcome.as_str()) {
                    tracing::warn!(uid, left_out = line.left_out, "a conversion failed: {message}");
                }
                let code = if outcome == Outcome::Refused { 400 } else { 500 };
                (Vec::new(), Status::failure(code, message), outcome)
            }
        };
        let response = ConversionResponse { uid, converted_objects, result };
        let review = ConversionReview::answer(response);
        Reviewed::new(&review, outcome)
    }

    async fn convert(
        &self,
        request: &ConversionRequest,
        deadline: Instant,
    ) -> Result<Vec<Value>, Failed> {
        let mut converted = Vec::with_capacity(request.objects.len());
        for (at, object) in request.objects.iter().enumerate() {
            if Instant::now() >= deadline {
                let message = "the conversion took too long: ask for fewer objects at a time";
                return Err((message.to_owned(), Outcome::Timeout));
            }
            let result = self.convert_one(object, &request.desired_api_version);
            let named = |message| format!("object {at} ({}): {message}", name_of(object));
            converted.push(result.map_err(|(message, outcome)| (named(message), outcome))?);
            // Others get their turn, and a request that was given up ends here.
            tokio::task::yield_now().await;
        }
        Ok(converted)
    }

    fn convert_one(&self, object: &Value, to: &str) -> Result<Value, Failed> {
        let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, (group, _)) = (text("kind"), group_version(text("apiVersion")));
        let is_it = |versions: &&Versions| versions.kind == kind && versions.group == group;
        let Some(versions) = self.conversions.iter().find(is_it) else {
            let message = format!("there is no conversion of {}", qualified(kind, group));
            return Err((message, Outcome::Refused));
        };
        let (to_group, to_version) = group_version(to);
        if to_group != group {
            let message = format!("{} has no version {to}", qualified(kind, group));
            return Err((message, Outcome::Refused));
        }
        // A converter has no state that a panic could break.
        match catch_unwind(AssertUnwindSafe(|| versions.convert(object, to_version))) {
            Ok(Ok(converted)) => Ok(converted),
            Ok(Err(problem)) => Err((problem.to_string(), Outcome::Failed)),
            Err(_panic) => {
                if let Some(line) = self.log.line("converter panicked") {
                    tracing::error!(
                        left_out = line.left_out,
                        "a converter panicked: the panic hook's message says where"
                    );
                }
                self.metrics.conversion_panics.inc();
                Err(("the converter panicked".to_owned(), Outcome::Panic))
            }
        }
    }
}

fn decoded(review: &mut Value) -> Result<ConversionRequest, String> {
    super::check_type(review, CONVERSION_VERSION, "ConversionReview")?;
    let request = review.get_mut("request").map(Value::take).unwrap_or_default();
    serde_json::from_value(request)
        .map_err(|error| format!("the request is invalid: {}", decode::problem(&error)))
}

/// The namespace and name of an object, for messages.
fn name_of(object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    match (text("/metadata/namespace"), text("/metadata/name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}
