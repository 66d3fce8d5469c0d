//! A client that remembers what was written through it.
//!
//! It wraps another client. Requests and answers pass unchanged; of the answer to a write it reads
//! the metadata, and of the request the version that it names. So it notes everything that a
//! reconciler writes, whichever API it uses, and costs reads nothing. A write whose answer was
//! lost, or that was cancelled, may have been made or not: it is noted as unknown.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use tower::{BoxError, service_fn};
use windlass_indexer::ObjectKey;
use windlass_informer::{
    ConnectError, RequestError, RequestInfo, RequestTarget, error_chain, explain,
};

use crate::context::Tools;
use crate::credit::Before;
use crate::expectations::Pending;
use crate::kept::KeptWrites;
use crate::write::{Recorded, Verb};

/// What a run has written so far. Clones are the same log.
///
/// However many writes a run makes, the log holds a few of them for the journal, and those that the
/// caches do not show yet.
#[derive(Clone, Debug)]
pub(crate) struct WriteLog(Arc<Log>);

#[derive(Debug)]
struct Log {
    key: ObjectKey,
    entries: Mutex<Entries>,
    /// Knows which writes the caches show, and where writes go that come after the run. A client
    /// that outlives its controller does not keep it.
    tools: Weak<Tools>,
}

#[derive(Debug, Default)]
struct Entries {
    kept: KeptWrites,
    pending: Pending,
    is_closed: bool,
}

impl WriteLog {
    pub(crate) fn new(key: ObjectKey, tools: &Arc<Tools>) -> Self {
        Self(Arc::new(Log { key, entries: Mutex::default(), tools: Arc::downgrade(tools) }))
    }

    /// Notes a write; `None` for one that was perhaps made.
    fn note(&self, recorded: Option<Recorded>) {
        let Some(tools) = self.0.tools.upgrade() else { return };
        let mut entries = self.lock();
        if entries.is_closed {
            drop(entries);
            let mut late = Pending::default();
            late.note(recorded, |_| false);
            tools.expect_writes(&self.0.key, late);
            return;
        }
        if let Some(recorded) = &recorded {
            entries.kept.push(recorded.write.clone());
        }
        entries.pending.note(recorded, |recorded| tools.is_seen(recorded));
    }

    /// Ends it with the run. Returns what was written, and what of it the caches may not show yet.
    pub(crate) fn close(&self) -> (KeptWrites, Pending) {
        let mut entries = self.lock();
        entries.is_closed = true;
        (std::mem::take(&mut entries.kept), std::mem::take(&mut entries.pending))
    }

    /// What is known before a request with this body is sent.
    fn before(&self, body: &[u8], manager: Option<String>, target: &RequestTarget) -> Before {
        let tools = self.0.tools.upgrade();
        let shown = tools.as_ref().and_then(|tools| tools.sources.shown(target));
        Before::of(body, manager, shown)
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write under way. If it ends without an answer, it is unknown whether it was made.
struct UnderWay<'a> {
    log: &'a WriteLog,
    /// Whether it is known what became of it: answered, or never sent.
    is_settled: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.log.note(None);
        }
    }
}

/// A client whose writes go to `log`.
pub(crate) fn recording(inner: Client, log: WriteLog) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (inner, log) = (inner.clone(), log.clone());
        async move {
            let info = RequestInfo::of(&request);
            // Windlass' client stack explains errors already; the user's client may not.
            match send(&inner, request, &log).await {
                Ok(answer) => Ok(explain(&info, answer).await),
                Err(error) => Err(with_request(info, error)),
            }
        }
    });
    Client::new(service, namespace)
}

/// Has an error say which request it belongs to, unless it does already.
fn with_request(info: RequestInfo, error: kube::Error) -> BoxError {
    if error_chain(&error).any(<dyn std::error::Error>::is::<RequestError>) {
        return error.into();
    }
    RequestError { request: info, source: error.into() }.into()
}

async fn send(
    inner: &Client,
    request: Request<Body>,
    log: &WriteLog,
) -> Result<Response<Body>, kube::Error> {
    let Some((verb, target)) = tracked(&request) else { return inner.send(request).await };
    // A streamed body is not read.
    let body = request.body().try_clone().unwrap_or_else(Body::empty);
    let before = log.before(&body.collect_bytes().await?, field_manager(&request), &target);
    let mut under_way = UnderWay { log, is_settled: false };
    let answer = inner.send(request).await.inspect_err(|error| {
        under_way.is_settled = error_chain(error).any(was_not_sent);
    })?;
    // 5xx: the write may or may not have been made, so it stays unknown.
    if answer.status().is_server_error() {
        return Ok(answer);
    }
    let answer = noted(answer, verb, target, &before, log).await?;
    under_way.is_settled = true;
    Ok(answer)
}

/// The name in which a request writes fields, if it says so.
fn field_manager(request: &Request<Body>) -> Option<String> {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "fieldManager").map(|(_, value)| value.into_owned())
}

/// Whether a request that failed with this error has not reached the server.
fn was_not_sent(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    error.is::<ConnectError>() || error.downcast_ref().is_some_and(is_refused)
}

/// Whether a request is a write to an object, or makes one. Deleting a collection is not: nobody knows what it meets.
fn tracked(request: &Request<Body>) -> Option<(Verb, RequestTarget)> {
    let verb = match *request.method() {
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => return None,
    };
    let is_dry = request.uri().query().is_some_and(|query| query.contains("dryRun="));
    let target = RequestTarget::of(request.uri().path())?;
    let is_one = verb == Verb::Create || target.name.is_some();
    (!is_dry && is_one && !target.is_passed_on()).then_some((verb, target))
}

async fn noted(
    answer: Response<Body>,
    verb: Verb,
    target: RequestTarget,
    before: &Before,
    log: &WriteLog,
) -> Result<Response<Body>, kube::Error> {
    if !answer.status().is_success() {
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await?.to_bytes();
    if let Some(recorded) = Recorded::of(verb, target, before, parts.status, &bytes) {
        log.note(Some(recorded));
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}
