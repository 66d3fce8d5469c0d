//! Answers in protobuf, for clients that ask for nothing else.
//!
//! Handlers answer in JSON. This last step converts the response to protobuf: an object, a list or
//! a Status as a whole, a watch event by event.

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};

use super::wire::put_bytes;
use super::{MEDIA_TYPE, envelope};
use crate::accept::ProtobufAlone;
use crate::body::{self, Body, BodyError};
use crate::failure::Failure;
use crate::reply;

/// The media type of a watch.
const STREAM_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Converts a response to protobuf. Responses that are not JSON, or whose kind has no protobuf
/// message, are returned unchanged.
pub(crate) fn turned(
    response: Response<Body>,
    taken: ProtobufAlone,
    watch: bool,
) -> Response<Body> {
    let is_json =
        response.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json");
    let is_taken = taken == ProtobufAlone::Everything || response.status().is_success();
    if !is_json || !is_taken {
        return response;
    }
    let (mut parts, content) = response.into_parts();
    if watch && parts.status == StatusCode::OK {
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(STREAM_TYPE));
        let pieces = content.into_data_stream();
        let frames = pieces.map(|piece| piece.and_then(|lines| frames(&lines)));
        return Response::from_parts(parts, body::stream(frames));
    }
    let text = content.collect().now_or_never();
    let text = text.expect("an answer that is no watch must be there at once");
    let text = match text {
        Ok(text) => text.to_bytes(),
        Err(error) => return Response::from_parts(parts, broken(error)),
    };
    match object(&text).as_ref().and_then(envelope::write) {
        Some(Ok(bytes)) => {
            parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
            Response::from_parts(parts, body::whole(bytes))
        }
        Some(Err(why)) => reply::failure(&Failure::internal(why)),
        None => Response::from_parts(parts, body::whole(text)),
    }
}

fn broken(error: BodyError) -> Body {
    body::stream(futures::stream::iter([Err(error)]))
}

fn object(text: &[u8]) -> Option<Map<String, Value>> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    // It is our own, and a little deeper than the object in it.
    deserializer.disable_recursion_limit();
    serde::Deserialize::deserialize(&mut deserializer).ok()
}

/// The events of some lines of a watch, each behind its length.
fn frames(lines: &[u8]) -> Result<Bytes, BodyError> {
    let mut out = Vec::with_capacity(lines.len());
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event = event(line).ok_or(BodyError)?;
        let length = u32::try_from(event.len()).map_err(|_| BodyError)?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&event);
    }
    Ok(out.into())
}

/// A `WatchEvent`, without an envelope of its own around that of its object.
fn event(line: &[u8]) -> Option<Vec<u8>> {
    let event = object(line)?;
    let object = envelope::write(event.get("object")?.as_object()?)?.ok()?;
    let mut raw = Vec::with_capacity(object.len() + 8);
    put_bytes(&mut raw, 1, &object);
    let mut out = Vec::with_capacity(raw.len() + 16);
    put_bytes(&mut out, 1, event.get("type")?.as_str()?.as_bytes());
    put_bytes(&mut out, 2, &raw);
    Some(out)
}
