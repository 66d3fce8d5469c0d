//! The body of a LIST, split into its items.
//!
//! `{"kind":"PodList","apiVersion":"v1","metadata":{…},"items":[{…},…]}`, with its keys in any order. What
//! comes before the items is held until they start, so that a body that turns out to be a Status can be read
//! as one; from then on every item and every member is dropped once it was read.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;

use super::envelope::{Envelope, Expected, Member};
use super::reader::Reader;
use super::{FrameError, FrameOptions, Part, Place, Seen, Status};
use crate::decode::compact::{ObjectScan, string_text};

/// What this splitter is for, in its errors.
const EXPECTED: &str = "a list";

/// Splits the body of a LIST, as it arrives.
pub struct ListFrames {
    options: FrameOptions,
    reader: Reader,
    envelope: Envelope,
    step: Step,
    scan: ObjectScan,
    items: u64,
    /// Whether the key `items` was seen.
    has_items: bool,
    kind: Option<String>,
    end: ListEnd,
    failed: Option<FrameError>,
}

/// A part of a list.
#[derive(Clone, PartialEq, Eq)]
pub enum ListFrame {
    /// An object, without whitespace and by default without managedFields, in an allocation of its size.
    Item(Box<[u8]>),
    /// The list is complete.
    End(ListEnd),
}

/// What a list says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListEnd {
    /// The version from which to watch. Some aggregated API servers leave it out.
    #[serde(deserialize_with = "non_empty")]
    pub resource_version: Option<String>,
    /// The token for the next page, if there is one.
    #[serde(rename = "continue", deserialize_with = "non_empty")]
    pub continue_token: Option<String>,
    /// How many objects there are after this page, if the server says so.
    pub remaining_item_count: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// In the envelope, before a key or the end.
    Envelope,
    /// In the envelope, before the value of this key.
    Value(Field),
    /// Before `[`, or `null` as Go writes an empty list.
    Items,
    /// Before the first item, or `]`.
    FirstItem,
    /// In an item.
    Item,
    /// After an item.
    AfterItem,
    /// After a comma.
    NextItem,
    /// After the list.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Kind,
    Metadata,
    Items,
    Other,
}

impl ListFrames {
    /// A splitter that is ready for a body.
    pub fn new(options: FrameOptions) -> Self {
        Self {
            options,
            reader: Reader::default(),
            envelope: Envelope::default(),
            step: Step::Envelope,
            scan: ObjectScan::new(options.managed_fields),
            items: 0,
            has_items: false,
            kind: None,
            end: ListEnd::default(),
            failed: None,
        }
    }

    /// Takes the next piece of the body.
    pub fn push(&mut self, chunk: &[u8]) {
        if self.failed.is_none() {
            self.reader.push(chunk);
        }
    }

