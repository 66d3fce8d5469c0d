//! Frames beside `serde_json`: whatever the objects are, however they are written, wherever the
//! body is divided, both read the same. And whatever the bytes are, nothing panics.
//!
//! A failure prints its input, and `PROPTEST_CASES=20000` looks longer.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{OPTIONS, Writer, chunks, lens, object, read_list, read_watch, without_managed_fields};
use crate::decode::compact::{ManagedFields, ObjectScan};
use crate::decode::frames::{Bookmark, EventType, Frame, FrameError, FrameOptions};

fn compact(object: &[u8], managed_fields: ManagedFields) -> Box<[u8]> {
    let mut scan = ObjectScan::default();
    assert_eq!(scan.advance(object), Some(object.len()));
    scan.copy(object, managed_fields)
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("a frame must be JSON")
}

/// Whitespace outside of strings, found by parsing.
fn is_compact(bytes: &[u8]) -> bool {
    let mut inside = false;
    let mut escaped = false;
    bytes.iter().all(|&byte| {
        if byte == b'"' && !escaped {
            inside = !inside;
        }
        escaped = byte == b'\\' && !escaped;
        inside || !byte.is_ascii_whitespace()
    })
}

fn list_body(items: &[Value], writer: &mut Writer) -> String {
    let written = items.iter().map(|item| writer.write(item)).collect();
    let metadata = json!({"resourceVersion": "12", "continue": "abc", "remainingItemCount": 3});
    let members = vec![
        ("kind".to_owned(), "\"ThingList\"".to_owned()),
        ("apiVersion".to_owned(), "\"v1\"".to_owned()),
        ("metadata".to_owned(), writer.write(&metadata)),
        ("items".to_owned(), writer.array(written)),
        ("other".to_owned(), writer.write(&json!({"items": [{}], "metadata": [1, "]"]}))),
    ];
    format!("{}{}{}", writer.space(), writer.object(members), writer.space())
}

/// An event in its written form.
fn event_body(name: &str, object: &Value, writer: &mut Writer) -> String {
    let members = vec![
        ("type".to_owned(), format!("\"{name}\"")),
        ("object".to_owned(), writer.write(object)),
    ];
    writer.object(members)
}

/// Bytes that often look like what is expected.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\n",
        "\"",
        "\\",
        "null",
        "7",
        r#""x""#,
        "{}",
        r#""kind":"Status""#,
        r#""type":"ADDED""#,
        r#""type":"BOOKMARK""#,
        r#""type":"ERROR""#,
        r#""object":{}"#,
        r#""object":"#,
        r#""items":["#,
        r#""items":"#,
        r#""metadata":{"#,
        r#""metadata":"#,
        r#""managedFields":"#,
        "{},",
    ];
    let word = prop_oneof![
        8 => prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..3),
    ];
    let start = prop::sample::select(vec![
        "",
        "{",
        r#"{"items":[{"#,
        r#"{"items":[{"metadata":{"#,
        r#"{"type":"ADDED","object":{"#,
    ]);
    (start, prop::collection::vec(word, 0..60))
        .prop_map(|(start, words)| [start.as_bytes(), &words.concat()].concat())
}

/// Equal, except for how much was seen of a body that is no object.
fn alike<T: PartialEq>(one: &Result<T, FrameError>, other: &Result<T, FrameError>) -> bool {
    use FrameError::Body;
    one == other || matches!((one, other), (Err(Body { .. }), Err(Body { .. })))
}

