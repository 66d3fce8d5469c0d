//! Watches as servers and proxies send them.

use super::{OPTIONS, chunks, read_watch};
use crate::decode::frames::{EventType, Frame, FrameError, FrameOptions, Frames};

fn watch(body: &str) -> (Vec<Frame>, Result<(), FrameError>) {
    let whole = read_watch([body.as_bytes()], OPTIONS);
    let in_chunks = read_watch(chunks(body.as_bytes(), &[1]), OPTIONS);
    assert_eq!(whole.0, in_chunks.0, "in chunks it must be the same");
    if !matches!(whole.1, Err(FrameError::Body { .. })) {
        assert_eq!(whole.1, in_chunks.1, "in chunks it must end alike");
    }
    whole
}

#[track_caller]
fn fails(body: &str) -> FrameError {
    watch(body).1.expect_err("the body must be refused")
}

fn change(change: EventType, object: &str) -> Frame {
    Frame::Change(change, object.as_bytes().into())
}

#[test]
fn events_are_read_on_lines_or_not_and_with_keys_in_any_order() {
    let (events, end) = watch(concat!(
        r#"{"type":"ADDED","object":{"a":1}}"#,
        "\n",
        r#"{"object":{"metadata":{"managedFields":[]}},"type":"MODIFIED"}"#,
        r#"{ "type" : "DELETED" , "object" : { "a" : 1 } , "other": [1] }"#,
        "\r\n\n"
    ));
    assert_eq!(end, Ok(()));
    let expected = [
        change(EventType::Added, r#"{"a":1}"#),
        change(EventType::Modified, r#"{"metadata":{}}"#),
        change(EventType::Deleted, r#"{"a":1}"#),
    ];
    assert_eq!(events, expected);
}

#[test]
fn an_event_comes_out_before_its_newline() {
    let mut frames = Frames::watch(OPTIONS);
    frames.push(br#"{"type":"ADDED","object":{}}"#);
    assert_eq!(frames.next(), Ok(Some(change(EventType::Added, "{}"))));
    assert_eq!(frames.next(), Ok(None));
}

#[test]
fn a_bookmark_has_its_version_and_whether_the_initial_events_end() {
    let body = r#"
        {"type":"BOOKMARK","object":{"kind":"Pod",
            "metadata":{"resourceVersion":"7","creationTimestamp":null}}}
        {"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8",
            "annotations":{"k8s.io/initial-events-end":"true"}}}}
        {"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9",
            "annotations":{"k8s.io/initial-events-end":"false"}}}}"#;
    let bookmarks = watch(body).0.into_iter().map(|event| match event {
        Frame::Bookmark(bookmark) => (bookmark.resource_version, bookmark.initial_events_end),
        other => panic!("{other:?}"),
    });
    let expected = [("7".to_owned(), false), ("8".to_owned(), true), ("9".to_owned(), false)];
    assert_eq!(bookmarks.collect::<Vec<_>>(), expected);
}

#[test]
fn an_error_event_is_a_status() {
    let (events, end) = watch(
        r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},
            "status":"Failure","message":"too old resource version: 1 (100693)",
            "reason":"Expired","code":410}}"#,
    );
    assert_eq!(end, Ok(()));
    let [Frame::Error(status)] = events.as_slice() else { panic!("an error") };
    assert_eq!(status.to_string(), "status 410 (Expired): too old resource version: 1 (100693)");
}

