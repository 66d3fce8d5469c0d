//! Decoding reserves no more than the bytes that are there, whatever lengths they name.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt;

use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use windlass_protobuf::{
    Envelope, ListParser, WatchEvent, cut_managed_fields, from_raw, raw_from_json, sample,
};

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

struct Noting;

#[expect(unsafe_code, reason = "there is no safe way to be an allocator; it only notes")]
// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer comes from `alloc` above, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static NOTING: Noting = Noting;

/// Small allocations, as for the text of a time or an error, whatever the input.
const SMALL: usize = 1024;

/// The largest single allocation of `run`.
fn largest(run: impl FnOnce()) -> usize {
    LARGEST.set(0);
    run();
    LARGEST.get()
}

/// A type that asks for everything and keeps nothing.
struct Walk;

impl<'de> Deserialize<'de> for Walk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Walk {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

/// Reads the bytes in all ways.
fn read_all(kind: (&str, &str), raw: &[u8]) {
    let _ = from_raw::<Walk>(kind.0, kind.1, raw);
    let _ = Envelope::read(raw);
    let _ = WatchEvent::read(raw);
    let _ = cut_managed_fields(raw, &mut Vec::with_capacity(raw.len()));
    let (mut parser, mut rest) = (ListParser::new(), raw);
    while let Ok(Some(_)) = parser.next(&mut rest) {}
}

#[test]
fn lengths_that_lie_reserve_nothing() {
    // The table is parsed with the first object.
    read_all(("v1", "Pod"), &[]);
    for number in 1..20_u8 {
        // A field with a length of two gigabytes.
        let lie = [number << 3 | 2, 0xff, 0xff, 0xff, 0xff, 0x07];
        for prefix in [&[][..], b"k8s\0"] {
            let bytes = [prefix, &lie].concat();
            for kind in windlass_protobuf::kinds() {
                let largest = largest(|| read_all(kind, &bytes));
                assert!(largest <= SMALL, "{largest} bytes for field {number} of {kind:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn no_allocation_is_larger_than_the_input(
        kind in prop::sample::select(windlass_protobuf::kinds().collect::<Vec<_>>()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        doubled in any::<bool>(),
    ) {
        let sample = sample(kind.0, kind.1).expect("it is a kind");
        let mut raw = raw_from_json(kind.0, kind.1, &sample).expect("it has its fields alone");
        if doubled {
            // Every field is repeated, so that all messages are merged.
            raw.extend_from_within(..);
        }
        for (place, byte) in changes {
            let place = place.index(raw.len());
            raw[place] = byte;
        }
        let largest = largest(|| read_all(kind, &raw));
        // Bytes are a third longer in base64.
        prop_assert!(largest <= raw.len() * 4 / 3 + SMALL, "{} bytes of {}", largest, raw.len());
    }
}
