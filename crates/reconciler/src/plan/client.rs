//! A client whose writes are server-side dry runs.
//!
//! ```text
//!  request ─▶ request.rs: read, write or refused ─▶ dry_run.rs: read the object, send the dry run,
//!                                                   check that nothing is stored
//! ```
//!
//! The writes of a plan are sent one at a time, each after the one before was checked. So a server
//! that ignores `dryRun` makes one of them, and no other is sent.

use std::sync::{Arc, OnceLock};

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{BoxError, service_fn};
use tracing::Instrument as _;
use windlass_indexer::{KeyRef, ObjectKey};
use windlass_informer::client::{RequestInfo, RequestTarget};

use super::difference::field_changes;
use super::dry_run::{Answer, DryRun, DryRunIgnored, OldObject, is_asked_for};
use super::metadata::Metadata;
use super::request::{PlanRequest, Write, WriteKind};
use super::{Effect, PlannedWrite};

/// Notes what is written through its [clients](Self::client), and lets the server change nothing:
/// every write is sent with `dryRun=All`. Clones share what they note.
///
/// - What is not a known read, and cannot be a dry run, is refused: `exec` and `proxy`, for
///   example, subresources of other API servers, and requests for tokens.
/// - A deletion of a collection is not sent. Its answer is the list of what it would delete.
/// - After each dry run it checks that the server has stored nothing. If the server has ignored
///   `dryRun`, the write fails with [`DryRunIgnored`], and every later one, too: see
///   [`ignored`](Self::ignored).
/// - If the answer to a dry run is lost, or is an error of the server (5xx), it looks at the
///   object. If that is not as it was, or cannot be read, this counts as ignored, too.
///
/// The client must not repeat writes by itself, as kube's own does after a 503 or a 504
/// (`Config::default_retry`): a write that is made twice changes nothing the second time, which is
/// what a dry run looks like.
///
/// [`Controller::plan`](crate::Controller::plan) has one for each run. Alone, it shows what other
/// code would write:
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube::Api;
/// use windlass_reconciler::PlanRecorder;
///
/// # async fn example(client: kube::Client) -> Result<(), kube::Error> {
/// let plan = PlanRecorder::new();
/// let maps: Api<ConfigMap> = Api::default_namespaced(plan.client(client));
/// maps.delete("old", &Default::default()).await?;
/// for write in plan.take() {
///     print!("{write}"); // - configmaps default/old
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct PlanRecorder {
    writes: Arc<Mutex<Vec<PlannedWrite>>>,
    gate: Arc<Gate>,
}

/// What the recorders of a plan share.
#[derive(Debug, Default)]
struct Gate {
    /// Held by the write that is under way, until its answer is checked. Fair, and held across
    /// requests on purpose: plans are about safety, not about speed.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The write under way: it is checked even if the run that sent it is cancelled.
    tasks: TaskTracker,
    ignored: OnceLock<DryRunIgnored>,
    /// Cancelled once `ignored` is set.
    stop: CancellationToken,
}

/// A request that cannot be a dry run.
#[derive(Debug, thiserror::Error)]
#[error(
    "a plan changes nothing, and `{0}` is not known as a read, nor can it be sent as a dry run: \
     ask RunContext::is_plan before"
)]
struct CannotPlan(RequestInfo);

/// A request whose answer is a real credential.
#[derive(Debug, thiserror::Error)]
#[error(
    "a plan changes nothing, and `{0}` would issue a credential: ask RunContext::is_plan before"
)]
struct IssuesCredential(RequestInfo);

impl PlanRecorder {
    /// A recorder that has noted nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A recorder for another part of the same plan: it notes writes of its own, and if one of them
    /// stops because a server has ignored a dry run, both do.
    #[must_use]
    pub fn for_part(&self) -> Self {
        Self { writes: Arc::default(), gate: Arc::clone(&self.gate) }
    }

