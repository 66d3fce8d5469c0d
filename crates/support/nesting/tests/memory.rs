//! What decoded texts take is what `measure` says, or less.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use serde_json::Value;
use windlass_nesting::measure;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[expect(unsafe_code, reason = "there is no safe way to be an allocator; it only counts")]
// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get().wrapping_add(taken(layout)));
        MOST.set(MOST.get().max(BYTES.get()));
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get().wrapping_sub(taken(layout)));
        // SAFETY: the pointer comes from `alloc` above, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// As allocators do: a header, and no less than 32 bytes.
fn taken(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

/// The most bytes that are taken while a text is decoded.
fn most_bytes(text: &str) -> usize {
    BYTES.set(0);
    MOST.set(0);
    let value: Value = serde_json::from_str(text).expect("it is JSON");
    let most = MOST.get();
    drop(value);
    most
}

fn list(element: &str, times: usize) -> String {
    format!("[{}]", vec![element; times].join(","))
}

fn object(names: impl Iterator<Item = usize>) -> String {
    let fields: Vec<_> = names.map(|name| format!(r#""{name:06}":0"#)).collect();
    format!("{{{}}}", fields.join(","))
}

#[test]
fn values_take_no_more_than_is_measured() {
    let elements = ["0", r#""""#, r#""a""#, "[]", "[0]", "[0,0,0,0,0]", "{}", r#"{"":0}"#];
    let lists = elements.iter().flat_map(|element| [1, 5, 9, 8_193].map(|n| list(element, n)));
    let objects = [1, 2, 11, 12, 13, 100, 5_000].into_iter().flat_map(|fields| {
        let shuffled = (0..fields).map(move |at| at * 7_919 % fields);
        [object(0..fields), object((0..fields).rev()), object(shuffled)]
    });
    let small: Vec<_> = [2, 11, 12, 17].map(|fields| list(&object(0..fields), 100)).into();
    let nested = [format!("{}0{}", r#"{"":"#.repeat(100), "}".repeat(100))];
    for text in lists.chain(objects).chain(small).chain(nested) {
        let (most, measured) = (most_bytes(&text), measure(text.as_bytes()).memory);
        let begin = &text[..text.len().min(60)];
        assert!(most <= measured, "{most} bytes, measured as {measured}: {begin}");
    }
}

#[test]
fn usual_object_is_measured_as_a_few_times_its_text() {
    let text = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings-of-a-shop",
        "namespace":"shop","labels":{"app.kubernetes.io/name":"shop","tier":"front end"}},
        "data":{"settings.yaml":"replicas: 3, the colour: blue, and a line that is longer"}}"#;
    assert!(measure(text.as_bytes()).memory < 20 * text.len());
}