    /// The next frame, if it has arrived.
    ///
    /// # Errors
    ///
    /// If the body is not a list, or not one that can be split. Every further call returns the same error.
    pub fn next_frame(&mut self) -> Result<Option<ListFrame>, FrameError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let frame = self.step().and_then(|frame| self.within_bounds(frame));
        if let Err(error) = &frame {
            self.failed = Some(error.clone());
        }
        frame
    }

    /// Says that the body has ended, when all frames were taken out, and makes ready for another.
    ///
    /// # Errors
    ///
    /// If it ended before the list did, or if [`next_frame`](Self::next_frame) has failed.
    pub fn finish(&mut self) -> Result<(), FrameError> {
        let result = match self.failed.take() {
            Some(error) => Err(error),
            None if self.step == Step::End => Ok(()),
            None if self.envelope.is_new() => Err(self.not_json()),
            None => {
                Err(FrameError::Truncated(Place { offset: self.reader.arrived(), ..self.place() }))
            }
        };
        let mut reader = std::mem::take(&mut self.reader);
        reader.reset();
        *self = Self { reader, ..Self::new(self.options) };
        result
    }

    /// Items that were taken out of this body.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Bytes of this body that have arrived.
    pub fn bytes(&self) -> u64 {
        self.reader.arrived()
    }

    /// Bytes of memory that are held for what is unfinished.
    pub fn memory(&self) -> usize {
        self.reader.capacity()
    }

    /// Goes on until a frame is complete, or more of the body is needed.
    fn step(&mut self) -> Result<Option<ListFrame>, FrameError> {
        loop {
            match self.step {
                Step::Envelope => match self.envelope.next(&mut self.reader) {
                    Ok(None) => return Ok(None),
                    Ok(Some(Member::Close)) => return self.close().map(Some),
                    Ok(Some(Member::Key(key))) => self.step = self.key(key),
                    Err(_) if self.envelope.is_new() => return Err(self.not_json()),
                    Err(expected) => return Err(self.malformed(&expected)),
                },
                Step::Value(field) => match self.envelope.value(&mut self.reader) {
                    Ok(None) => return Ok(None),
                    Ok(Some(value)) => self.value(field, value)?,
                    Err(expected) => return Err(self.malformed(&expected)),
                },
                Step::Item => {
                    let Some(object) = self.reader.object(&mut self.scan) else { return Ok(None) };
                    return self.item(object).map(Some);
                }
                step => {
                    let Some(byte) = self.reader.peek() else { return Ok(None) };
                    let next = step.after(byte).map_err(|expected| self.malformed(&expected))?;
                    self.go_on(next);
                }
            }
        }
    }

    /// Takes the step from one part of the items to the next.
    fn go_on(&mut self, next: Step) {
        match next {
            // This byte belongs to a value that is read next.
            Step::Item | Step::Value(_) => {}
            Step::Envelope => {
                self.reader.read(1);
                self.envelope.value_was_read();
            }
            _ => drop(self.reader.read(1)),
        }
        self.reader.consume();
        self.step = next;
    }

    fn key(&mut self, key: Range<usize>) -> Step {
        match string_text(self.reader.get(key)).as_deref() {
            Some("kind") => Step::Value(Field::Kind),
            Some("metadata") => Step::Value(Field::Metadata),
            Some("items") => {
                self.has_items = true;
                Step::Items
            }
            _ => Step::Value(Field::Other),
        }
    }

    fn value(&mut self, field: Field, value: Range<usize>) -> Result<(), FrameError> {
        let bytes = self.reader.get(value);
        match field {
            Field::Kind => self.kind = kind_of(bytes),
            Field::Metadata => match serde_json::from_slice::<Option<ListEnd>>(bytes) {
                // serde would also read a struct from an array.
                Ok(end) if !bytes.starts_with(b"[") => self.end = end.unwrap_or_default(),
                _ => return Err(self.malformed(&Expected("the metadata of a list before"))),
            },
            Field::Items if bytes != b"null" => {
                return Err(self.malformed(&Expected("an array of items before")));
            }
            Field::Items | Field::Other => {}
        }
        if self.has_items {
            self.reader.consume();
        }
        self.step = Step::Envelope;
        Ok(())
    }

    /// The item is at the start of the frame: everything before it was consumed.
    fn item(&mut self, object: Range<usize>) -> Result<ListFrame, FrameError> {
        if object.len() > self.options.frame_max {
            return Err(self.too_large());
        }
        let object = self.reader.get_mut(object);
        if !object.ends_with(b"}") {
            return Err(self.malformed(&Expected("`}` before")));
        }
        let item = self.scan.copy(object);
        self.scan.reset();
        self.reader.consume();
        self.items += 1;
        self.step = Step::AfterItem;
        Ok(ListFrame::Item(item))
    }

    fn close(&mut self) -> Result<ListFrame, FrameError> {
        if !self.has_items {
            return Err(self.not_a_list());
        }
        self.reader.consume();
        self.step = Step::End;
        Ok(ListFrame::End(std::mem::take(&mut self.end)))
    }

    /// The body is an object without items, all of which is in the frame.
    fn not_a_list(&mut self) -> FrameError {
        let body = self.reader.get(0..self.reader.frame_len());
        match (self.kind.as_deref(), Status::parse(body)) {
            (Some("Status"), Some(status)) => FrameError::Status(Box::new(status)),
            _ => FrameError::Kind { expected: EXPECTED, kind: self.kind.take() },
        }
    }

    fn not_json(&self) -> FrameError {
        FrameError::Body { expected: EXPECTED, seen: Seen::from_start(self.reader.rest()) }
    }

    fn within_bounds(&self, frame: Option<ListFrame>) -> Result<Option<ListFrame>, FrameError> {
        if frame.is_none() && self.reader.held() > self.options.frame_max {
            return Err(self.too_large());
        }
        Ok(frame)
    }

    fn too_large(&self) -> FrameError {
        FrameError::TooLarge { frame_max: self.options.frame_max, place: self.place() }
    }

    fn malformed(&self, expected: &Expected) -> FrameError {
        FrameError::Malformed { expected: expected.0, place: self.place() }
    }

    fn place(&self) -> Place {
        let part = match self.step {
            Step::FirstItem | Step::Item | Step::NextItem | Step::AfterItem => {
                Part::Item(self.items)
            }
            Step::Envelope | Step::Value(_) | Step::Items | Step::End => Part::List,
        };
        Place { offset: self.reader.offset(), part }
    }
}

impl Step {
    /// What comes after `byte` around the items.
    fn after(self, byte: u8) -> Result<Self, Expected> {
        match (self, byte) {
            (Self::Items, b'[') => Ok(Self::FirstItem),
            (Self::Items, b'n') => Ok(Self::Value(Field::Items)),
            (Self::FirstItem | Self::NextItem, b'{') => Ok(Self::Item),
            (Self::FirstItem | Self::AfterItem, b']') => Ok(Self::Envelope),
            (Self::AfterItem, b',') => Ok(Self::NextItem),
            (Self::Items, _) => Err(Expected("an array of items")),
            (Self::FirstItem, _) => Err(Expected("an object or `]`")),
            (Self::NextItem, _) => Err(Expected("an object")),
            (Self::AfterItem, _) => Err(Expected("`,` or `]`")),
            (Self::End, _) => Err(Expected("the end of the body")),
            (Self::Envelope | Self::Value(_) | Self::Item, _) => {
                unreachable!("these steps must be read by value, not by byte")
            }
        }
    }
}

/// The kind that is written here, if it looks like one: it is shown in errors.
pub(super) fn kind_of(quoted: &[u8]) -> Option<String> {
    /// The longest name of a kind that a custom resource may have.
    const KIND_MAX: usize = 63;
    let kind = string_text(quoted)?;
    let is_kind = !kind.is_empty()
        && kind.len() <= KIND_MAX + "List".len()
        && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_kind.then(|| kind.into_owned())
}

/// Go writes an empty string where it has none.
fn non_empty<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(value)?.filter(|text| !text.is_empty()))
}

/// Shows no content.
impl fmt::Debug for ListFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListFrames")
            .field("place", &self.place())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

/// Shows no content.
impl fmt::Debug for ListFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Item(object) => write!(f, "Item({} bytes)", object.len()),
            Self::End(end) => f.debug_tuple("End").field(end).finish(),
        }
    }
}