#[test]
fn events_of_unknown_types_are_skipped() {
    let (events, end) =
        watch(r#"{"type":"SHRUNK","object":{}}{"type":"ADDED","object":{"type":"ERROR"}}"#);
    assert_eq!(end, Ok(()));
    assert_eq!(events, [Frame::Unknown, change(EventType::Added, r#"{"type":"ERROR"}"#)]);
}

#[test]
fn a_body_may_end_between_events_only() {
    let event = r#"{"type":"ADDED","object":{"a":"b"}}"#;
    assert_eq!(watch(""), (vec![], Ok(())));
    assert_eq!(watch("\n").1, Ok(()));
    let body = format!("{event}\n{event}\n");
    for len in 0..body.len() {
        let (events, end) = watch(&body[..len]);
        assert_eq!(
            events.len(),
            len / (event.len() + 1) + usize::from(len % (event.len() + 1) == event.len())
        );
        let between = len % (event.len() + 1) == 0 || len % (event.len() + 1) == event.len();
        assert_eq!(end.is_ok(), between, "after {len} bytes");
        if let Err(error) = end {
            let offset = len as u64;
            let objects = events.len() as u64;
            assert_eq!(error, FrameError::Truncated { offset, objects });
        }
    }
}

#[test]
fn a_status_instead_of_events_is_recognised_by_its_kind_pretty_or_not() {
    for body in [
        concat!(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"slow down","reason":"TooManyRequests","#,
            r#""details":{"retryAfterSeconds":1},"code":429}"#,
        ),
        "{\n  \"kind\": \"Status\",\n  \"message\": \"slow down\",
            \"reason\": \"TooManyRequests\",
            \"details\": {\n    \"retryAfterSeconds\": 1\n  },\n  \"code\": 429\n}\n",
    ] {
        let FrameError::Status(status) = fails(body) else { panic!("a Status") };
        assert_eq!((status.code, status.retry_after.map(|wait| wait.as_secs())), (429, Some(1)));
    }
}

#[test]
fn a_list_instead_of_events_is_refused_before_it_has_arrived() {
    let error = fails(r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"#);
    let kind = Some("PodList".to_owned());
    assert_eq!(error, FrameError::Kind { expected: "a stream of watch events", kind });
}

#[test]
fn what_is_not_an_object_is_described_by_its_first_bytes_but_not_after_events() {
    let found = r#"text that begins with "upstream gone""#.to_owned();
    let expected = "a stream of watch events";
    assert_eq!(fails("upstream gone"), FrameError::Body { expected, found });
    let error = fails(r#"{"type":"ADDED","object":{}}upstream gone"#);
    let malformed = FrameError::Malformed { expected: "an object", offset: 28, objects: 1 };
    assert_eq!(error, malformed);
}

#[test]
fn what_breaks_the_frame_is_refused_with_its_position() {
    const EVENT: &str = "an event with a type and an object";
    for (body, expected, offset, objects) in [
        (r#"{"type":"ADDED","object":7}"#, EVENT, 27, 0),
        (r#"{"type":"ADDED","object":{]}"#, "an object that ends with `}`", 25, 0),
        (r#"{"type":7,"object":{}}"#, EVENT, 22, 0),
        (r#"{"type":"ADDED","object":{},"object":{}}"#, "one object only", 37, 0),
        (r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#, "a bookmark with a version", 44, 0),
        (r#"{"type":"ERROR","object":{"code":"c2VjcmV0"}}"#, "an ERROR event with a Status", 45, 0),
        (r#"{"type":"ADDED","object":{}}{"type":"ADDED"}"#, EVENT, 44, 1),
        (r#"{"type":"ADDED","object":{}}{"kind":"Pod"}"#, EVENT, 42, 1),
    ] {
        assert_eq!(fails(body), FrameError::Malformed { expected, offset, objects }, "{body}");
    }
}

#[test]
fn an_object_that_is_no_json_inside_does_not_end_the_watch() {
    let (events, end) =
        watch(r#"{"type":"ADDED","object":{"b":nonsense 7}}{"type":"MODIFIED","object":{"a":1}}"#);
    assert_eq!(end, Ok(()));
    assert_eq!(events[1], change(EventType::Modified, r#"{"a":1}"#));
}

#[test]
fn an_event_beyond_the_bound_is_refused_in_any_chunks() {
    let object = format!(r#"{{"a":"{}"}}"#, "x".repeat(100));
    let body = format!(r#"{{"type":"ADDED","object":{object}}}"#);
    for lens in [[1], [30], [usize::MAX]] {
        let read = |frame_max| {
            let options = FrameOptions { frame_max, ..OPTIONS };
            read_watch(chunks(body.as_bytes(), &lens), options).1
        };
        assert_eq!(read(object.len()), Ok(()));
        let end = read(object.len() - 1);
        assert!(matches!(end, Err(FrameError::TooLarge { .. })), "{end:?}");
    }
}

#[test]
fn no_error_and_no_debug_output_shows_content() {
    let body = r#"{"type":"ADDED","object":{"data":{"key":"c2VjcmV0"#;
    for broken in [
        "",
        "\"]}",
        "\"}}7",
        "\"}},\"type\":{\"c2VjcmV0\":1}}",
        "\"}}} c2VjcmV0",
        "\"}}}{\"c2VjcmV0\":1}",
    ] {
        let (frames, end) = read_watch([body.as_bytes(), broken.as_bytes()], OPTIONS);
        let error = end.expect_err("the body is broken");
        let shown = format!("{frames:?} {error} {error:?}");
        assert!(!shown.contains("c2VjcmV0"), "{shown}");
    }
}
