//! A write as a dry run, and the check that the server has treated it as one.
//!
//! A server that does not know `dryRun` ignores it, and makes the write. Its answer shows that:
//!
//! - An update or a patch names the version that was read. If the server stores nothing, the answer
//!   has that version. If somebody else has written meanwhile, that is a conflict, and the object
//!   is read again.
//! - An object that was really created has a version, and is found under its uid.
//! - An object that was missing is answered as created. Any other success is either that of
//!   somebody else's object, created meanwhile, or of one that the write itself has created.
//! - After a deletion, an eviction, and a change of an object that is being deleted, the object is
//!   read again: it must be there.
//! - If the answer is lost, or is the error of a server or a proxy that failed half-way, the object
//!   is read again: it must be as it was. If the server makes up its name, nobody knows what to
//!   read.
//!
//! So a write is sent only if its object can be read before, and in a form that can name a version.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::uri::InvalidUri;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Map, Value, json};
use tower::BoxError;
use windlass_informer::client::{RequestInfo, safe_message};
use windlass_nesting::{depth, from_slice, with_stack_for};

use super::metadata::Metadata;
use super::request::{Write, WriteKind};
use crate::error::has_code;

/// How often a write is sent at most, if somebody else writes the same object again and again.
const ATTEMPTS_MAX: u32 = 10;

/// A request that was not sent, because nobody would notice if the server made the write.
#[derive(Debug, thiserror::Error)]
#[error("a plan does not send `{request}`: {reason}, so it cannot check that nothing is stored")]
struct CannotCheck {
    request: String,
    reason: String,
}

/// A server has made a write that was sent as a dry run, or cannot show that it has not. See
/// [`PlanRecorder`](crate::PlanRecorder).
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "the server has not treated `{request}` as a dry run: {evidence}; the plan has stopped, and \
     this object may really have been written: look at it, and leave controllers that write this \
     kind out of plans with .in_plan(InPlan::Skip)"
)]
#[non_exhaustive]
pub struct DryRunIgnored {
    /// The verb and the object, as in `patch deployments.apps shop/web`.
    pub request: String,
    /// What shows it.
    pub evidence: String,
}

/// A write that is sent as a dry run.
pub(super) struct DryRun {
    pub(super) inner: Client,
    pub(super) info: RequestInfo,
    pub(super) write: Write,
    pub(super) parts: Parts,
    pub(super) body: Bytes,
}

/// The answer to a dry run.
pub(super) struct Answer {
    pub(super) before: OldObject,
    pub(super) parts: http::response::Parts,
    pub(super) body: Bytes,
    /// What the body says, if it is an object.
    pub(super) metadata: Metadata,
}

/// The object before a write.
pub(super) enum OldObject {
    /// A create has none.
    NotRead,
    Missing,
    Object(Stored),
}

/// An object as the server has it.
pub(super) struct Stored {
    pub(super) json: Bytes,
    metadata: Metadata,
}

impl DryRun {
    /// Sends the write, and checks that the server has not made it.
    pub(super) async fn send(self) -> Result<Answer, BoxError> {
        let mut refused: Option<(Answer, Option<String>)> = None;
        for _ in 0..ATTEMPTS_MAX {
            let before = self.read_before().await?;
            if let (Some((_, version)), OldObject::Object(object)) = (&refused, &before)
                && object.metadata.version == *version
            {
                // Nobody has written meanwhile, so the conflict is another one.
                break;
            }
            let body = self.body_for(&before)?;
            let answer = match self.send_once(body.bytes).await {
                Ok((parts, body)) => {
                    let metadata = Metadata::of(&body).unwrap_or_default();
                    Answer { before, parts, body, metadata }
                }
                Err(error) => {
                    self.check_unchanged(&before).await?;
                    return Err(error);
                }
            };
            let is_conflict = answer.parts.status == StatusCode::CONFLICT;
            match &answer.before {
                OldObject::Object(object) if is_conflict && body.is_version_ours => {
                    let version = object.metadata.version.clone();
                    refused = Some((answer, version));
                }
                _ => {
                    self.check(&answer).await?;
                    return Ok(answer);
                }
            }
        }
        let (answer, _) = refused.expect("only a conflict must lead to another attempt");
        Ok(answer)
    }

