//! Watches as servers and what stands between send them.

mod common;

use common::{pieces, read_watch};
use windlass_informer::{
    Change, FrameError, FrameOptions, Part, Place, Seen, WatchFrame, WatchFrames,
};

fn watch(body: &str) -> (Vec<WatchFrame>, Result<(), FrameError>) {
    let whole = read_watch([body.as_bytes()], FrameOptions::default());
    let in_pieces = read_watch(pieces(body.as_bytes(), &[1]), FrameOptions::default());
    assert_eq!(whole.0, in_pieces.0, "in pieces it must be the same");
    if !matches!(whole.1, Err(FrameError::Body { .. })) {
        assert_eq!(whole.1, in_pieces.1, "in pieces it must end alike");
    }
    whole
}

#[track_caller]
fn fails(body: &str) -> FrameError {
    watch(body).1.expect_err("the body must be refused")
}

fn change(change: Change, object: &str) -> WatchFrame {
    WatchFrame::Change(change, object.as_bytes().into())
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
        change(Change::Added, r#"{"a":1}"#),
        change(Change::Modified, r#"{"metadata":{}}"#),
        change(Change::Deleted, r#"{"a":1}"#),
    ];
    assert_eq!(events, expected);
}

#[test]
fn an_event_comes_out_before_its_newline() {
    let mut frames = WatchFrames::new(FrameOptions::default());
    frames.push(br#"{"type":"ADDED","object":{}}"#);
    assert_eq!(frames.next_frame(), Ok(Some(change(Change::Added, "{}"))));
    assert_eq!(frames.next_frame(), Ok(None));
}

#[test]
fn a_bookmark_tells_its_version_and_whether_the_initial_events_end() {
    let body = r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7","creationTimestamp":null}}}
        {"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"8"}}}
        {"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"false"},"resourceVersion":"9"}}}"#;
    let bookmarks = watch(body).0.into_iter().map(|event| match event {
        WatchFrame::Bookmark(bookmark) => (bookmark.resource_version, bookmark.initial_events_end),
        other => panic!("{other:?}"),
    });
    let expected = [("7".to_owned(), false), ("8".to_owned(), true), ("9".to_owned(), false)];
    assert_eq!(bookmarks.collect::<Vec<_>>(), expected);
}

#[test]
fn an_error_event_is_a_status() {
    let (events, end) = watch(
        r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (100693)","reason":"Expired","code":410}}"#,
    );
    assert_eq!(end, Ok(()));
    let [WatchFrame::Error(status)] = events.as_slice() else { panic!("an error") };
    assert_eq!(status.to_string(), "status 410 (Expired): too old resource version: 1 (100693)");
}

#[test]
fn events_of_later_versions_are_passed_over() {
    let (events, end) =
        watch(r#"{"type":"SHRUNK","object":{}}{"type":"ADDED","object":{"type":"ERROR"}}"#);
    assert_eq!(end, Ok(()));
    assert_eq!(events, [WatchFrame::Unknown, change(Change::Added, r#"{"type":"ERROR"}"#)]);
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
            let place = Place { offset: len as u64, part: Part::Event(events.len() as u64) };
            assert_eq!(error, FrameError::Truncated(place));
        }
    }
}

#[test]
fn a_status_instead_of_events_is_told_by_its_kind_pretty_or_not() {
    for body in [
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"slow down","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}"#,
        "{\n  \"kind\": \"Status\",\n  \"message\": \"slow down\",\n  \"reason\": \"TooManyRequests\",\n  \"details\": {\n    \"retryAfterSeconds\": 1\n  },\n  \"code\": 429\n}\n",
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
fn what_is_not_an_object_is_told_by_its_first_bytes_but_not_after_events() {
    let seen = Seen::Text("upstream gone".to_owned());
    let expected = "a stream of watch events";
    assert_eq!(fails("upstream gone"), FrameError::Body { expected, seen });
    let error = fails(r#"{"type":"ADDED","object":{}}upstream gone"#);
    let place = Place { offset: 28, part: Part::Event(1) };
    assert_eq!(error, FrameError::Malformed { expected: "an object", place });
}

#[test]
fn what_breaks_the_frame_is_refused_with_its_place() {
    for (body, expected, offset) in [
        (r#"{"type":"ADDED","object":7}"#, "an object", 25),
        (r#"{"type":"ADDED","object":{]}"#, "`}` before", 27),
        (r#"{"type":7,"object":{}}"#, "a type of event before", 9),
        (r#"{"object":{},"object":{}}"#, "one object only", 22),
        (r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#, "a bookmark with a version before", 44),
        (
            r#"{"type":"ERROR","object":{"code":"c2VjcmV0"}}"#,
            "an ERROR event with a Status before",
            45,
        ),
    ] {
        let place = Place { offset, part: Part::Event(0) };
        assert_eq!(fails(body), FrameError::Malformed { expected, place }, "{body}");
    }
    let error = fails(r#"{"type":"ADDED","object":{}}{"type":"ADDED"}"#);
    let place = Place { offset: 44, part: Part::Event(1) };
    let expected = "an event with a type and an object";
    assert_eq!(error, FrameError::Malformed { expected, place });
}

#[test]
fn an_event_beyond_the_bound_is_refused_in_any_pieces() {
    let body = format!(r#"{{"type":"ADDED","object":{{"a":"{}"}}}}"#, "x".repeat(100));
    let options = FrameOptions::default();
    for lens in [[1], [30], [usize::MAX]] {
        let chunks = || pieces(body.as_bytes(), &lens);
        assert_eq!(read_watch(chunks(), options.frame_max(body.len())).1, Ok(()));
        let end = read_watch(chunks(), options.frame_max(body.len() - 1)).1;
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
        let mut frames = WatchFrames::new(FrameOptions::default());
        frames.push(body.as_bytes());
        frames.push(broken.as_bytes());
        while let Ok(Some(frame)) = frames.next_frame() {
            assert!(!format!("{frame:?}").contains("c2VjcmV0"));
        }
        let shown = format!("{frames:?}");
        let error = frames.finish().expect_err("the body is broken");
        for text in [shown, error.to_string(), format!("{error:?}")] {
            assert!(!text.contains("c2VjcmV0"), "{text}");
        }
    }
}
