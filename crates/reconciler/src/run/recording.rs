//! A client that remembers what was written through it.
//!
//! It wraps another client. Requests and answers pass unchanged. It reads the metadata in the
//! answer to a write, and the version that the request names. So it notes everything that a
//! reconciler writes, whichever API it uses, and costs nothing for reads. If the answer to a write
//! is lost, or the request is cancelled, nobody knows whether the server stored the write: it is
//! noted as unknown.

use std::io;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tower::{BoxError, service_fn};
use windlass_indexer::{ObjectKey, ResourceVersion, Uid};
use windlass_informer::client::{RequestInfo, error_chain, explain};
use windlass_informer::{ConnectError, NotLeader, RequestError, Resource};

use crate::controller_core::ControllerCore;
use crate::history::origin::SpanOrigin;
use crate::run::sent_by::SentBy;
use crate::writes::answers::{Answered, Answers};
use crate::writes::authorship::BeforeWrite;
use crate::writes::expectations::PendingWrites;
use crate::writes::request::{WriteRequest, field_manager};
use crate::writes::write::{TrackedWrite, Write};

/// How many writes of a run are kept for the journal: the first half and the last half of them.
pub const WRITES_PER_RUN: usize = 16;

/// How many own versions a run remembers. Beyond it, what the run deletes has to wait for the next
/// run, in which the caches show them.
const OWN_VERSIONS_MAX: usize = 1_024;

/// The first and the last writes of a run, and how many there were between them.
#[derive(Default)]
pub(crate) struct KeptWrites {
    pub(crate) writes: Vec<Write>,
    pub(crate) omitted: u64,
}

impl KeptWrites {
    fn push(&mut self, write: Write) {
        if self.writes.len() == WRITES_PER_RUN {
            self.writes.remove(WRITES_PER_RUN / 2);
            self.omitted += 1;
        }
        self.writes.push(write);
    }
}

/// What a run has written so far. Clones share the log.
///
/// However many writes a run makes, the log holds a few of them for the journal, those that the
/// caches do not show yet, and the last answer about each object, for what the run itself reads.
#[derive(Clone)]
pub(crate) struct WriteLog {
    key: ObjectKey,
    origin: SpanOrigin,
    entries: Arc<Mutex<Entries>>,
    /// Weak, so that a client that outlives its controller does not keep it. It is upgraded for a
    /// moment before a request is sent, and after it was answered.
    core: Weak<ControllerCore>,
}

#[derive(Default)]
struct Entries {
    kept: KeptWrites,
    pending: PendingWrites,
    answers: Answers,
    own_versions: Vec<OwnVersion>,
    is_closed: bool,
}

impl Entries {
    fn note_own_version(&mut self, own: OwnVersion) {
        if self.own_versions.len() < OWN_VERSIONS_MAX {
            self.own_versions.push(own);
        }
    }
}

/// A version that a write has made of the version that it named.
struct OwnVersion {
    uid: Uid,
    named: ResourceVersion,
    made: ResourceVersion,
}

impl WriteLog {
    pub(crate) fn new(key: ObjectKey, origin: SpanOrigin, core: &Arc<ControllerCore>) -> Self {
        Self { key, origin, entries: Arc::default(), core: Arc::downgrade(core) }
    }

    /// Notes a write and the answer to it.
    fn note_answer(&self, tracked: TrackedWrite, before: &BeforeWrite, answer: Bytes) {
        self.origin.note(&tracked.write);
        let Some(core) = self.core.upgrade() else { return };
        core.report_write(&self.key, &tracked.write);
        self.expect(&core, |entries| {
            entries.kept.push(tracked.write.clone());
            if let (Some(named), Some(made)) = (before.named(), &tracked.write.version) {
                let (uid, made) = (tracked.write.uid.clone(), made.clone());
                entries.note_own_version(OwnVersion { uid, named: named.clone(), made });
            }
            if core.sources.has_cache_of(&tracked.write) {
                entries.answers.put(tracked.clone(), answer);
            }
            entries.pending.add(tracked, |tracked| core.is_seen(tracked));
        });
    }

    /// Notes that nobody knows whether the server stored a write.
    fn note_lost_answer(&self) {
        if let Some(core) = self.core.upgrade() {
            self.expect(&core, |entries| entries.pending.reports_behind = true);
        }
    }

    /// Notes something that the next run has to wait for. After the end of the run it goes straight
    /// to the expectations.
    fn expect(&self, core: &ControllerCore, note: impl FnOnce(&mut Entries)) {
        let mut entries = self.entries.lock();
        if !entries.is_closed {
            return note(&mut entries);
        }
        drop(entries);
        let mut late = Entries::default();
        note(&mut late);
        core.expect_writes(&self.key, late.pending);
    }

    /// Notes that the next run has to wait until the caches show what was read.
    pub(crate) fn expect_to_see(&self, read: TrackedWrite) {
        if let Some(core) = self.core.upgrade() {
            self.expect(&core, |entries| {
                entries.pending.add(read, |tracked| core.is_seen(tracked));
            });
        }
    }

    /// The version that the run has made of this one, in one or more steps; `None` if it has not.
    pub(crate) fn own_version(&self, uid: &str, version: &str) -> Option<String> {
        let (entries, uid) = (self.entries.lock(), Uid::new(uid));
        let mut last: Option<&OwnVersion> = None;
        for own in entries.own_versions.iter().filter(|own| own.uid == uid) {
            let is_next = match last {
                None => own.named.to_string() == version,
                Some(last) => own.named == last.made,
            };
            if is_next {
                last = Some(own);
            }
        }
        last.map(|last| last.made.to_string())
    }

