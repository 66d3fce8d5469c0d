//! An admission review, from the request to the answer.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::FutureExt as _;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;

use super::body::{Bodies, Read, Shortage};
use super::memory::Memory;
use super::{Answered, NO_UID, Refusal, Reviewed};
use crate::admission::Admission;
use crate::configuration::FailurePolicy;
use crate::cut::cut;
use crate::decode;
use crate::handler::{Answer, Failure};
use crate::hook::Hook;
use crate::metrics::{Outcome, WebhookMetrics};
use crate::review::{
    ADMISSION_VERSION, AdmissionRequest, AdmissionResponse, AdmissionReview, PatchType, Status,
};
use crate::timeout;
use crate::verdict::Verdict;
use crate::warnings;
use windlass_serve::LogLimit;

/// A webhook that is served at a path.
pub(crate) struct ServedHook {
    pub(crate) hook: Hook,
    pub(crate) path: Arc<str>,
    pub(crate) bodies: Bodies,
    pub(crate) metrics: WebhookMetrics,
    pub(crate) log: LogLimit,
}

impl ServedHook {
    /// Answers a request. Dropping the future drops that of the handler.
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
        let time = timeout::bound(request.uri().query(), self.hook.settings.timeout);
        let deadline = Instant::now() + time;
        let Read { bytes: body, counted, too_long } =
            super::body(request, &self.bodies, deadline).await?;
        if let Some(message) = too_long {
            return Ok(self.unreadable(&body, 413, &message)?.answered(counted)?);
        }
        let measured = windlass_nesting::measure(&body);
        let decoded = measured.memory.saturating_mul(self.hook.handler.copies());
        let memory = match counted.more(decoded) {
            Ok(memory) => Memory::new(memory, measured.memory),
            Err(Shortage::Now) => return Err(Shortage::Now.into()),
            Err(error @ Shortage::Ever) => {
                return Ok(self.unreadable(&body, 413, &error)?.answered(counted)?);
            }
        };
        let review = self.review(&body, memory, deadline);
        let reviewed = match super::with_stack_for(measured.depth, review).await {
            Ok(reviewed) => reviewed?,
            Err(error) => self.unreadable(&body, 400, &error)?,
        };
        drop(body);
        Ok(reviewed.answered(counted)?)
    }

    /// A denial, also if failures are ignored: otherwise somebody could get past the webhook with
    /// an object that it cannot read.
    fn unreadable(&self, body: &[u8], code: u16, error: &dyn Display) -> Result<Reviewed, Refusal> {
        let Some(uid) = super::uid_of(body) else {
            return Err(Refusal::with_code(code, error));
        };
        let response = self.denied_unread(&uid, code, error);
        Ok(Self::reviewed(uid, response, Outcome::Refused))
    }

    fn denied_unread(&self, uid: &str, code: u16, error: &dyn Display) -> AdmissionResponse {
        let message = format!("the review cannot be read: {error}");
        if let Some(line) = self.log.line("unreadable") {
            let path = &*self.path;
            tracing::warn!(path, uid, left_out = line.left_out, "refused: {message}");
        }
        denied(code, &message)
    }

    async fn review(
        &self,
        body: &[u8],
        memory: Memory,
        deadline: Instant,
    ) -> Result<Reviewed, Refusal> {
        let mut review = super::parse(body)?;
        let Some(uid) = super::uid(&review) else {
            super::check_type(&review, ADMISSION_VERSION, "AdmissionReview")
                .map_err(Refusal::bad_request)?;
            return Err(Refusal::bad_request(NO_UID));
        };
        let (response, outcome) = match self.request(&mut review) {
            Ok(request) => self.ask(Admission::new(request), memory, deadline).await?,
            Err(message) => {
                if let Some(line) = self.log.line("another resource") {
                    let path = &*self.path;
                    tracing::warn!(path, uid, left_out = line.left_out, "refused: {message}");
                }
                (denied(400, &message), Outcome::Refused)
            }
        };
        Ok(Self::reviewed(uid, response, outcome))
    }

    fn reviewed(uid: String, response: AdmissionResponse, outcome: Outcome) -> Reviewed {
        let review = AdmissionReview::answer(AdmissionResponse { uid, ..response });
        Reviewed::new(&review, outcome)
    }

    /// The request of a review, if it is one for this webhook.
    fn request(&self, review: &mut Value) -> Result<AdmissionRequest, String> {
        super::check_type(review, ADMISSION_VERSION, "AdmissionReview")?;
        let request = review.get_mut("request").map(Value::take).unwrap_or_default();
        let request: AdmissionRequest = serde_json::from_value(request)
            .map_err(|error| format!("the request is invalid: {}", decode::problem(&error)))?;
        let (target, asked) = (&self.hook.target, &request.resource);
        let is_it = asked.group == target.group
            && asked.version == target.version
            && asked.resource == target.plural;
        // Further rules may be about anything.
        if is_it || !self.hook.settings.rules.is_empty() {
            return Ok(request);
        }
        Err(format!(
            "the webhook at {} is for {} {}, and was called for {}: its configuration does not \
             fit it",
            self.path,
            target.api_version,
            target.plural,
            cut(&asked.to_string())
        ))
    }

    /// Calls the handler, within its time.
    async fn ask(
        &self,
        cx: Admission,
        memory: Memory,
        deadline: Instant,
    ) -> Result<(AdmissionResponse, Outcome), Refusal> {
        let span = tracing::info_span!(
            "admission",
            path = &*self.path,
            uid = cx.uid(),
            operation = cx.verb().as_str(),
            kind = cut(&cx.kind().kind),
            subresource = cx.subresource().map(cut),
            namespace = cut(cx.namespace()),
            name = cut(cx.name()),
            dry_run = cx.is_dry_run(),
        );
        self.call(&cx, memory, deadline).instrument(span).await
    }

    async fn call(
        &self,
        cx: &Admission,
        memory: Memory,
        deadline: Instant,
    ) -> Result<(AdmissionResponse, Outcome), Refusal> {
        // The handler's own state after a panic is its own responsibility.
        let handled = async { self.hook.handler.handle(cx, memory).await };
        let handled = AssertUnwindSafe(handled).catch_unwind();
        Ok(match timeout_at(deadline, handled).await {
            Ok(Ok(Ok(answer))) => match answer.verdict.failure() {
                None => answered(answer, cx, &self.log),
                Some(message) => {
                    if let Some(line) = self.log.line("undecided") {
                        tracing::error!(left_out = line.left_out, "the handler could not decide");
                    }
                    (self.failed(500, message), Outcome::Error)
                }
            },
            Ok(Ok(Err(failure))) => {
                let (code, message) = match &failure {
                    Failure::BadRequest(message) => (400, message),
                    Failure::Internal(message) => (500, message),
                    Failure::Memory(Shortage::Now) => return Err(Shortage::Now.into()),
                    Failure::Memory(error @ Shortage::Ever) => {
                        let response = self.denied_unread(cx.uid(), 413, error);
                        return Ok((response, Outcome::Refused));
                    }
                };
                if let Some(line) = self.log.line("not asked") {
                    tracing::error!(
                        left_out = line.left_out,
                        "the handler was not asked, or not understood: {message}"
                    );
                }
                (self.failed(code, message), Outcome::Error)
            }
            Ok(Err(_panic)) => {
                if let Some(line) = self.log.line("panic") {
                    tracing::error!(
                        left_out = line.left_out,
                        "the handler panicked: the panic hook's message says where"
                    );
                }
                self.metrics.panics.inc();
                (self.failed(500, "the webhook panicked"), Outcome::Panic)
            }
            Err(_elapsed) => {
                if let Some(line) = self.log.line("timeout") {
                    tracing::error!(
                        left_out = line.left_out,
                        "the handler was dropped: it took too long"
                    );
                }
                (self.failed(504, "the webhook did not answer in time"), Outcome::Timeout)
            }
        })
    }

    /// What the failure policy says about a request whose handler failed.
    fn failed(&self, code: u16, message: &str) -> AdmissionResponse {
        match self.hook.settings.failure_policy {
            FailurePolicy::Fail => denied(code, message),
            FailurePolicy::Ignore => {
                let warning = format!("the request goes on without a webhook: {message}");
                AdmissionResponse {
                    allowed: true,
                    warnings: warnings::bounded(vec![warning]),
                    ..AdmissionResponse::default()
                }
            }
        }
    }
}

