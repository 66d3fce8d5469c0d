//! Protobuf responses, for clients that only accept protobuf.
//!
//! Handlers respond in JSON, and this last step converts the response: an object, a list or a
//! Status as a whole, a watch event by event. A watch with an object that cannot be converted ends
//! with an ERROR event, and a log message names the object.

use bytes::Bytes;
use futures::{FutureExt as _, Stream, StreamExt as _};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};
use windlass_protobuf::{Envelope, EventType, WatchEvent};

use super::{MEDIA_TYPE, write};
use crate::accept::ProtobufOnly;
use crate::body::{self, Body, BodyError};
use crate::failure::Failure;
use crate::reply;

/// The media type of a watch.
const STREAM_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Converts a response to protobuf. Responses that are not JSON, or whose kind has no protobuf
/// message, are returned unchanged. `watched` is the resource of a watch.
pub(crate) fn into_protobuf(
    response: Response<Body>,
    taken: ProtobufOnly,
    watched: Option<String>,
) -> Response<Body> {
    let is_json =
        response.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json");
    let is_taken = taken == ProtobufOnly::Everything || response.status().is_success();
    if !is_json || !is_taken {
        return response;
    }
    let (mut parts, content) = response.into_parts();
    if let Some(resource) = watched.filter(|_| parts.status == StatusCode::OK) {
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(STREAM_TYPE));
        return Response::from_parts(parts, body::stream(watch(content, resource)));
    }
    let text = content.collect().now_or_never();
    let text = text.expect("an answer that is no watch must be there at once");
    let text = match text {
        Ok(text) => text.to_bytes(),
        Err(error) => return Response::from_parts(parts, broken(error)),
    };
    match object(&text).as_ref().and_then(write) {
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
    // The JSON is our own, and nested a little deeper than the object in it.
    deserializer.disable_recursion_limit();
    serde::Deserialize::deserialize(&mut deserializer).ok()
}

/// Returns the frames of a watch. It ends after an ERROR event that is added here.
fn watch(content: Body, resource: String) -> impl Stream<Item = Result<Bytes, BodyError>> + Send {
    let begin = Some((content.into_data_stream(), resource));
    futures::stream::unfold(begin, |rest| async {
        let (mut pieces, resource) = rest?;
        let lines = match pieces.next().await? {
            Ok(lines) => lines,
            Err(error) => return Some((Err(error), None)),
        };
        let (frames, is_whole) = frames(&lines, &resource);
        Some((Ok(frames), is_whole.then_some((pieces, resource))))
    })
}

/// Encodes the events of some lines of a watch, each with its length before it. If one of them
/// cannot be encoded, an ERROR event takes its place, the rest is left out, and the second value is
/// false.
fn frames(lines: &[u8], resource: &str) -> (Bytes, bool) {
    let mut out = Vec::with_capacity(lines.len());
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event = object(line).unwrap_or_default();
        if let Err(why) = encode_event(&event, &mut out) {
            // Neither the object nor the error is logged: both may contain secrets.
            tracing::warn!(
                "a watch of {resource} ends: {} cannot be encoded as protobuf",
                key(&event)
            );
            encode_event(&error_event(&why), &mut out).expect("a Status must have a message");
            return (out.into(), false);
        }
    }
    (out.into(), true)
}

/// Writes a `WatchEvent`, which has no envelope of its own. On an error, nothing is written.
fn encode_event(event: &Map<String, Value>, out: &mut Vec<u8>) -> Result<(), String> {
    let object = event.get("object").and_then(Value::as_object).ok_or("it has no object")?;
    let object = write(object).ok_or("its kind has no message")??;
    let event_type = event.get("type").and_then(Value::as_str).unwrap_or_default();
    let event_type = EventType::named(event_type).ok_or("it has no type")?;
    let object = Envelope::read(&object).map_err(|error| error.to_string())?;
    let frame = WatchEvent { event_type, object }.to_frame().map_err(|error| error.to_string())?;
    out.extend_from_slice(&frame);
    Ok(())
}

fn error_event(why: &str) -> Map<String, Value> {
    let why = format!("unable to encode watch object: {why}");
    let status = Failure::internal_error(&why).body();
    Map::from_iter([("type".to_owned(), "ERROR".into()), ("object".to_owned(), status)])
}

/// Returns the namespace and name of an event's object.
fn key(event: &Map<String, Value>) -> String {
    let metadata = event.get("object").and_then(|object| object.get("metadata"));
    let text = |field: &str| metadata.and_then(|metadata| metadata.get(field)?.as_str());
    let name = text("name").unwrap_or("an object without a name");
    text("namespace").map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_protobuf::split_frame;

    use super::*;

    fn line(name: &str, immutable: &Value) -> String {
        let metadata = json!({"namespace": "n", "name": name});
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": immutable,
        });
        format!("{}\n", json!({"type": "ADDED", "object": object}))
    }

    /// Returns the types and the objects of the events in some frames.
    fn events(mut frames: &[u8]) -> Vec<(EventType, Value)> {
        let mut found = Vec::new();
        while let Some((frame, rest)) = split_frame(frames).expect("no frame is long") {
            let event = WatchEvent::read(frame).expect("an event");
            found.push((event.event_type, event.object.decode().expect("an object")));
            frames = rest;
        }
        found
    }

    #[tokio::test]
    async fn watch_ends_with_an_error_event_at_an_object_that_cannot_be_encoded() {
        let lines = [line("a", &json!(true)), line("b", &json!("secret")), line("c", &json!(true))];
        let pieces = [lines.concat(), line("d", &json!(true))].map(|lines| Ok(lines.into()));
        let content = body::stream(futures::stream::iter(pieces));
        let response = Response::builder().header(CONTENT_TYPE, "application/json").body(content);
        let response = response.expect("a response");
        let watched = Some("configmaps".to_owned());
        let answer = into_protobuf(response, ProtobufOnly::Everything, watched);
        let frames = answer.into_body().collect().await.expect("the end is a regular one");
        let events = events(&frames.to_bytes());
        let [(first, object), (last, status)] = events.as_slice() else {
            panic!("two events: {events:?}");
        };
        assert_eq!((*first, &object["metadata"]["name"]), (EventType::Added, &json!("a")));
        assert_eq!((*last, &status["kind"]), (EventType::Error, &json!("Status")));
        assert_eq!((&status["code"], &status["reason"]), (&json!(500), &json!("InternalError")));
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.contains("immutable"), "{message}");
        assert!(!message.contains("secret"), "{message}");
    }

    #[test]
    fn objects_are_named_by_namespace_and_name() {
        let event = |metadata| json!({"object": {"metadata": metadata}});
        let key = |event: Value| key(event.as_object().expect("an object"));
        assert_eq!(key(event(json!({"namespace": "n", "name": "a"}))), "n/a");
        assert_eq!(key(event(json!({"name": "a"}))), "a");
        assert_eq!(key(event(json!({}))), "an object without a name");
    }
}
