//! The heads of a request and of its answer.

use bytes::{Buf as _, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, Version};

use super::chunked::Chunked;
use super::{ExchangeError, Extent};

/// How many headers an answer may have.
const HEADERS_MAX: usize = 100;

/// A request as it is sent. It has no body.
pub(super) fn of(request: &Request<()>) -> Vec<u8> {
    let uri = request.uri();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut head = format!("{} {path} HTTP/1.1\r\n", request.method()).into_bytes();
    let mut add = |name: &HeaderName, value: &[u8]| {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    };
    if let Some(host) = host(uri)
        && !request.headers().contains_key(HOST)
    {
        add(&HOST, host.as_bytes());
    }
    for (name, value) in request.headers() {
        add(name, value.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Where a request goes, without who asks, and without a port that goes without saying.
fn host(uri: &Uri) -> Option<String> {
    let is_usual = matches!(
        (uri.scheme_str(), uri.port_u16()),
        (Some("https"), Some(443)) | (Some("http"), Some(80))
    );
    let port = uri.port().filter(|_| !is_usual);
    uri.host().map(|host| match port {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

/// Takes the head of an answer from what has arrived, with how far its body goes; `None` if more has to come.
pub(super) fn parse(
    arrived: &mut BytesMut,
) -> Result<Option<(Response<()>, Extent)>, ExchangeError> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(length) = parsed.parse(arrived)? else { return Ok(None) };
        let response = response(&parsed)?;
        arrived.advance(length);
        // Others announce one.
        if !response.status().is_informational() {
            let extent = extent(&response)?;
            return Ok(Some((response, extent)));
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(ExchangeError::Malformed("it switches to another protocol"));
        }
    }
}

fn response(parsed: &httparse::Response<'_, '_>) -> Result<Response<()>, ExchangeError> {
    let unreadable = || ExchangeError::Malformed("its status or a header is none");
    let mut response = Response::new(());
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
    *response.status_mut() = status.ok_or_else(unreadable)?;
    *response.version_mut() =
        if parsed.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| unreadable())?;
        let value = HeaderValue::from_bytes(header.value).map_err(|_| unreadable())?;
        response.headers_mut().append(name, value);
    }
    Ok(response)
}

fn extent(response: &Response<()>) -> Result<Extent, ExchangeError> {
    let headers = response.headers();
    if matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Ok(Extent::NOTHING);
    }
    let is_plain = |coding: &str| coding.eq_ignore_ascii_case("identity");
    // The status of a refusal is worth more than its words.
    if response.status().is_success()
        && headers.contains_key(CONTENT_ENCODING)
        && !one(headers, &CONTENT_ENCODING).is_some_and(is_plain)
    {
        return Err(ExchangeError::Malformed("it is compressed"));
    }
    if headers.contains_key(TRANSFER_ENCODING) {
        let is_chunked = one(headers, &TRANSFER_ENCODING)
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
        let chunked = is_chunked.then(|| Extent::Chunked(Chunked::default()));
        return chunked.ok_or(ExchangeError::Malformed("its body is encoded in an unknown way"));
    }
    if headers.contains_key(CONTENT_LENGTH) {
        let digits = |length: &&str| length.bytes().all(|byte| byte.is_ascii_digit());
        let length =
            one(headers, &CONTENT_LENGTH).filter(digits).and_then(|length| length.parse().ok());
        return length
            .map(Extent::Length)
            .ok_or(ExchangeError::Malformed("its body has no length"));
    }
    Ok(Extent::Close)
}

/// The value of a header that is there once.
fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(uri: &str) -> String {
        let request =
            Request::get(uri).header("accept", "application/json").body(()).expect("valid");
        String::from_utf8(of(&request)).expect("text")
    }

    #[test]
    fn request_names_its_host_and_its_path() {
        assert_eq!(
            sent("https://user:secret@[::1]:6443/api/v1/pods?watch=true"),
            "GET /api/v1/pods?watch=true HTTP/1.1\r\nhost: [::1]:6443\r\naccept: application/json\r\n\r\n"
        );
        for (uri, host) in [
            ("http://server", "server"),
            ("http://server:80", "server"),
            ("https://server:443", "server"),
            ("https://server:80", "server:80"),
        ] {
            assert!(sent(uri).starts_with(&format!("GET / HTTP/1.1\r\nhost: {host}\r\n")), "{uri}");
        }
    }

    #[test]
    fn host_of_the_caller_is_kept() {
        let request = Request::get("http://server/").header(HOST, "other").body(()).expect("valid");
        let sent = String::from_utf8(of(&request)).expect("text");
        assert_eq!(sent, "GET / HTTP/1.1\r\nhost: other\r\n\r\n");
    }
}
