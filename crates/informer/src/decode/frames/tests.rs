//! Tests of frames, and what they share: reading bodies in chunks, and JSON that is written in many
//! ways.

mod list;
mod model;
mod watch;

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::{Frame, FrameError, FrameOptions, Frames, ListEnd};
use crate::decode::compact::ManagedFields;

const OPTIONS: FrameOptions =
    FrameOptions { managed_fields: ManagedFields::Cut, frame_max: FrameOptions::FRAME_MAX_DEFAULT };

/// The frames of a body, or of as much of it as was understood, and how it ended.
fn read<'a>(
    mut frames: Frames,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Frame>, Result<(), FrameError>) {
    let mut read = Vec::new();
    for chunk in chunks {
        frames.push(chunk);
        loop {
            match frames.next() {
                Ok(Some(frame)) => read.push(frame),
                Ok(None) => break,
                Err(error) => return (read, Err(error)),
            }
        }
    }
    (read, frames.finish())
}

/// The items of a list, or of as much of it as was understood, and how it ended.
fn read_list<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
    options: FrameOptions,
) -> (Vec<Box<[u8]>>, Result<ListEnd, FrameError>) {
    let (frames, finished) = read(Frames::list(options), chunks);
    let mut items = Vec::new();
    let mut end = None;
    for frame in frames {
        match frame {
            Frame::Item(item) => items.push(item),
            Frame::ListEnd(list) => assert_eq!(end.replace(list), None, "a list ends once"),
            other => panic!("{other:?}"),
        }
    }
    (items, finished.map(|()| end.expect("a list that finishes must have ended")))
}

/// The events of a watch, or of as much of it as was understood, and how it ended.
fn read_watch<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
    options: FrameOptions,
) -> (Vec<Frame>, Result<(), FrameError>) {
    read(Frames::watch(options), chunks)
}

/// Divides `body` into chunks with the lengths `lens`, over and over.
fn chunks<'a>(body: &'a [u8], lens: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = body;
    let mut chunks = Vec::new();
    for &len in lens.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at(len.clamp(1, rest.len()));
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

/// Lengths of chunks: many short ones, or a few long ones.
fn lens() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        prop::collection::vec(1_usize..4, 1..4),
        prop::collection::vec(1_usize..200, 1..8),
        Just(vec![usize::MAX]),
    ]
}

/// Any object, with the names that matter in places where they do and do not.
fn object() -> impl Strategy<Value = Value> {
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
        3 => prop::sample::select(vec!["metadata", "managedFields", "spec"])
            .prop_map(str::to_owned),
        2 => text(),
    ]
}

/// Text with brackets, quotes and names that a scan must not take for structure.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => r#"["\\{}\[\]:, a\n]{0,12}"#,
        1 => any::<String>(),
        1 => prop::sample::select(
            vec![r#""managedFields":[]"#, "managedFields", "metadata\\", "ü€🦀"]
        )
        .prop_map(str::to_owned),
    ]
}

fn from_members(members: Vec<(String, Value)>) -> Value {
    Value::Object(members.into_iter().collect::<Map<_, _>>())
}

/// Writes JSON in one of its many forms, drawn from a seed.
struct Writer {
    random: fastrand::Rng,
    spaced: bool,
}

impl Writer {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self { spaced: random.bool(), random }
    }

    /// Members in any order, strings with or without escapes, whitespace here and there or nowhere.
    fn write(&mut self, value: &Value) -> String {
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
    fn object(&mut self, mut members: Vec<(String, String)>) -> String {
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
    fn array(&mut self, items: Vec<String>) -> String {
        let items: Vec<_> = items
            .into_iter()
            .map(|item| format!("{}{item}{}", self.space(), self.space()))
            .collect();
        format!("[{}{}]", items.join(","), self.space())
    }

    fn space(&mut self) -> String {
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
fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}
