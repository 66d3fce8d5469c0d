//! Which requests write an object, and how.

use bytes::Bytes;
use http::{Method, Request, Uri};
use kube::client::Body;
use serde_json::Value;
use windlass_informer::client::RequestTarget;

use crate::writes::write::Verb;

/// A request that writes one object.
pub(crate) struct WriteRequest {
    pub(crate) verb: Verb,
    pub(crate) target: RequestTarget,
    /// Empty if it is streamed: such a body is not read.
    pub(crate) body: Bytes,
}

impl WriteRequest {
    /// What a request writes; `None` if it writes nothing, or is a dry run by its query. Deleting a
    /// collection is not tracked: nobody knows which objects it deletes.
    pub(crate) fn of(
        request: &Request<Body>,
    ) -> impl Future<Output = Result<Option<Self>, kube::Error>> + use<> {
        let clone_body = || request.body().try_clone().unwrap_or_else(Body::empty);
        let write = write_of(request).map(|(verb, target)| (verb, target, clone_body()));
        async move {
            let Some((verb, target, body)) = write else { return Ok(None) };
            Ok(Some(Self { verb, target, body: body.collect_bytes().await? }))
        }
    }

    /// Whether it is a deletion whose options, which are its body, ask for a dry run.
    pub(crate) fn is_dry_run(&self) -> bool {
        let options = || serde_json::from_slice::<Value>(&self.body).unwrap_or_default();
        self.verb == Verb::Delete
            && options()["dryRun"].as_array().is_some_and(|dry| !dry.is_empty())
    }
}

fn write_of(request: &Request<Body>) -> Option<(Verb, RequestTarget)> {
    let verb = match *request.method() {
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => return None,
    };
    let target = RequestTarget::of(request.uri().path())?;
    let is_one = verb == Verb::Create || target.name.is_some();
    (!is_dry_run(request.uri()) && is_one && !target.is_proxied()).then_some((verb, target))
}

/// Whether the query of a request asks for a dry run.
fn is_dry_run(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "dryRun")
}

/// The name in which a request writes fields, if it has one.
pub(crate) fn field_manager(request: &Request<Body>) -> Option<String> {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "fieldManager").map(|(_, value)| value.into_owned())
}
