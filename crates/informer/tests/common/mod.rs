//! What the tests of frames share: reading bodies in pieces, and JSON that is written in every possible way.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Map, Value};
use windlass_informer::{
    FrameError, FrameOptions, ListEnd, ListFrame, ListFrames, WatchFrame, WatchFrames,
};

/// The items of a list, or of as much of it as was understood, and how it ended.
pub(crate) fn read_list<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
    options: FrameOptions,
) -> (Vec<Box<[u8]>>, Result<ListEnd, FrameError>) {
    let mut frames = ListFrames::new(options);
    let mut items = Vec::new();
    let mut end = None;
    for chunk in chunks {
        frames.push(chunk);
        while let Ok(Some(frame)) = frames.next_frame() {
            match frame {
                ListFrame::Item(item) => items.push(item),
                ListFrame::End(list) => assert_eq!(end.replace(list), None, "a list ends once"),
            }
        }
    }
    assert_eq!(frames.items(), items.len() as u64);
    (items, frames.finish().map(|()| end.expect("a list that finishes must have ended")))
}

/// The events of a watch, or of as much of it as was understood, and how it ended.
pub(crate) fn read_watch<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
    options: FrameOptions,
) -> (Vec<WatchFrame>, Result<(), FrameError>) {
    let mut frames = WatchFrames::new(options);
    let mut events = Vec::new();
    for chunk in chunks {
        frames.push(chunk);
        while let Ok(Some(event)) = frames.next_frame() {
            events.push(event);
        }
    }
    assert_eq!(frames.events(), events.len() as u64);
    (events, frames.finish())
}

/// Divides `body` into pieces: at every place where `lens` says so, over and over.
pub(crate) fn pieces<'a>(body: &'a [u8], lens: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = body;
    let mut pieces = Vec::new();
    for &len in lens.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(len.clamp(1, rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Lengths of pieces: many short ones, or a few long ones.
pub(crate) fn lens() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        prop::collection::vec(1_usize..4, 1..4),
        prop::collection::vec(1_usize..200, 1..8),
        Just(vec![usize::MAX]),
    ]
}

/// Any object, with the names that matter in places where they do and do not.
pub(crate) fn object() -> impl Strategy<Value = Value> {
    let members = prop::collection::vec((key(), value()), 0..5);
    let metadata = prop::collection::vec((key(), value()), 0..5).prop_map(from_members);
    (members, prop::option::of(metadata)).prop_map(|(members, metadata)| {
        let mut object = from_members(members);
        if let Some(metadata) = metadata {
            object["metadata"] = metadata;
        }
        object
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1000_i32..1000).prop_map(|number| Value::from(f64::from(number) / 8.0)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..5).prop_map(from_members),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec!["metadata", "managedFields", "spec"]).prop_map(str::to_owned),
        2 => text(),
    ]
}

/// Text that is hard on whoever looks for brackets, quotes or names in it.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => r#"["\\{}\[\]:, a\n]{0,12}"#,
        1 => any::<String>(),
        1 => prop::sample::select(vec![r#""managedFields":[]"#, "managedFields", "metadata\\", "ü€🦀"])
            .prop_map(str::to_owned),
    ]
}

fn from_members(members: Vec<(String, Value)>) -> Value {
    Value::Object(members.into_iter().collect::<Map<_, _>>())
}

/// Writes JSON in one of its many forms, drawn from a seed.
pub(crate) struct Writer {
    random: fastrand::Rng,
    spaced: bool,
}

impl Writer {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self { spaced: random.bool(), random }
    }

    /// Members in any order, strings with or without escapes, whitespace here and there or nowhere.
    pub(crate) fn write(&mut self, value: &Value) -> String {
        match value {
            Value::Object(members) => {
                let members = members.iter().map(|(key, value)| (key.clone(), self.write(value)));
                let members = members.collect();
                self.object(members)
            }
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.padded(item)).collect();
                format!("[{}]", items.join(","))
            }
            Value::String(text) => self.string(text),
            other => other.to_string(),
        }
    }

    /// An object whose values are written already.
    pub(crate) fn object(&mut self, mut members: Vec<(String, String)>) -> String {
        self.random.shuffle(&mut members);
        let members: Vec<_> = members
            .into_iter()
            .map(|(key, value)| {
                let key = self.string(&key);
                format!(
                    "{}{key}{}:{}{value}{}",
                    self.space(),
                    self.space(),
                    self.space(),
                    self.space()
                )
            })
            .collect();
        if members.is_empty() {
            return format!("{{{}}}", self.space());
        }
        format!("{{{}}}", members.join(","))
    }

    /// An array whose items are written already.
    pub(crate) fn array(&mut self, items: Vec<String>) -> String {
        let items: Vec<_> = items
            .into_iter()
            .map(|item| format!("{}{item}{}", self.space(), self.space()))
            .collect();
        format!("[{}{}]", items.join(","), self.space())
    }

    pub(crate) fn space(&mut self) -> String {
        if !self.spaced || self.random.bool() {
            return String::new();
        }
        let count = if self.random.u8(..10) == 0 { 70 } else { self.random.usize(1..4) };
        (0..count)
            .map(|_| *self.random.choice(&[' ', '\n', '\t', '\r']).expect("a choice"))
            .collect()
    }

    fn padded(&mut self, value: &Value) -> String {
        format!("{}{}{}", self.space(), self.write(value), self.space())
    }

    fn string(&mut self, text: &str) -> String {
        let mut written = String::from('"');
        let escape_all = self.random.u8(..8) == 0;
        for char in text.chars() {
            if escape_all && self.random.bool() {
                let mut units = [0; 2];
                for unit in char.encode_utf16(&mut units) {
                    write!(written, "\\u{unit:04x}").expect("a string takes all");
                }
            } else {
                let quoted = serde_json::to_string(&char).expect("a character is JSON");
                written.push_str(&quoted[1..quoted.len() - 1]);
            }
        }
        written.push('"');
        written
    }
}

/// What an object is without its managedFields.
pub(crate) fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}
