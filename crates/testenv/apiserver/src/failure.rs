//! The answers to requests that fail: a `Status` as the real server writes it, or the plain text
//! for an unknown path.

use std::borrow::Cow;

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::field_error::{FieldError, join};
use crate::kind::Kind;

/// A refused or failed request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub(crate) code: StatusCode,
    /// `NotFound`, `Conflict` and so on; some answers of the real server have none.
    reason: Option<Cow<'static, str>>,
    message: String,
    details: Option<Value>,
    /// `metadata.continue`: lets the client continue an expired list, without consistency.
    continue_token: Option<Box<str>>,
    /// Seconds for the `Retry-After` header; the body repeats them.
    pub(crate) retry_after: Option<u64>,
}

impl Failure {
    pub(crate) fn new(
        code: StatusCode,
        reason: Option<&'static str>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            reason: reason.map(Cow::Borrowed),
            message: message.into(),
            details: None,
            continue_token: None,
            retry_after: None,
        }
    }

    fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    // 400

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Some("BadRequest"), message)
    }

    /// The 400 for a request that a real server supports and this one does not.
    pub(crate) fn unsupported(what: &str, instead: &str) -> Self {
        Self::bad_request(format!("this embedded API server does not support {what}; {instead}"))
    }

    // 401, 403

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, Some("Unauthorized"), "Unauthorized")
    }

    /// `name` is empty for a request about a whole collection.
    pub(crate) fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let subject = subject(&qualified(plural, group), name);
        Self::new(
            StatusCode::FORBIDDEN,
            Some("Forbidden"),
            format!("{subject} is forbidden: {why}"),
        )
        .with_details(details(name, group, plural))
    }

    /// The 403 for a path that is not about a resource.
    pub(crate) fn forbidden_path(why: &str) -> Self {
        let message = format!("forbidden: {why}");
        Self::new(StatusCode::FORBIDDEN, Some("Forbidden"), message).with_details(json!({}))
    }

    pub(crate) fn namespace_terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut failure = Self::forbidden(&kind.group, &kind.plural, name, &why);
        if let Some(Value::Object(details)) = &mut failure.details {
            let cause = json!([{
                "reason": "NamespaceTerminating",
                "message": format!("namespace {namespace} is being terminated"),
                "field": "metadata.namespace",
            }]);
            details.insert("causes".into(), cause);
        }
        failure
    }

    // 404, 405, 406

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::not_found_in(&kind.group, &kind.plural, name)
    }

    pub(crate) fn not_found_in(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(plural, group));
        Self::new(StatusCode::NOT_FOUND, Some("NotFound"), message)
            .with_details(details(name, group, plural))
    }

    /// The 404 for a resource that a built-in group does not have.
    pub(crate) fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, Some("NotFound"), message).with_details(json!({}))
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, Some("MethodNotAllowed"), message)
            .with_details(json!({}))
    }

    /// The error for a verb that a subresource of a custom resource does not have.
    pub(crate) fn verb_not_supported(kind: &Kind, verb: &str) -> Self {
        let resource = qualified(&kind.plural, &kind.group);
        let message = format!("{verb} is not supported on resources of kind {resource:?}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, Some("MethodNotAllowed"), message)
            .with_details(details("", &kind.group, &kind.plural))
    }

    /// The 406 for a representation that no API server has. `stream` says whether the answer could
    /// also be a watch.
    pub(crate) fn not_acceptable(stream: bool) -> Self {
        let mut message = "406: Not Acceptable\n\nAvailable representations: application/json, \
                           application/yaml, application/vnd.kubernetes.protobuf"
            .to_owned();
        if stream {
            message +=
                ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        }
        Self::new(StatusCode::NOT_ACCEPTABLE, Some("NotAcceptable"), message)
            .with_details(json!({}))
    }

    /// The 406 in the wording of custom resources.
    pub(crate) fn only_media_types() -> Self {
        let message = "only the following media types are accepted: application/json, \
                       application/yaml, application/vnd.kubernetes.protobuf";
        Self::new(StatusCode::NOT_ACCEPTABLE, Some("NotAcceptable"), message)
    }

    /// The 406 for representations that a real server has and this one does not.
    pub(crate) fn only_json() -> Self {
        let message = "only the following media types are accepted: application/json";
        Self::new(StatusCode::NOT_ACCEPTABLE, Some("NotAcceptable"), message)
    }

    // 409

    pub(crate) fn already_exists(kind: &Kind, name: &str, terminating: bool) -> Self {
        let prefix = if terminating { "object is being deleted: " } else { "" };
        let message =
            format!("{prefix}{} {name:?} already exists", qualified(&kind.plural, &kind.group));
        Self::new(StatusCode::CONFLICT, Some("AlreadyExists"), message).with_details(details(
            name,
            &kind.group,
            &kind.plural,
        ))
    }

    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(&kind.group, &kind.plural, name, why)
    }

    /// The 409 of a write. `what` is the plural, except if a precondition of a delete fails: then
    /// it is the kind.
    pub(crate) fn conflict(group: &str, what: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified(what, group));
        Self::new(StatusCode::CONFLICT, Some("Conflict"), message)
            .with_details(details(name, group, what))
    }

    /// The 409 of an apply that would change fields of other managers. `causes` are the conflicts,
    /// each with its field.
    pub(crate) fn apply_conflict(message: &str, causes: &[(String, String)]) -> Self {
        let causes: Vec<Value> = causes
            .iter()
            .map(|(why, field)| {
                json!({"reason": "FieldManagerConflict", "message": why, "field": field})
            })
            .collect();
        Self::new(StatusCode::CONFLICT, Some("Conflict"), message)
            .with_details(json!({ "causes": causes }))
    }

    /// The 429 of an eviction that the disruption budget does not allow.
    pub(crate) fn disruption_budget(why: &str, retry_after: Option<u64>) -> Self {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": why}]});
        if let Some(seconds) = retry_after {
            details["retryAfterSeconds"] = seconds.into();
        }
        let mut failure =
            Self::new(StatusCode::TOO_MANY_REQUESTS, Some("TooManyRequests"), message)
                .with_details(details);
        failure.retry_after = retry_after;
        failure
    }

    // 410, 413, 415

    pub(crate) fn list_too_old() -> Self {
        let message = "The resourceVersion for the provided list is too old.";
        Self::new(StatusCode::GONE, Some("Expired"), message)
    }

    pub(crate) fn continue_too_old(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list \
                       result. You can start a new list without the continue parameter, or use \
                       the continue token in this response to retrieve the remainder of the \
                       results. Continuing with the provided token results in an inconsistent \
                       list - objects that were created, modified, or deleted between the time \
                       the first chunk was returned and now may show up in the list.";
        let mut failure = Self::new(StatusCode::GONE, Some("Expired"), message);
        failure.continue_token = Some(token.into());
        failure
    }

    pub(crate) fn watch_too_old(asked: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {asked} ({oldest})");
        Self::new(StatusCode::GONE, Some("Expired"), message)
    }

    pub(crate) fn body_too_large(limit: usize) -> Self {
        Self::too_large(&format!("limit is {limit}"))
    }

    pub(crate) fn too_large(why: &str) -> Self {
        let message = format!("Request entity too large: {why}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, Some("RequestEntityTooLarge"), message)
    }

    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: \
             {accepted}"
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Some("UnsupportedMediaType"), message)
    }

    pub(crate) fn unsupported_patch_type() -> Self {
        let message = "415: Unsupported Media Type";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Some("UnsupportedMediaType"), message)
            .with_details(json!({}))
    }

    /// The 415 for a body or patch that a real server accepts and this one does not.
    pub(crate) fn unsupported_body(what: &str, instead: &str) -> Self {
        let message = format!("this embedded API server does not support {what}; {instead}");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Some("UnsupportedMediaType"), message)
    }

    // 422

    /// `what` is a kind, or the name of an options type.
    pub(crate) fn invalid(group: &str, what: &str, name: &str, errors: &[FieldError]) -> Self {
        let message = format!("{} {name:?} is invalid: {}", qualified(what, group), join(errors));
        let mut details = details(name, group, what);
        let causes: Vec<Value> = errors
            .iter()
            .map(|e| json!({"reason": e.reason, "message": e.message, "field": e.field}))
            .collect();
        if let Value::Object(details) = &mut details {
            details.insert("causes".into(), Value::Array(causes));
        }
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, Some("Invalid"), message).with_details(details)
    }

    pub(crate) fn invalid_options(what: &str, error: FieldError) -> Self {
        Self::invalid("meta.k8s.io", what, "", &[error])
    }

    pub(crate) fn rejected_patch() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, Some("Invalid"), message)
            .with_details(json!({}))
    }

    // By webhooks

    /// The error if a webhook denies a write: with the fields of the webhook's own `Status`.
    pub(crate) fn denied_by(webhook: &str, status: &Value) -> Self {
        let text = |field: &str| status.get(field).and_then(Value::as_str).unwrap_or_default();
        let denied = format!("admission webhook {webhook:?} denied the request");
        let (message, reason) = (text("message"), text("reason"));
        let message = match (message, reason) {
            ("", "") => format!("{denied} without explanation"),
            ("", why) | (why, _) => format!("{denied}: {why}"),
        };
        // A denial must not have the code of a success.
        let code = status.get("code").and_then(Value::as_u64).unwrap_or(0).max(400);
        let code = u16::try_from(code).ok().and_then(|code| StatusCode::from_u16(code).ok());
        let mut failure =
            Self::new(code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), None, message);
        failure.reason = Some(reason.to_owned()).filter(|why| !why.is_empty()).map(Cow::Owned);
        failure.details = status.get("details").filter(|details| details.is_object()).cloned();
        failure
    }

    /// Ends an attempt at a write that waits for a webhook. No client sees this error.
    pub(crate) fn unanswered() -> Self {
        Self::internal("a webhook has to be asked first")
    }

    /// The error if an object changes each time that webhooks have been asked about it.
    pub(crate) fn changes_too_often() -> Self {
        let message = "the object has been modified by others each time that its webhooks had been \
                       called; please try again";
        Self::new(StatusCode::CONFLICT, Some("Conflict"), message)
    }

    // 500, 504

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, None, message)
    }

    /// The 500 of an internal error, with the real server's prefix.
    pub(crate) fn internal_error(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Some("InternalError"), message)
            .with_details(json!({"causes": [{"message": why}]}))
    }

    pub(crate) fn version_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut failure = Self::new(StatusCode::GATEWAY_TIMEOUT, Some("Timeout"), message)
            .with_details(json!({
                "causes": [{
                    "reason": "ResourceVersionTooLarge",
                    "message": "Too large resource version",
                }],
                "retryAfterSeconds": 1,
            }));
        failure.retry_after = Some(1);
        failure
    }

    /// Returns the body: a `Status`.
    pub(crate) fn body(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), (**token).into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code.as_u16(),
        });
        if let Some(reason) = &self.reason {
            status["reason"] = reason.as_ref().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

/// Returns `widgets.example.dev`, or just `pods` in the core group.
pub(crate) fn qualified(what: &str, group: &str) -> String {
    if group.is_empty() { what.to_owned() } else { format!("{what}.{group}") }
}

fn subject(qualified: &str, name: &str) -> String {
    if name.is_empty() { qualified.to_owned() } else { format!("{qualified} {name:?}") }
}

/// Returns `details` without empty fields.
pub(crate) fn details(name: &str, group: &str, kind: &str) -> Value {
    let fields = [("name", name), ("group", group), ("kind", kind)];
    let filled = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(filled.map(|(field, value)| (field.to_owned(), value.into())).collect())
}