    /// Whether the run has written this object, and the caches do not show that yet.
    pub(crate) fn has_unseen_write(
        &self,
        core: &ControllerCore,
        resource: &Resource,
        key: &ObjectKey,
    ) -> bool {
        let is_of_object = |write: &Write| write.is_of(resource) && write.key == *key;
        let is_unseen =
            |tracked: &TrackedWrite| is_of_object(&tracked.write) && !core.is_seen(tracked);
        self.entries.lock().pending.writes.iter().any(is_unseen)
    }

    /// Whether the run has written objects of a resource, and the caches do not show that yet.
    pub(crate) fn has_unseen_write_of(&self, core: &ControllerCore, resource: &Resource) -> bool {
        let is_unseen =
            |tracked: &TrackedWrite| tracked.write.is_of(resource) && !core.is_seen(tracked);
        self.entries.lock().pending.writes.iter().any(is_unseen)
    }

    /// Closes the log at the end of the run. Returns what was written, and what of it the caches
    /// may not show yet. Later writes go straight to the expectations.
    pub(crate) fn close(&self) -> (KeptWrites, PendingWrites) {
        let mut entries = self.entries.lock();
        entries.is_closed = true;
        entries.answers = Answers::default();
        (std::mem::take(&mut entries.kept), std::mem::take(&mut entries.pending))
    }

    /// The answers to writes since the answer with this number, to be laid over the caches that the
    /// run reads, and the number of the last one.
    pub(crate) fn answers_after(&self, number: u64) -> (Vec<Arc<Answered>>, u64) {
        self.entries.lock().answers.after(number)
    }
}

/// A write that was sent. If this is dropped without an answer, the write is noted as unknown.
struct OpenWrite<'a> {
    log: &'a WriteLog,
    /// Whether the result is known: the write was answered, or never sent.
    is_settled: bool,
}

impl Drop for OpenWrite<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.log.note_lost_answer();
        }
    }
}

/// A client that notes its writes in `log`.
pub(crate) fn recording(inner: Client, log: WriteLog) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (inner, log) = (inner.clone(), log.clone());
        async move {
            let info = RequestInfo::of(&request);
            // The client stack of Windlass explains errors already; the user's client may not.
            match send(&inner, request, &info, &log).await {
                Ok(answer) => Ok(explain(&info, answer).await),
                Err(error) => Err(with_request(info, error)),
            }
        }
    });
    Client::new(service, namespace)
}

/// Adds the request to an error, unless the error names it already.
fn with_request(info: RequestInfo, error: kube::Error) -> BoxError {
    if error_chain(&error).any(<dyn std::error::Error>::is::<RequestError>) {
        return error.into();
    }
    RequestError { request: info, source: error.into() }.into()
}

/// Sends a request, notes what it writes, and logs the warnings in the answer. It does not hold the
/// controller meanwhile.
async fn send(
    inner: &Client,
    mut request: Request<Body>,
    info: &RequestInfo,
    log: &WriteLog,
) -> Result<Response<Body>, kube::Error> {
    let write = WriteRequest::of(&request).await?;
    let Some(core) = log.core.upgrade() else { return inner.send(request).await };
    request.extensions_mut().insert(SentBy::new(&core));
    let write = write.filter(|write| !write.is_dry_run()).map(|write| {
        let shown = core.sources.shown(&write.target);
        let before = BeforeWrite::of(&write.body, field_manager(&request), shown);
        (write, before)
    });
    drop(core);
    let sent = match write {
        Some((write, before)) => send_write(inner, request, write, &before, log).await,
        None => inner.send(request).await,
    };
    if let (Ok(answer), Some(core)) = (&sent, log.core.upgrade()) {
        core.warnings.note(&core.controller, info, answer.headers());
    }
    sent
}

/// Sends a request that writes, and notes its answer.
async fn send_write(
    inner: &Client,
    request: Request<Body>,
    write: WriteRequest,
    before: &BeforeWrite,
    log: &WriteLog,
) -> Result<Response<Body>, kube::Error> {
    let mut open_write = OpenWrite { log, is_settled: false };
    let answer = inner.send(request).await.inspect_err(|error| {
        open_write.is_settled = error_chain(error).any(is_not_sent);
    })?;
    let status = answer.status();
    if !status.is_success() {
        // After a 5xx nobody knows whether the server stored the write.
        open_write.is_settled = !status.is_server_error();
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await?.to_bytes();
    open_write.is_settled = true;
    if let Some(tracked) = TrackedWrite::of(write.verb, write.target, before, status, &bytes) {
        log.note_answer(tracked, before, bytes.clone());
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// Whether a request that failed with this error has not reached the server.
fn is_not_sent(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    error.is::<ConnectError>()
        || error.is::<NotLeader>()
        || error.downcast_ref().is_some_and(is_refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_of_own_versions_is_bounded_and_the_first_ones_stay() {
        let log = WriteLog {
            key: ObjectKey::cluster("one"),
            origin: SpanOrigin::default(),
            entries: Arc::default(),
            core: Weak::new(),
        };
        let version = |number: usize| ResourceVersion::new(&number.to_string());
        for number in 0..2 * OWN_VERSIONS_MAX {
            let (named, made) = (version(number), version(number + 1));
            let own = OwnVersion { uid: Uid::new("uid"), named, made };
            log.entries.lock().note_own_version(own);
        }
        assert_eq!(log.entries.lock().own_versions.len(), OWN_VERSIONS_MAX);
        assert_eq!(log.own_version("uid", "0"), Some(OWN_VERSIONS_MAX.to_string()));
        let later = (OWN_VERSIONS_MAX + 1).to_string();
        assert_eq!(log.own_version("uid", &later), None);
    }
}
