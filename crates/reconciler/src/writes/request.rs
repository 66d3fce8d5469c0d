//! Which requests write an object, and how.

use http::{Method, Request, Uri};
use kube::client::Body;
use serde_json::Value;
use windlass_informer::client::RequestTarget;

use crate::writes::write::Verb;

/// The verb and the target of a request that writes one object. Deleting a collection is not
/// tracked: nobody knows which objects it deletes.
pub(crate) fn write_of(request: &Request<Body>) -> Option<(Verb, RequestTarget)> {
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
pub(crate) fn is_dry_run(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "dryRun")
}

/// Whether the body of a deletion, which has its options, asks for a dry run.
pub(crate) fn has_dry_option(options: &[u8]) -> bool {
    let options: Option<Value> = serde_json::from_slice(options).ok();
    options.is_some_and(|options| options["dryRun"].as_array().is_some_and(|dry| !dry.is_empty()))
}

/// The name in which a request writes fields, if it has one.
pub(crate) fn field_manager(request: &Request<Body>) -> Option<String> {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "fieldManager").map(|(_, value)| value.into_owned())
}
