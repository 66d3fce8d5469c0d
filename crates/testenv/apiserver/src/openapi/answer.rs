//! Answers requests for documents, with the headers for caching: a client that sends the current
//! hash in `If-None-Match` gets a 304 without the document.

use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
    LOCATION, VARY,
};
use http::{Response, StatusCode};

use super::cache::GeneratedDocument;
use crate::body::{self, Body};

/// Answers a request for a document at `path`. The query may contain the expected hash.
pub(super) fn answer(
    document: Option<&GeneratedDocument>,
    path: &str,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Response<Body> {
    let Some(document) = document else { return empty(StatusCode::NOT_FOUND) };
    let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if !wants_json(header(ACCEPT)) {
        return with(empty(StatusCode::NOT_ACCEPTABLE), VARY, "Accept");
    }
    let tag = format!("{:?}", document.hash);
    let expected = form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .find(|(name, _)| name == "hash")
        .map(|(_, hash)| hash.into_owned());
    let mut response = match &expected {
        Some(hash) if *hash != document.hash => {
            let there = format!("{path}?hash={}", document.hash);
            let moved = with(empty(StatusCode::MOVED_PERMANENTLY), LOCATION, &there);
            with(moved, CONTENT_TYPE, JSON)
        }
        _ if header(IF_NONE_MATCH).is_some_and(|known| known.contains(&tag)) => {
            empty(StatusCode::NOT_MODIFIED)
        }
        _ => with(Response::new(body::whole(document.content.clone())), CONTENT_TYPE, JSON),
    };
    if expected.as_ref() == Some(&document.hash) {
        response = with(response, CACHE_CONTROL, "public, immutable");
    }
    with(with(response, ETAG, &tag), VARY, "Accept")
}

const JSON: &str = "application/json";

/// A missing header means JSON. The real server also has protobuf.
fn wants_json(accept: Option<&str>) -> bool {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else { return true };
    let names = accept.split(',').map(|media| media.split(';').next().unwrap_or_default().trim());
    names.into_iter().any(|name| matches!(name, JSON | "application/*" | "*/*"))
}

fn empty(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(body::whole(""));
    *response.status_mut() = code;
    response
}

fn with(mut response: Response<Body>, name: HeaderName, value: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(query: Option<&str>, headers: &[(HeaderName, &str)]) -> Response<Body> {
        let document = GeneratedDocument { content: "{}".into(), hash: "ABC".to_owned() };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(name, HeaderValue::from_str(value).expect("a header"));
        }
        answer(Some(&document), "/openapi/v3/api/v1", query, &map)
    }

    #[test]
    fn wrong_hash_is_redirected_to_the_current_one() {
        let response = ask(Some("hash=OLD"), &[]);
        assert_eq!(response.status(), StatusCode::MOVED_PERMANENTLY);
        assert_eq!(response.headers()[LOCATION], "/openapi/v3/api/v1?hash=ABC");
        let response = ask(Some("hash=ABC"), &[]);
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CACHE_CONTROL], "public, immutable");
    }

    #[test]
    fn client_with_the_current_hash_gets_304() {
        let response = ask(None, &[(IF_NONE_MATCH, "\"ABC\"")]);
        assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(ask(None, &[(IF_NONE_MATCH, "\"OLD\"")]).status(), StatusCode::OK);
    }

    #[test]
    fn documents_are_only_served_as_json() {
        assert_eq!(ask(None, &[(ACCEPT, "application/json, */*")]).status(), StatusCode::OK);
        let response = ask(None, &[(ACCEPT, "application/yaml")]);
        assert_eq!(response.status(), StatusCode::NOT_ACCEPTABLE);
    }
}
