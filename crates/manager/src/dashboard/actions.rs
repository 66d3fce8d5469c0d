//! What the dashboard can do: run a key now, and pause an object. Each action is logged, with the
//! user if the API server knows who it is.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::State as Extract;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::json;
use windlass_indexer::ObjectKey;
use windlass_informer::client::safe_message;
use windlass_informer::{Resource, SharedInformerFactory};
use windlass_reconciler::Cause;
use windlass_workqueue::{Add, Priority};

use super::Shared;
use super::key::has_object;
use crate::http::auth::ReviewedUser;
use crate::http::report::Unknown;
use crate::state::ControllerState;

/// The cause of a run that somebody asked for here.
const CAUSE: &str = "dashboard";

/// The field manager of the annotation.
const FIELD_MANAGER: &str = "windlass-dashboard";

/// What is written as `%XX` in a path. Names of Roles may have any character but `/` and `%`.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b':');

/// The largest error of the API server that is read.
const ERROR_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug, Deserialize)]
pub(super) struct RunRequest {
    controller: String,
    key: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct PauseRequest {
    controller: String,
    key: String,
    paused: bool,
}

/// Why an action was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error(transparent)]
    Unknown(#[from] Unknown),
    #[error("{0} is paused, so it would not run: resume it instead")]
    Paused(ObjectKey),
    #[error(
        "this replica does not lead, so its controllers do not run: use the leader's dashboard"
    )]
    Standby,
    #[error("the controller has stopped")]
    Stopped,
    #[error("the objects of this controller cannot be paused: add `.pausable()` to its builder")]
    NoAnnotation,
    #[error("there is no object {0}")]
    NoObject(ObjectKey),
    #[error("the operator's account could not change the object: {0}")]
    Failed(String),
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Unknown(Unknown::InvalidKey(_) | Unknown::NoController { .. }) => {
                StatusCode::BAD_REQUEST
            }
            Self::Unknown(_) | Self::NoObject(_) => StatusCode::NOT_FOUND,
            Self::Paused(_) | Self::Standby | Self::Stopped | Self::NoAnnotation => {
                StatusCode::CONFLICT
            }
            Self::Failed(_) => StatusCode::BAD_GATEWAY,
        };
        (status, format!("{self}\n")).into_response()
    }
}

type User = Option<Extension<ReviewedUser>>;

/// Adds a key to the queue, to run before all others.
pub(super) async fn run(
    Extract(shared): Extract<Arc<Shared>>,
    user: User,
    Json(asked): Json<RunRequest>,
) -> Result<Response, Refused> {
    let (shown, key) = shared.key_of(&asked.controller, &asked.key)?;
    let controller = &shown.controller;
    if controller.is_paused(&key) {
        return Err(Refused::Paused(key));
    }
    if shared.is_standby(shown) {
        return Err(Refused::Standby);
    }
    let add = Add::now().priority(Priority::High).cause(Cause::Source(CAUSE.into()));
    controller.queue().add_with(key.clone(), add).map_err(|_| Refused::Stopped)?;
    let (controller, user) = (controller.name(), name(&user));
    tracing::info!(controller, %key, user, "runs now: somebody asked for it on the dashboard");
    Ok((StatusCode::ACCEPTED, "it runs as soon as a worker is free\n").into_response())
}

/// Sets or removes the annotation that pauses an object.
pub(super) async fn pause(
    Extract(shared): Extract<Arc<Shared>>,
    user: User,
    Json(asked): Json<PauseRequest>,
) -> Result<Response, Refused> {
    let (shown, key) = shared.key_of(&asked.controller, &asked.key)?;
    let annotation = shown.controller.pause_annotation().ok_or(Refused::NoAnnotation)?;
    let factory = shared.state.factory();
    let (Some(resource), Some(factory)) = (shown.reconciled(), factory) else {
        return Err(Refused::NoObject(key));
    };
    if !has_object(shown, &key) {
        return Err(Refused::NoObject(key));
    }
    let value = asked.paused.then_some("true");
    annotate(factory, &resource, &key, annotation, value).await?;
    let (controller, user, paused) = (shown.controller.name(), name(&user), asked.paused);
    tracing::info!(controller, %key, user, paused, "paused or resumed on the dashboard");
    let text = if paused { "it is paused\n" } else { "it is not paused any more\n" };
    Ok(text.into_response())
}

impl Shared {
    /// Whether a controller waits until this replica leads.
    fn is_standby(&self, shown: &ControllerState) -> bool {
        let election = self.state.election();
        let is_standby = election.is_some_and(|of| !of.leadership.borrow().is_leading());
        shown.needs_leadership && is_standby
    }
}

/// Sets an annotation of an object, or removes it.
///
/// Does not use [`kube::Api`], which logs answers that it cannot read: they may contain a Secret.
async fn annotate(
    factory: &SharedInformerFactory,
    resource: &Resource,
    key: &ObjectKey,
    annotation: &str,
    value: Option<&str>,
) -> Result<(), Refused> {
    let path = resource.path(key.namespace());
    let name = utf8_percent_encode(key.name(), IN_PATH);
    let change = json!({"metadata": {"annotations": {annotation: value}}});
    let request = Request::patch(format!("{path}/{name}?fieldManager={FIELD_MANAGER}"))
        .header(CONTENT_TYPE, "application/merge-patch+json")
        .body(kube::client::Body::from(change.to_string().into_bytes()))
        .expect("the path of an object must be valid");
    let answer = factory.client().send(request).await;
    let answer = answer.map_err(|error| Refused::Failed(safe_message(&error)))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let body = to_bytes(Body::new(answer.into_body()), ERROR_BYTES_MAX).await.unwrap_or_default();
    let message = serde_json::from_slice::<kube::core::Status>(&body).map(|status| status.message);
    let message = message.unwrap_or_default();
    let message = if message.is_empty() { status.to_string() } else { message };
    if status == StatusCode::NOT_FOUND {
        return Err(Refused::NoObject(key.clone()));
    }
    Err(Refused::Failed(message))
}

/// The name of a user, for log lines.
fn name(user: &User) -> Option<&str> {
    user.as_ref().map(|Extension(user)| user.name())
}