    /// Reads the object that is to be written.
    async fn read_before(&self) -> Result<OldObject, BoxError> {
        if self.write.kind == WriteKind::Create {
            return Ok(OldObject::NotRead);
        }
        let read = self.read(&self.write.object_path).await;
        match read.map_err(|error| self.cannot_check(&error))? {
            None => Ok(OldObject::Missing),
            Some(object) if object.metadata.version.is_some() => Ok(OldObject::Object(object)),
            Some(_) => Err(self.cannot_check("the object has no version").into()),
        }
    }

    /// Reads what is at a path, in the form of the answer to the write, which may be metadata
    /// alone; `None` if there is nothing.
    async fn read(&self, path: &str) -> Result<Option<Stored>, String> {
        let json = HeaderValue::from_static("application/json");
        // The answers to these are about something else than the object.
        let is_about_object = matches!(self.write.kind, WriteKind::Create | WriteKind::Change);
        let accept = self.parts.headers.get(ACCEPT).filter(|_| is_about_object);
        let mut read = Request::new(Vec::new());
        *read.uri_mut() = path.parse().map_err(|_| "its name cannot be part of a URI")?;
        read.headers_mut().insert(ACCEPT, accept.cloned().unwrap_or(json));
        match self.inner.request_text(read).await {
            Ok(text) => {
                let json = Bytes::from(text);
                let metadata = Metadata::of(&json)
                    .ok_or("the object cannot be read: the answer is no JSON, or too deep")?;
                Ok(Some(Stored { json, metadata }))
            }
            Err(error) if has_code(&error, 404) => Ok(None),
            Err(error) => Err(format!("the object cannot be read: {}", safe_message(&error))),
        }
    }

    async fn send_once(&self, body: Bytes) -> Result<(http::response::Parts, Bytes), BoxError> {
        let mut parts = self.parts.clone();
        parts.uri = with_dry_run(&parts.uri)?;
        parts.headers.remove(CONTENT_LENGTH);
        if self.write.kind == WriteKind::Delete {
            let json = HeaderValue::from_static("application/json");
            parts.headers.insert(CONTENT_TYPE, json);
        }
        let request = Request::from_parts(parts, Body::from(body));
        let (parts, body) = self.inner.send(request).await?.into_parts();
        Ok((parts, body.collect().await?.to_bytes()))
    }

    /// Checks that the server has not made the write.
    async fn check(&self, answer: &Answer) -> Result<(), DryRunIgnored> {
        if answer.parts.status.is_client_error() {
            return Ok(());
        }
        if !answer.parts.status.is_success() {
            return self.check_unchanged(&answer.before).await;
        }
        match (&answer.before, self.write.kind) {
            (OldObject::Object(before), WriteKind::Change) => {
                let (was, is) = (&before.metadata.version, &answer.metadata.version);
                if was != is {
                    let version = is.as_deref().unwrap_or("no version");
                    let was = was.as_deref().unwrap_or_default();
                    return Err(self.ignored(format!("it was at {was}, the answer has {version}")));
                }
                // A write that takes the last finalizer away makes no version: the object is gone.
                if before.metadata.is_being_deleted {
                    return self.check_alive(before).await;
                }
                Ok(())
            }
            (OldObject::Object(before), _) => self.check_alive(before).await,
            (OldObject::Missing, kind)
                if kind != WriteKind::Change || answer.parts.status != StatusCode::CREATED =>
            {
                // A second attempt could change nothing, and would seem to be a dry run.
                let status = answer.parts.status.as_u16();
                Err(self.ignored(format!("there was no such object, but the answer was {status}")))
            }
            (OldObject::NotRead | OldObject::Missing, _) => self.check_not_created(answer).await,
        }
    }

