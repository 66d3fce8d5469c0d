//! Lists as servers and proxies send them.

use super::{OPTIONS, chunks, read, read_list};
use crate::decode::frames::{Frame, FrameError, FrameOptions, Frames, ListEnd};

fn list(body: &str) -> (Vec<String>, Result<ListEnd, FrameError>) {
    let (items, end) = read_list([body.as_bytes()], OPTIONS);
    let text = |item: Box<[u8]>| String::from_utf8(item.into_vec()).expect("UTF-8");
    (items.into_iter().map(text).collect(), end)
}

#[track_caller]
fn fails(body: &str) -> FrameError {
    let whole = list(body).1.expect_err("the body must be refused");
    let in_chunks = read_list(chunks(body.as_bytes(), &[1]), OPTIONS).1;
    if !matches!(whole, FrameError::Body { .. }) {
        assert_eq!(in_chunks, Err(whole.clone()), "in chunks it must fail alike");
    }
    whole
}

#[test]
fn metadata_may_come_before_or_after_the_items() {
    let metadata = r#""metadata":{"resourceVersion":"7","continue":"t","remainingItemCount":2}"#;
    for body in [
        format!(r#"{{"kind":"PodList",{metadata},"items":[{{"a":1}},{{"b":2}}]}}"#),
        format!(r#"{{"items":[{{"a":1}},{{"b":2}}],{metadata},"kind":"PodList"}}"#),
    ] {
        let (items, end) = list(&body);
        assert_eq!(items, [r#"{"a":1}"#, r#"{"b":2}"#]);
        let end = end.expect("complete");
        assert_eq!(end.resource_version.as_deref(), Some("7"));
        assert_eq!(end.continue_token.as_deref(), Some("t"));
    }
}

#[test]
fn a_list_may_be_empty() {
    for items in ["[]", "[ ]", "null"] {
        let (read, end) = list(&format!(r#"{{"items":{items},"metadata":{{"continue":""}}}}"#));
        assert_eq!(read, [""; 0]);
        assert_eq!(end, Ok(ListEnd::default()));
    }
}

#[test]
fn an_item_comes_out_as_soon_as_it_is_complete() {
    let mut frames = Frames::list(OPTIONS);
    frames.push(br#"{"items":[{"a":1"#);
    assert_eq!(frames.next(), Ok(None));
    frames.push(b"}");
    assert_eq!(frames.next(), Ok(Some(Frame::Item(br#"{"a":1}"#.as_slice().into()))));
    assert_eq!(frames.next(), Ok(None));
}

#[test]
fn an_object_that_is_no_json_inside_does_not_end_the_list() {
    let (items, end) = list(r#"{"items":[{"a":1},{"b":nonsense 7},{"c":3}]}"#);
    assert_eq!(items.len(), 3);
    assert!(end.is_ok());
}

#[test]
fn a_status_is_recognised_by_its_kind() {
    for body in [
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"old",
            "reason":"Expired","code":410}"#,
        "{\n  \"code\": 410,\n  \"reason\": \"Expired\",\n  \"message\": \"old\",
            \"kind\": \"Status\"\n}",
    ] {
        let FrameError::Status(status) = fails(body) else { panic!("a Status") };
        assert_eq!((status.code, &*status.reason, &*status.message), (410, "Expired", "old"));
    }
}

#[test]
fn another_object_is_recognised_by_its_kind_and_not_shown() {
    let error =
        fails(r#"{"kind":"Secret","apiVersion":"v1","metadata":{},"data":{"key":"c2VjcmV0"}}"#);
    assert_eq!(error, FrameError::Kind { expected: "a list", kind: Some("Secret".to_owned()) });
    assert_eq!(error.to_string(), "the body should be a list, but is of kind Secret");
    let error = fails(r#"{"kind":"c2VjcmV0 with spaces"}"#);
    assert_eq!(error.to_string(), "the body should be a list, but is an object without a kind");
}

#[test]
fn what_is_not_an_object_is_described_by_its_first_bytes() {
    for (body, found) in [
        ("404 page not found\n", r#"text that begins with "404 page not found""#),
        ("<html><body>login", r#"a web page that begins with "<html><body>login""#),
        (r#"[{"data":"c2VjcmV0"}]"#, "other JSON"),
        ("", "empty"),
        ("\n \n", "empty"),
    ] {
        let expected = FrameError::Body { expected: "a list", found: found.to_owned() };
        assert_eq!(fails(body), expected);
    }
}

#[test]
fn what_breaks_the_frame_is_refused_with_its_position() {
    const LIST: &str = "a list with metadata and items";
    for (body, expected, offset, objects) in [
        (r#"{"items":[{},7]}"#, "an object", 13, 1),
        (r#"{"items":[{},]}"#, "an object", 13, 1),
        (r#"{"items":[7]}"#, "an object or `]`", 10, 0),
        (r#"{"items":[{} {}]}"#, "`,` or `]`", 13, 1),
        (r#"{"items":[{"a":[}]}"#, "an object that ends with `}`", 10, 0),
        (r#"{"items":{}}"#, LIST, 12, 0),
        (r#"{"items":nothing}"#, LIST, 17, 0),
        (r#"{"items":[]]"#, LIST, 12, 0),
        (r#"{"items":[]}{"#, "the end of the body", 12, 0),
        (r#"{"metadata":[],"items":[]}"#, LIST, 26, 0),
        (r#"{"metadata":{"continue":7},"items":[]}"#, LIST, 38, 0),
        (r#"{"kind" "PodList"}"#, LIST, 18, 0),
        (r#"{"kind":,"items":[]}"#, LIST, 20, 0),
        (r#"{kind:"PodList"}"#, LIST, 16, 0),
        (r#"{"a":1,}"#, LIST, 8, 0),
    ] {
        assert_eq!(fails(body), FrameError::Malformed { expected, offset, objects }, "{body}");
    }
}

/// If the last one counted, a list without its token would pass for complete, and the cache would
/// delete what the other pages have.
#[test]
fn a_list_that_has_a_member_twice_is_refused() {
    for body in [
        r#"{"metadata":{"continue":"t"},"items":[],"metadata":{}}"#,
        r#"{"metadata":{"continue":"t","continue":""},"items":[]}"#,
        r#"{"metadata":{},"items":[{"a":1}],"items":[]}"#,
    ] {
        assert!(matches!(fails(body), FrameError::Malformed { .. }), "{body}");
    }
}

#[test]
fn a_body_that_ends_early_says_where() {
    let error = fails(r#"{"kind":"PodList","items":[{"a":1},{"b":"c2Vj"#);
    assert_eq!(error, FrameError::Truncated { offset: 45, objects: 1 });
    assert_eq!(error.to_string(), "the body ended too early, at byte 45, after 1 objects");
    assert!(matches!(fails(r#"{"items":[]"#), FrameError::Truncated { .. }));
}

#[test]
fn an_item_beyond_the_bound_is_refused_in_any_chunks() {
    let item = format!(r#"{{"a":"{}"}}"#, "x".repeat(92));
    let body = format!(r#"{{"items":[{item},{{}}]}}"#);
    for lens in [[1], [30], [usize::MAX]] {
        let read = |frame_max| {
            let options = FrameOptions { frame_max, ..OPTIONS };
            read_list(chunks(body.as_bytes(), &lens), options)
        };
        assert_eq!(read(100).0.len(), 2);
        let (items, end) = read(99);
        assert_eq!(items.len(), 0);
        assert!(matches!(end, Err(FrameError::TooLarge { frame_max: 99, .. })), "{end:?}");
    }
}

#[test]
fn an_envelope_beyond_the_bound_is_refused() {
    let body = format!(r#"{{"other":"{}""#, "x".repeat(100));
    for lens in [[1], [30], [usize::MAX]] {
        let options = FrameOptions { frame_max: 99, ..OPTIONS };
        let (_, end) = read_list(chunks(body.as_bytes(), &lens), options);
        assert!(matches!(end, Err(FrameError::TooLarge { frame_max: 99, .. })), "{end:?}");
    }
}

#[test]
fn deep_nesting_costs_no_stack() {
    let depth = 1_000_000;
    let item = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let (items, end) = list(&format!(r#"{{"items":[{item}]}}"#));
    assert_eq!((items.len(), end.is_ok()), (1, true));
}

#[test]
fn memory_is_bounded_by_the_object_and_the_chunk() {
    let item = format!(r#"{{"a":"{}"}}"#, "x".repeat(10_000));
    let body = format!(r#"{{"items":[{}]}}"#, vec![item; 1_000].join(","));
    let mut frames = Frames::list(OPTIONS);
    for chunk in body.as_bytes().chunks(16 * 1024) {
        frames.push(chunk);
        while frames.next().expect("a list").is_some() {}
        let held = frames.buffer.bytes.capacity() + frames.envelope.bytes.capacity();
        assert!(held <= 64 * 1024, "{held} bytes are held");
    }
    assert_eq!(frames.objects, 1_000);
    assert_eq!(frames.buffer.offset(), body.len() as u64);
}

#[test]
fn no_error_and_no_debug_output_shows_content() {
    let body =
        r#"{"kind":"SecretList","items":[{"data":{"key":"c2VjcmV0"}},{"data":{"key":"c2VjcmV0"#;
    for broken in
        ["\"]}", "\"}}}", "\"}},7", "\"}},\"c2VjcmV0\"", "", "\"}}],\"metadata\":\"c2VjcmV0\""]
    {
        let chunks = [body.as_bytes(), broken.as_bytes()];
        let (frames, end) = read(Frames::list(OPTIONS), chunks);
        let error = end.expect_err("the body is broken");
        let shown = format!("{frames:?} {error} {error:?}");
        assert!(!shown.contains("c2VjcmV0"), "{shown}");
    }
}
