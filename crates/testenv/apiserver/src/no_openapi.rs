//! Replaces the `OpenAPI` documents if the feature `kubectl` is off: there are none.

use http::request::Parts;
use http::{Response, StatusCode};

use crate::body::Body;
use crate::failure::Failure;
use crate::shared::Shared;

/// No documents.
#[derive(Debug, Default)]
pub(crate) struct Cache;

pub(crate) fn index(_: &Shared) -> Result<Response<Body>, Failure> {
    Err(no_documents())
}

pub(crate) fn document(_: &Shared, _: &Parts, _: &str, _: &str) -> Result<Response<Body>, Failure> {
    Err(no_documents())
}

fn no_documents() -> Failure {
    let message = "this embedded API server has no OpenAPI documents without the feature \
                   `kubectl` of windlass-apiserver";
    Failure::new(StatusCode::NOT_FOUND, Some("NotFound"), message)
}