    /// Checks that an object is still there, and was not marked for deletion.
    async fn check_alive(&self, before: &Stored) -> Result<(), DryRunIgnored> {
        let now = self.read(&self.write.object_path).await.map_err(|error| self.ignored(error))?;
        let before = &before.metadata;
        match now.map(|now| now.metadata) {
            Some(now) if now.uid != before.uid => {
                Err(self.ignored("another object has its name now"))
            }
            Some(now) if now.is_being_deleted && !before.is_being_deleted => {
                Err(self.ignored("it is being deleted now"))
            }
            Some(_) => Ok(()),
            None => Err(self.ignored("it is gone")),
        }
    }

    /// Checks that the object of an answer does not exist.
    async fn check_not_created(&self, answer: &Answer) -> Result<(), DryRunIgnored> {
        let Some(name) = &answer.metadata.name else {
            return Err(self.ignored("the answer is not the object"));
        };
        // What is stored has one.
        if answer.metadata.version.is_none() {
            return Ok(());
        }
        let now = self.read_named(name).await?;
        if now.is_some_and(|now| now.metadata.uid == answer.metadata.uid) {
            return Err(self.ignored(format!("{name} exists now")));
        }
        Ok(())
    }

    /// Checks that an object is as it was, because no answer says so.
    ///
    /// Somebody else may have written it at the same moment. Then the plan stops for nothing.
    async fn check_unchanged(&self, before: &OldObject) -> Result<(), DryRunIgnored> {
        const NO_ANSWER: &str = "no answer says that nothing is stored";
        let now = match (before, self.write.kind) {
            (OldObject::NotRead, _) => match Metadata::of(&self.body).and_then(|new| new.name) {
                Some(name) => self.read_named(&name).await,
                None => Err(self.ignored(format!("{NO_ANSWER}, nor what its name would be"))),
            },
            _ => self.read(&self.write.object_path).await.map_err(|error| self.ignored(error)),
        };
        let has_changed = match (before, &now?) {
            (OldObject::Object(before), Some(now)) => {
                let (before, now) = (&before.metadata, &now.metadata);
                before.uid != now.uid || before.version != now.version
            }
            (OldObject::NotRead | OldObject::Missing, None) => false,
            _ => true,
        };
        if has_changed {
            return Err(self.ignored(format!("{NO_ANSWER}, and the object is not as it was")));
        }
        Ok(())
    }

    /// Reads the object with this name in the collection of the write; `None` if there is none.
    async fn read_named(&self, name: &str) -> Result<Option<Stored>, DryRunIgnored> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"/?#%".contains(&byte);
        let path = match self.write.kind {
            // The path would be that of something else.
            WriteKind::Create if !name.bytes().all(is_plain) => {
                return Err(self.ignored("its name cannot be part of a URI"));
            }
            WriteKind::Create => format!("{}/{name}", self.write.object_path),
            _ => self.write.object_path.clone(),
        };
        self.read(&path).await.map_err(|error| self.ignored(error))
    }

    /// The body to send: it names the version that was read, or the one that it names itself.
    fn body_for(&self, before: &OldObject) -> Result<SentBody, CannotCheck> {
        let version = match before {
            OldObject::Object(object) => object.metadata.version.as_deref(),
            OldObject::NotRead | OldObject::Missing => None,
        };
        let named = match (self.write.kind, version) {
            (WriteKind::Delete, version) => delete_options(&self.body, version),
            (WriteKind::Change, Some(version)) => {
                let media_type = self.parts.headers.get(CONTENT_TYPE);
                let media_type = media_type.and_then(|value| value.to_str().ok());
                naming_version(media_type.unwrap_or_default(), &self.body, version)
            }
            _ => Some(SentBody { bytes: self.body.clone(), is_version_ours: false }),
        };
        named.ok_or_else(|| self.cannot_check("its body is not JSON"))
    }

    fn cannot_check(&self, reason: &str) -> CannotCheck {
        CannotCheck { request: self.info.to_string(), reason: reason.to_owned() }
    }

    fn ignored(&self, evidence: impl Into<String>) -> DryRunIgnored {
        DryRunIgnored { request: self.info.to_string(), evidence: evidence.into() }
    }
}