fn answered(answer: Answer, cx: &Admission, log: &LogLimit) -> (AdmissionResponse, Outcome) {
    let Answer { verdict, patch } = answer;
    let response = response(verdict, cx, log);
    let outcome = if response.allowed { Outcome::Allowed } else { Outcome::Denied };
    let code = response.status.as_ref().map(|status| status.code);
    tracing::debug!(allowed = response.allowed, code, patched = patch.is_some(), "answered");
    let Some(patch) = patch else { return (response, outcome) };
    let bytes = serde_json::to_vec(&patch).expect("a patch of JSON values must serialize");
    let patch = Some(BASE64_STANDARD.encode(bytes));
    (AdmissionResponse { patch, patch_type: Some(PatchType::JsonPatch), ..response }, outcome)
}

fn response(verdict: Verdict, cx: &Admission, log: &LogLimit) -> AdmissionResponse {
    let kind = cx.kind();
    let status = verdict.refusal(cut(&kind.group), cut(&kind.kind), cut(cx.name()));
    let allowed = verdict.is_allowed();
    let (warnings, audit_annotations) = verdict.into_remarks(log);
    AdmissionResponse {
        allowed,
        status,
        audit_annotations,
        warnings,
        ..AdmissionResponse::default()
    }
}

fn denied(code: u16, message: &str) -> AdmissionResponse {
    let status = Some(Status::failure(code, message));
    AdmissionResponse { status, ..AdmissionResponse::default() }
}