proptest! {
    #[test]
    fn a_list_is_what_serde_reads(
        items in prop::collection::vec(object(), 0..5), seed: u64, lens in lens(), keep: bool,
    ) {
        let body = list_body(&items, &mut Writer::new(seed));
        let managed_fields = if keep { ManagedFields::Keep } else { ManagedFields::Cut };
        let options = FrameOptions { managed_fields, ..OPTIONS };
        let (read, end) = read_list(chunks(body.as_bytes(), &lens), options);
        let end = end.expect("the list is complete");
        prop_assert_eq!(end.resource_version.as_deref(), Some("12"));
        prop_assert_eq!(end.continue_token.as_deref(), Some("abc"));
        let kept = |item| if keep { Value::clone(item) } else { without_managed_fields(item) };
        let expected: Vec<_> = items.iter().map(kept).collect();
        prop_assert_eq!(read.iter().map(|item| parse(item)).collect::<Vec<_>>(), expected);
        for item in read {
            prop_assert!(is_compact(&item));
            let item = item.into_vec();
            prop_assert_eq!(item.capacity(), item.len());
        }
    }

    #[test]
    fn a_watch_is_what_serde_reads(
        events in prop::collection::vec((0_usize..4, object()), 0..5), seed: u64, lens in lens(),
    ) {
        let mut writer = Writer::new(seed);
        let mut body = String::new();
        for (kind, object) in &events {
            let name = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"][*kind];
            let bookmark = json!({"metadata": {"resourceVersion": "9", "x": object,
                "annotations": {"a": "b", "k8s.io/initial-events-end": "true"}}});
            let object = if name == "BOOKMARK" { &bookmark } else { object };
            body += &event_body(name, object, &mut writer);
            body += &writer.space();
        }
        let (read, end) = read_watch(chunks(body.as_bytes(), &lens), OPTIONS);
        prop_assert_eq!(end, Ok(()));
        prop_assert_eq!(read.len(), events.len());
        for (read, (kind, object)) in read.into_iter().zip(events) {
            match (read, kind) {
                (Frame::Change(change, read), 0..3) => {
                    let changes = [EventType::Added, EventType::Modified, EventType::Deleted];
                    prop_assert_eq!(change, changes[kind]);
                    prop_assert_eq!(parse(&read), without_managed_fields(&object));
                }
                (Frame::Bookmark(Bookmark { resource_version, initial_events_end }), 3) => {
                    prop_assert_eq!(resource_version, "9");
                    prop_assert!(initial_events_end);
                }
                (other, _) => prop_assert!(false, "an event became {:?}", other),
            }
        }
    }

    #[test]
    fn cutting_is_removing(object in object(), seed: u64) {
        let written = Writer::new(seed).write(&object);
        let cut = compact(written.as_bytes(), ManagedFields::Cut);
        prop_assert_eq!(parse(&cut), without_managed_fields(&object));
        let kept = compact(written.as_bytes(), ManagedFields::Keep);
        prop_assert_eq!(parse(&kept), object);
        prop_assert!(is_compact(&cut) && is_compact(&kept));
        let again = compact(&cut, ManagedFields::Cut);
        prop_assert_eq!(again, cut);
    }

    #[test]
    fn half_an_item_never_comes_out(
        items in prop::collection::vec(object(), 1..4),
        seed: u64,
        lens in lens(),
        at: prop::sample::Index,
    ) {
        let body = list_body(&items, &mut Writer::new(seed));
        let body = body.trim_ascii_end().as_bytes();
        let cut = &body[..at.index(body.len())];
        let (read, end) = read_list(chunks(cut, &lens), OPTIONS);
        let is_expected =
            matches!(end, Err(FrameError::Truncated { .. } | FrameError::Body { .. }));
        prop_assert!(is_expected, "{:?}", end);
        if let Err(FrameError::Truncated { offset, .. }) = end {
            prop_assert_eq!(offset, cut.len() as u64);
        }
        for (read, whole) in read.iter().zip(&items) {
            prop_assert_eq!(parse(read), without_managed_fields(whole));
        }
    }

    #[test]
    fn half_an_event_never_comes_out(
        objects in prop::collection::vec(object(), 1..4),
        seed: u64,
        lens in lens(),
        at: prop::sample::Index,
    ) {
        let mut writer = Writer::new(seed);
        let mut event = |object| event_body("ADDED", object, &mut writer);
        let events: Vec<_> = objects.iter().map(&mut event).collect();
        let body = events.concat();
        let at = at.index(body.len());
        let (read, end) = read_watch(chunks(&body.as_bytes()[..at], &lens), OPTIONS);
        let mut ends = events.iter().scan(0, |end, event| { *end += event.len(); Some(*end) });
        let whole = ends.clone().filter(|&end| end <= at).count();
        prop_assert_eq!(read.len(), whole);
        prop_assert_eq!(end.is_ok(), at == 0 || ends.any(|end| end == at));
    }

    #[test]
    fn any_bytes_are_read_alike_in_any_chunks(body in noise(), lens in lens()) {
        let (whole, end) = read_list([body.as_slice()], OPTIONS);
        let (in_chunks, other_end) = read_list(chunks(&body, &lens), OPTIONS);
        prop_assert_eq!(whole, in_chunks);
        prop_assert!(alike(&end, &other_end), "{:?} but in chunks {:?}", end, other_end);
        let (whole, end) = read_watch([body.as_slice()], OPTIONS);
        let (in_chunks, other_end) = read_watch(chunks(&body, &lens), OPTIONS);
        prop_assert_eq!(whole, in_chunks);
        prop_assert!(alike(&end, &other_end), "{:?} but in chunks {:?}", end, other_end);
    }
}