/// The body of a dry run.
struct SentBody {
    bytes: Bytes,
    /// Whether it names a version that the caller has not named.
    is_version_ours: bool,
}

/// The body of an update or a patch, with the version that was read, if it names none itself.
/// `None` if it is not JSON.
fn naming_version(media_type: &str, body: &[u8], version: &str) -> Option<SentBody> {
    let named = || naming_version_here(media_type, body, version);
    with_stack_for(depth(body), named).ok().flatten()
}

/// The same, on a thread whose stack is large enough.
fn naming_version_here(media_type: &str, body: &[u8], version: &str) -> Option<SentBody> {
    if media_type.starts_with("application/json-patch+json") {
        let mut operations: Vec<Value> = from_slice(body).ok()?;
        // First, so that a version that the patch itself names counts.
        let field = "/metadata/resourceVersion";
        operations.insert(0, json!({"op": "add", "path": field, "value": version}));
        let bytes = Value::from(operations).to_string().into();
        return Some(SentBody { bytes, is_version_ours: true });
    }
    let mut object: Map<String, Value> = from_slice(body).ok()?;
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let is_version_ours = insert_version(metadata.as_object_mut()?, version);
    Some(SentBody { bytes: Value::from(object).to_string().into(), is_version_ours })
}

/// The options of a deletion, as those of a dry run. The server takes them from the body, and
/// ignores the query then. `None` if they are not JSON.
fn delete_options(options: &Bytes, version: Option<&str>) -> Option<SentBody> {
    let mut options: Map<String, Value> = match &**options {
        [] => Map::from_iter([
            ("apiVersion".to_owned(), "v1".into()),
            ("kind".to_owned(), "DeleteOptions".into()),
        ]),
        options => serde_json::from_slice(options).ok()?,
    };
    options.insert("dryRun".to_owned(), json!(["All"]));
    let mut is_version_ours = false;
    if let Some(version) = version {
        let preconditions = options.entry("preconditions").or_insert_with(|| json!({}));
        is_version_ours = insert_version(preconditions.as_object_mut()?, version);
    }
    Some(SentBody { bytes: Value::from(options).to_string().into(), is_version_ours })
}

/// Inserts a version unless there is one. Returns whether it did.
fn insert_version(fields: &mut Map<String, Value>, version: &str) -> bool {
    // Without one, and with these two, any version is meant.
    let is_any = fields
        .get("resourceVersion")
        .is_none_or(|named| named.as_str().is_none_or(|named| matches!(named, "" | "0")));
    if is_any {
        fields.insert("resourceVersion".to_owned(), version.into());
    }
    is_any
}

impl Answer {
    /// The answer for the one who has sent the write.
    pub(super) fn into_response(self) -> Response<Body> {
        Response::from_parts(self.parts, Body::from(self.body))
    }
}

/// Whether a request is a dry run already, by the wish of who has sent it.
pub(super) fn is_asked_for(parts: &Parts, body: &[u8]) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    let in_query = form_urlencoded::parse(query.as_bytes()).any(|pair| pair == all());
    // A deletion has its options in the body.
    let in_body = || {
        let options: Value = serde_json::from_slice(body).unwrap_or_default();
        options["dryRun"] == json!(["All"])
    };
    in_query || (parts.method == Method::DELETE && in_body())
}

/// The query parameter of a dry run.
fn all() -> (std::borrow::Cow<'static, str>, std::borrow::Cow<'static, str>) {
    ("dryRun".into(), "All".into())
}

fn with_dry_run(uri: &Uri) -> Result<Uri, InvalidUri> {
    let query = uri.query().unwrap_or_default();
    if form_urlencoded::parse(query.as_bytes()).any(|pair| pair == all()) {
        return Ok(uri.clone());
    }
    let separator = match uri.query() {
        None => "?",
        Some("") => "",
        Some(_) => "&",
    };
    format!("{uri}{separator}dryRun=All").parse()
}
