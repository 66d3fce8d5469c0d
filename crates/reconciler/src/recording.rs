//! A client that remembers what was written through it.
//!
//! It is a client around a client: requests go on as they are, and of the answer to a write, which is small, the
//! head is read in passing. So it sees whatever a reconciler writes, by whichever way, and adds nothing to reads.
//! A write whose answer was lost is not remembered: nobody knows whether it was made.

use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use tower::service_fn;

use crate::target::Target;
use crate::write::{Verb, Write};

/// What was written so far. Clones are the same log.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteLog(Arc<Mutex<Vec<Write>>>);

impl WriteLog {
    pub(crate) fn note(&self, write: Write) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(write);
    }

    pub(crate) fn take(&self) -> Vec<Write> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A client whose writes go to `log`.
pub(crate) fn recording(inner: Client, log: WriteLog) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (inner, log) = (inner.clone(), log.clone());
        async move {
            match tracked(&request) {
                None => inner.send(request).await,
                Some((verb, target)) => {
                    let answer = inner.send(request).await?;
                    noted(answer, verb, target, &log).await
                }
            }
        }
    });
    Client::new(service, namespace)
}

/// Whether a request is a write to an object, or makes one. Deleting a collection is not: nobody knows what it meets.
fn tracked(request: &Request<Body>) -> Option<(Verb, Target)> {
    let verb = match *request.method() {
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => return None,
    };
    let is_dry = request.uri().query().is_some_and(|query| query.contains("dryRun="));
    let target = Target::of(request.uri().path())?;
    let is_one = verb == Verb::Create || target.name.is_some();
    (!is_dry && is_one).then_some((verb, target))
}

async fn noted(
    answer: Response<Body>,
    verb: Verb,
    target: Target,
    log: &WriteLog,
) -> Result<Response<Body>, kube::Error> {
    if !answer.status().is_success() {
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await?.to_bytes();
    if let Some(write) = Write::of(verb, target, &bytes) {
        log.note(write);
    }
    Ok(Response::from_parts(parts, Body::from(bytes)))
}