    /// A client whose writes are dry runs. It reads an object before each write, which needs the
    /// verb `get`; and lists what a deletion of a collection selects, which needs `list`.
    pub fn client(&self, inner: Client) -> Client {
        let namespace = inner.default_namespace().to_owned();
        let recorder = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (inner, recorder) = (inner.clone(), recorder.clone());
            async move { recorder.send(inner, request).await }
        });
        Client::new(service, namespace)
    }

    /// Takes what was noted, in the order of the writes. A write that would change nothing is not
    /// noted.
    pub fn take(&self) -> Vec<PlannedWrite> {
        std::mem::take(&mut *self.writes.lock())
    }

    /// The write that a server has made although it was a dry run, if there was one. Nothing was
    /// sent after it.
    pub fn ignored(&self) -> Option<DryRunIgnored> {
        self.gate.ignored.get().cloned()
    }

    /// Cancelled when a server has ignored a dry run.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.gate.stop
    }

    /// Waits until the write that is under way is checked. A write is sent and checked to the end,
    /// even if nobody waits for its answer any more: call this before [`ignored`](Self::ignored).
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn wait_for_check(&self) {
        drop(self.gate.turn.lock().await);
    }

    fn note(&self, target: RequestTarget, key: Option<ObjectKey>, effect: Effect) {
        let RequestTarget { group, plural: resource, subresource, .. } = target;
        let write = PlannedWrite { group, resource, subresource, key, effect };
        self.writes.lock().push(write);
    }

    async fn send(self, inner: Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let info = RequestInfo::of(&request);
        match PlanRequest::of(&request) {
            None => Err(CannotPlan(info).into()),
            Some(PlanRequest::Credential) => Err(IssuesCredential(info).into()),
            Some(PlanRequest::Read) => Ok(inner.send(request).await?),
            Some(PlanRequest::DeleteCollection(target)) => {
                self.list_instead(&inner, request, target).await
            }
            Some(PlanRequest::Write(write)) => {
                let turn = Arc::clone(&self.gate.turn).lock_owned().await;
                if let Some(ignored) = self.ignored() {
                    return Err(ignored.into());
                }
                let tasks = self.gate.tasks.clone();
                let send = async move {
                    let _turn = turn;
                    self.send_write(inner, request, info, write).await
                };
                tasks.spawn(send.in_current_span()).await?
            }
        }
    }

    /// Sends a write as a dry run, and checks it.
    async fn send_write(
        self,
        inner: Client,
        request: Request<Body>,
        info: RequestInfo,
        write: Write,
    ) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let is_asked_for = is_asked_for(&parts, &body);
        let (kind, target) = (write.kind, write.target.clone());
        let sent = DryRun { inner, info, write, parts, body }.send().await;
        let answer = sent.inspect_err(|error| {
            if let Some(ignored) = error.downcast_ref::<DryRunIgnored>() {
                tracing::error!("{ignored}");
                let _ = self.gate.ignored.set(ignored.clone());
                self.gate.stop.cancel();
            }
        })?;
        if !is_asked_for && answer.parts.status.is_success() {
            let key = target.key().or_else(|| created_key(&target, &answer.metadata));
            if let Some(effect) = effect_of(&answer, kind, &target) {
                self.note(target, key, effect);
            }
        }
        Ok(answer.into_response())
    }

    /// Answers the deletion of a collection with what it selects. It is not sent: if the server
    /// ignored that it is a dry run, everything would be gone before anybody could notice.
    async fn list_instead(
        &self,
        inner: &Client,
        request: Request<Body>,
        target: RequestTarget,
    ) -> Result<Response<Body>, BoxError> {
        let (mut parts, body) = request.into_parts();
        let is_asked_for = is_asked_for(&parts, &body.collect_bytes().await?);
        parts.method = Method::GET;
        for name in [CONTENT_TYPE, CONTENT_LENGTH] {
            parts.headers.remove(name);
        }
        let answer = inner.send(Request::from_parts(parts, Body::empty())).await?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        let list: Value = serde_json::from_slice(&body).unwrap_or_default();
        let is_empty = list["items"].as_array().is_some_and(Vec::is_empty);
        if parts.status.is_success() && !is_asked_for && !is_empty {
            self.note(target, None, Effect::DeleteCollection);
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

/// What a write does, according to its answer; `None` if it changes nothing.
fn effect_of(answer: &Answer, kind: WriteKind, target: &RequestTarget) -> Option<Effect> {
    Some(match (&answer.before, kind) {
        (_, WriteKind::Delete) => Effect::Delete,
        (_, WriteKind::Evict) => {
            Effect::Unknown { reason: "the server acts when this is created".to_owned() }
        }
        (OldObject::Object(old), WriteKind::Create | WriteKind::Change) => {
            let is_secret = target.group.is_empty() && target.plural == "secrets";
            match field_changes(&old.json, &answer.body, is_secret) {
                Ok(fields) if fields.is_empty() => return None,
                Ok(fields) => Effect::Change { fields },
                Err(error) => Effect::Unknown { reason: error.to_string() },
            }
        }
        (OldObject::NotRead | OldObject::Missing, _) => Effect::Create,
    })
}

/// The key of an object that was created, unless the server has made up its name: that differs each
/// time.
fn created_key(target: &RequestTarget, object: &Metadata) -> Option<ObjectKey> {
    let name = object.name.as_deref().filter(|_| !object.has_generated_name)?;
    Some(KeyRef::new(target.namespace.as_deref(), name).into())
}
