//! A client whose writes are server-side dry runs.

use std::sync::Arc;

use http::header::ACCEPT;
use http::uri::InvalidUri;
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tower::{BoxError, service_fn};
use windlass_indexer::{KeyRef, ObjectKey};
use windlass_informer::client::{RequestInfo, RequestTarget, safe_message};

use super::difference::field_changes;
use super::{Effect, PlannedWrite};
use crate::error::has_code;
use crate::writes::request::is_dry_run;

/// Notes what is written through its [clients](Self::client), and lets the server change nothing:
/// every write is sent with `dryRun=All`. Clones share what they note.
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
}

/// A request that cannot be a dry run.
#[derive(Debug, thiserror::Error)]
#[error(
    "a plan changes nothing, and `{0}` cannot be sent as a dry run: ask RunContext::is_plan before"
)]
struct CannotPlan(RequestInfo);

impl PlanRecorder {
    /// A recorder that has noted nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A client whose writes are dry runs. It reads an object before each write, for the
    /// difference, which needs the verb `get`.
    pub fn client(&self, inner: Client) -> Client {
        let namespace = inner.default_namespace().to_owned();
        let recorder = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let (inner, recorder) = (inner.clone(), recorder.clone());
            async move { recorder.send(&inner, request).await }
        });
        Client::new(service, namespace)
    }

    /// Takes what was noted, in the order of the writes. A write that would change nothing is not
    /// noted.
    pub fn take(&self) -> Vec<PlannedWrite> {
        std::mem::take(&mut *self.writes.lock())
    }

    fn note(&self, target: RequestTarget, key: Option<ObjectKey>, effect: Effect) {
        let RequestTarget { group, plural: resource, subresource, .. } = target;
        let write = PlannedWrite { group, resource, subresource, key, effect };
        self.writes.lock().push(write);
    }

    async fn send(
        &self,
        inner: &Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
            return Ok(inner.send(request).await?);
        }
        let info = RequestInfo::of(&request);
        let target = match RequestTarget::of(request.uri().path()) {
            Some(target) if !target.is_proxied() => target,
            _ => return Err(CannotPlan(info).into()),
        };
        if stores_nothing(&target) {
            return Ok(inner.send(request).await?);
        }
        let before = match read_before(&request, &target) {
            Some(read) => OldObject::read(inner, read).await,
            None => OldObject::NotRead,
        };
        let (mut parts, body) = request.into_parts();
        let is_users_own = is_dry_run(&parts.uri);
        if !is_users_own {
            parts.uri = with_dry_run(&parts.uri)?;
        }
        let method = parts.method.clone();
        let body = if method == Method::DELETE {
            // The server takes the options of a deletion from the body, and ignores the query then.
            let options = body.collect_bytes().await?;
            let Some(options) = dry_options(&options) else { return Err(CannotPlan(info).into()) };
            Body::from(options)
        } else {
            body
        };
        let answer = inner.send(Request::from_parts(parts, body)).await?;
        if is_users_own || !answer.status().is_success() {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let object: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let key = target.key().or_else(|| created_key(&target, &object));
        if let Some(effect) = before.effect_of(&method, &target, &object) {
            self.note(target, key, effect);
        }
        Ok(Response::from_parts(parts, Body::from(bytes)))
    }
}

/// The object before a write.
enum OldObject {
    /// The write does not need it.
    NotRead,
    Missing,
    Object(Value),
    /// It cannot be read, for this reason.
    Unknown(String),
}

impl OldObject {
    async fn read(inner: &Client, read: Request<Vec<u8>>) -> Self {
        match inner.request_text(read).await {
            Ok(text) => serde_json::from_str(&text).map_or_else(
                |_| Self::Unknown("it cannot be read: the answer is no object".to_owned()),
                Self::Object,
            ),
            Err(error) if has_code(&error, 404) => Self::Missing,
            Err(error) => Self::Unknown(format!("it cannot be read: {}", safe_message(&error))),
        }
    }

    /// What a write does, of which the server has made `new`; `None` if it changes nothing.
    fn effect_of(self, method: &Method, target: &RequestTarget, new: &Value) -> Option<Effect> {
        let is_named = target.name.is_some();
        Some(match (self, method) {
            (_, &Method::DELETE) if is_named => Effect::Delete,
            (_, &Method::DELETE) => Effect::DeleteCollection,
            (Self::Object(old), _) => {
                let is_secret = target.group.is_empty() && target.plural == "secrets";
                let fields = field_changes(&old, new, is_secret);
                if fields.is_empty() {
                    return None;
                }
                Effect::Change { fields }
            }
            (Self::Unknown(reason), _) => Effect::Unknown { reason },
            // Such as the eviction of a pod.
            (Self::NotRead, _) if is_named => {
                Effect::Unknown { reason: "the server acts when this is created".to_owned() }
            }
            (Self::NotRead | Self::Missing, _) => Effect::Create,
        })
    }
}

/// The request for the object that an update or a patch changes.
fn read_before(write: &Request<Body>, target: &RequestTarget) -> Option<Request<Vec<u8>>> {
    let is_change = matches!(*write.method(), Method::PUT | Method::PATCH);
    if !is_change || target.name.is_none() {
        return None;
    }
    let mut read = Request::new(Vec::new());
    *read.uri_mut() = write.uri().path().parse().expect("the path of a URI must be a URI");
    // In the same form as the answer to the write, which may be metadata alone.
    let json = HeaderValue::from_static("application/json");
    let accept = write.headers().get(ACCEPT).cloned().unwrap_or(json);
    read.headers_mut().insert(ACCEPT, accept);
    Some(read)
}

/// Whether a request stores nothing although it is a create: reviews, and tokens of accounts.
fn stores_nothing(target: &RequestTarget) -> bool {
    let is_review = matches!(&*target.group, "authorization.k8s.io" | "authentication.k8s.io");
    is_review || target.subresource.as_deref() == Some("token")
}

/// The options of a deletion, as those of a dry run; `None` if they are no JSON object.
fn dry_options(options: &[u8]) -> Option<Vec<u8>> {
    if options.is_empty() {
        return Some(Vec::new());
    }
    let mut options: Map<String, Value> = serde_json::from_slice(options).ok()?;
    options.insert("dryRun".to_owned(), json!(["All"]));
    Some(Value::Object(options).to_string().into_bytes())
}

fn with_dry_run(uri: &Uri) -> Result<Uri, InvalidUri> {
    let separator = match uri.query() {
        None => "?",
        Some("") => "",
        Some(_) => "&",
    };
    format!("{uri}{separator}dryRun=All").parse()
}

/// The key of an object that was created, unless the server has made up its name: that differs each
/// time.
fn created_key(target: &RequestTarget, object: &Value) -> Option<ObjectKey> {
    let metadata = &object["metadata"];
    if metadata["generateName"].is_string() {
        return None;
    }
    let name = metadata["name"].as_str()?;
    Some(KeyRef::new(target.namespace.as_deref(), name).into())
}
