//! Lists as servers and what stands between send them.

mod common;

use common::{pieces, read_list};
use windlass_informer::{
    FrameError, FrameOptions, ListEnd, ListFrame, ListFrames, Part, Place, Seen,
};

fn list(body: &str) -> (Vec<String>, Result<ListEnd, FrameError>) {
    let (items, end) = read_list([body.as_bytes()], FrameOptions::default());
    let text = |item: Box<[u8]>| String::from_utf8(item.into_vec()).expect("UTF-8");
    (items.into_iter().map(text).collect(), end)
}

#[track_caller]
fn fails(body: &str) -> FrameError {
    let whole = list(body).1.expect_err("the body must be refused");
    let in_pieces = read_list(pieces(body.as_bytes(), &[1]), FrameOptions::default()).1;
    if !matches!(whole, FrameError::Body { .. }) {
        assert_eq!(in_pieces, Err(whole.clone()), "in pieces it must fail alike");
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
        assert_eq!(end.remaining_item_count, Some(2));
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
    let mut frames = ListFrames::new(FrameOptions::default());
    frames.push(br#"{"items":[{"a":1"#);
    assert_eq!(frames.next_frame(), Ok(None));
    frames.push(b"}");
    assert_eq!(frames.next_frame(), Ok(Some(ListFrame::Item(br#"{"a":1}"#.as_slice().into()))));
    assert_eq!(frames.next_frame(), Ok(None));
}

#[test]
fn a_splitter_takes_one_body_after_the_other() {
    let mut frames = ListFrames::new(FrameOptions::default());
    for body in [r#"{"items":[{}]}"#, r#"{"items":[{"a""#, "oops", r#"{"items":[{}]}"#] {
        frames.push(body.as_bytes());
        let first = frames.next_frame();
        while let Ok(Some(_)) = frames.next_frame() {}
        let finished = frames.finish();
        assert_eq!(finished.is_ok(), body.ends_with("[{}]}"), "{body}");
        assert_eq!(matches!(first, Ok(Some(ListFrame::Item(_)))), finished.is_ok());
    }
}

#[test]
fn one_object_that_is_no_json_inside_does_not_take_the_others_along() {
    let (items, end) = list(r#"{"items":[{"a":1},{"b":nonsense 7},{"c":3}]}"#);
    assert_eq!(items.len(), 3);
    assert!(end.is_ok());
}

#[test]
fn a_status_is_told_by_its_kind() {
    for body in [
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"old","reason":"Expired","code":410}"#,
        "{\n  \"code\": 410,\n  \"reason\": \"Expired\",\n  \"message\": \"old\",\n  \"kind\": \"Status\"\n}",
    ] {
        let FrameError::Status(status) = fails(body) else { panic!("a Status") };
        assert_eq!((status.code, &*status.reason, &*status.message), (410, "Expired", "old"));
    }
}

#[test]
fn another_object_is_told_by_its_kind_and_not_shown() {
    let error =
        fails(r#"{"kind":"Secret","apiVersion":"v1","metadata":{},"data":{"key":"c2VjcmV0"}}"#);
    assert_eq!(error, FrameError::Kind { expected: "a list", kind: Some("Secret".to_owned()) });
    assert_eq!(error.to_string(), "the body should be a list, but is of kind Secret");
    let error = fails(r#"{"kind":"c2VjcmV0 with spaces"}"#);
    assert_eq!(error.to_string(), "the body should be a list, but is an object without a kind");
}

#[test]
fn what_is_not_an_object_is_told_by_its_first_bytes() {
    let seen = |body| match fails(body) {
        FrameError::Body { seen, .. } => seen,
        other => panic!("{other}"),
    };
    assert_eq!(seen("404 page not found\n"), Seen::Text("404 page not found".to_owned()));
    assert_eq!(seen("<html><body>login"), Seen::Html("<html><body>login".to_owned()));
    assert_eq!(seen(r#"[{"data":"c2VjcmV0"}]"#), Seen::Json);
    assert_eq!(seen(""), Seen::Empty);
    assert_eq!(seen("\n \n"), Seen::Empty);
}

#[test]
fn what_breaks_the_frame_is_refused_with_its_place() {
    let place = |offset, part| Place { offset, part };
    for (body, expected, at) in [
        (r#"{"items":[{},7]}"#, "an object", place(13, Part::Item(1))),
        (r#"{"items":[{},]}"#, "an object", place(13, Part::Item(1))),
        (r#"{"items":[{} {}]}"#, "`,` or `]`", place(13, Part::Item(1))),
        (r#"{"items":[{"a":[}]}"#, "`}` before", place(18, Part::Item(0))),
        (r#"{"items":{}}"#, "an array of items", place(9, Part::List)),
        (r#"{"items":nothing}"#, "an array of items before", place(16, Part::List)),
        (r#"{"items":[]]"#, "`,` or `}`", place(11, Part::List)),
        (r#"{"items":[]}{"#, "the end of the body", place(12, Part::List)),
        (r#"{"metadata":[],"items":[]}"#, "the metadata of a list before", place(14, Part::List)),
        (r#"{"kind" "PodList"}"#, "`:`", place(8, Part::List)),
        (r#"{"kind":,"#, "a value", place(8, Part::List)),
        (r"{kind:", "a key or `}`", place(1, Part::List)),
        (r#"{"a":1,}"#, "a key", place(7, Part::List)),
    ] {
        assert_eq!(fails(body), FrameError::Malformed { expected, place: at }, "{body}");
    }
}

#[test]
fn a_body_that_ends_early_says_where() {
    let error = fails(r#"{"kind":"PodList","items":[{"a":1},{"b":"c2Vj"#);
    let place = Place { offset: 45, part: Part::Item(1) };
    assert_eq!(error, FrameError::Truncated(place));
    let text = "the body ended too early, at byte 45 of the body, in item 1 (counted from 0)";
    assert_eq!(error.to_string(), text);
    assert!(matches!(fails(r#"{"items":[]"#), FrameError::Truncated(_)));
}

#[test]
fn an_item_beyond_the_bound_is_refused_in_any_pieces() {
    let item = format!(r#"{{"a":"{}"}}"#, "x".repeat(92));
    let body = format!(r#"{{"items":[{item},{{}}]}}"#);
    let options = FrameOptions::default();
    for lens in [[1], [30], [usize::MAX]] {
        let chunks = || pieces(body.as_bytes(), &lens);
        assert_eq!(read_list(chunks(), options.frame_max(100)).0.len(), 2);
        let (items, end) = read_list(chunks(), options.frame_max(99));
        assert_eq!(items.len(), 0);
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
fn memory_is_bounded_by_the_object_and_the_piece() {
    let item = format!(r#"{{"a":"{}"}}"#, "x".repeat(10_000));
    let body = format!(r#"{{"items":[{}]}}"#, vec![item; 1_000].join(","));
    let mut frames = ListFrames::new(FrameOptions::default());
    for chunk in body.as_bytes().chunks(16 * 1024) {
        frames.push(chunk);
        while frames.next_frame().expect("a list").is_some() {}
        assert!(frames.memory() <= 64 * 1024, "{} bytes are held", frames.memory());
    }
    assert_eq!(frames.items(), 1_000);
    assert_eq!(frames.bytes(), body.len() as u64);
}

#[test]
fn no_error_and_no_debug_output_shows_content() {
    let body =
        r#"{"kind":"SecretList","items":[{"data":{"key":"c2VjcmV0"}},{"data":{"key":"c2VjcmV0"#;
    for broken in
        ["\"]}", "\"}}}", "\"}},7", "\"}},\"c2VjcmV0\"", "", "\"}}],\"metadata\":\"c2VjcmV0\""]
    {
        let mut frames = ListFrames::new(FrameOptions::default());
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
