//! The body of a watch, split into its events.
//!
//! `{"type":"ADDED","object":{…}}` after `{"type":"ADDED","object":{…}}`, with their keys in any order, on a
//! line each or not: where an event ends is told by its brackets, so pretty-printed events are understood as
//! well. A body that is one Status, as a server sends with any code but 200, is told by its kind.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;

use super::envelope::{Envelope, Expected, Member};
use super::list::kind_of;
use super::reader::Reader;
use super::{FrameError, FrameOptions, Part, Place, Seen, Status};
use crate::decode::compact::{ObjectScan, string_text};

/// What this splitter is for, in its errors.
const EXPECTED: &str = "a stream of watch events";

/// How API servers begin the event of a change.
const USUAL: [(&[u8], Change); 3] = [
    (br#"{"type":"MODIFIED","object":"#, Change::Modified),
    (br#"{"type":"ADDED","object":"#, Change::Added),
    (br#"{"type":"DELETED","object":"#, Change::Deleted),
];

/// Splits the body of a watch, as it arrives.
pub struct WatchFrames {
    options: FrameOptions,
    reader: Reader,
    envelope: Envelope,
    /// The key whose value is being read.
    reading: Option<Field>,
    event: Event,
    scan: ObjectScan,
    events: u64,
    failed: Option<FrameError>,
}

/// An event of a watch.
#[derive(Clone, PartialEq, Eq)]
pub enum WatchFrame {
    /// An object changed. It comes without whitespace and by default without managedFields, in an allocation
    /// of its size.
    Change(Change, Box<[u8]>),
    /// All changes up to a version were sent.
    Bookmark(Bookmark),
    /// The watch failed. The server ends it after this.
    Error(Box<Status>),
    /// An event of a type that did not exist when this was written. To be counted and skipped.
    Unknown,
}

/// How an object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It came into being, or into what is watched, or was there when the watch began.
    Added,
    /// It is another version of what it was.
    Modified,
    /// It is gone, or no longer in what is watched.
    Deleted,
}

/// What a bookmark says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bookmark {
    /// All changes up to this version were sent.
    pub resource_version: String,
    /// Whether with it the objects are complete that were there when the watch began.
    pub initial_events_end: bool,
}

/// What has been read of an event.
#[derive(Debug, Default)]
struct Event {
    change: Option<Type>,
    object: Option<Range<usize>>,
    kind: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Change(Change),
    Bookmark,
    Error,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Type,
    Object,
    Kind,
    Other,
}

impl WatchFrames {
    /// A splitter that is ready for a body.
    pub fn new(options: FrameOptions) -> Self {
        Self {
            options,
            reader: Reader::default(),
            envelope: Envelope::default(),
            reading: None,
            event: Event::default(),
            scan: ObjectScan::new(options.managed_fields),
            events: 0,
            failed: None,
        }
    }

    /// Takes the next piece of the body.
    pub fn push(&mut self, chunk: &[u8]) {
        if self.failed.is_none() {
            self.reader.push(chunk);
        }
    }

    /// The next event, if it has arrived.
    ///
    /// # Errors
    ///
    /// If the body is not a watch, or not one that can be split. Every further call returns the same error.
    pub fn next_frame(&mut self) -> Result<Option<WatchFrame>, FrameError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let frame = self.step().and_then(|frame| self.within_bounds(frame));
        if let Err(error) = &frame {
            self.failed = Some(error.clone());
        }
        frame
    }

    /// Says that the body has ended, when all frames were taken out, and makes ready for another. A body may
    /// end after any event, or before the first.
    ///
    /// # Errors
    ///
    /// If it ended within an event, or if [`next_frame`](Self::next_frame) has failed.
    pub fn finish(&mut self) -> Result<(), FrameError> {
        let result = match self.failed.take() {
            Some(error) => Err(error),
            None if self.envelope.is_new() && self.reader.rest().is_empty() => Ok(()),
            None => {
                Err(FrameError::Truncated(Place { offset: self.reader.arrived(), ..self.place() }))
            }
        };
        let mut reader = std::mem::take(&mut self.reader);
        reader.reset();
        *self = Self { reader, ..Self::new(self.options) };
        result
    }

    /// Events that were taken out of this body.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Bytes of this body that have arrived.
    pub fn bytes(&self) -> u64 {
        self.reader.arrived()
    }

    /// Bytes of memory that are held for what is unfinished.
    pub fn memory(&self) -> usize {
        self.reader.capacity()
    }

    /// Goes on until an event is complete, or more of the body is needed.
    fn step(&mut self) -> Result<Option<WatchFrame>, FrameError> {
        loop {
            if let Some(field) = self.reading {
                let Some(value) = self.read_value(field)? else { return Ok(None) };
                self.value(field, value)?;
                self.reading = None;
                continue;
            }
            if self.envelope.is_new() {
                // Newlines between events belong to none of them.
                self.reader.peek();
                self.reader.consume();
                if self.begin_as_usual() {
                    continue;
                }
            }
            match self.envelope.next(&mut self.reader) {
                Ok(None) => return Ok(None),
                Ok(Some(Member::Key(key))) => self.reading = Some(self.key(key)?),
                Ok(Some(Member::Close)) => return self.close().map(Some),
                Err(_) if self.events == 0 && self.envelope.is_new() => {
                    let seen = Seen::from_start(self.reader.rest());
                    return Err(FrameError::Body { expected: EXPECTED, seen });
                }
                Err(expected) => return Err(self.malformed(expected.0)),
            }
        }
    }

    /// Reads the beginning of an event up to its object, if it is of a change and written as API servers do. Any other is
    /// understood as well, step by step; for a small object that would be an eighth of all that splitting takes.
    fn begin_as_usual(&mut self) -> bool {
        let is_usual = |(beginning, _): &&(&[u8], _)| self.reader.rest().starts_with(beginning);
        let Some(&(beginning, change)) = USUAL.iter().find(is_usual) else { return false };
        self.reader.read(beginning.len());
        self.event.change = Some(Type::Change(change));
        self.envelope.first_key_was_read();
        self.reading = Some(Field::Object);
        true
    }

    fn key(&self, key: Range<usize>) -> Result<Field, FrameError> {
        match string_text(self.reader.get(key)).as_deref() {
            Some("type") => Ok(Field::Type),
            // What was found out about the first one would be lost.
            Some("object") if self.event.object.is_some() => Err(self.malformed("one object only")),
            Some("object") => Ok(Field::Object),
            Some("kind") => Ok(Field::Kind),
            // A list: not worth to wait for its end. The server did not understand that a watch was meant.
            Some("items") => Err(self.not_an_event()),
            _ => Ok(Field::Other),
        }
    }

    fn read_value(&mut self, field: Field) -> Result<Option<Range<usize>>, FrameError> {
        if field != Field::Object {
            let value = self.envelope.value(&mut self.reader);
            return value.map_err(|Expected(expected)| self.malformed(expected));
        }
        match self.reader.peek() {
            None => return Ok(None),
            Some(b'{') => {}
            Some(_) => return Err(self.malformed("an object")),
        }
        let Some(object) = self.reader.object(&mut self.scan) else { return Ok(None) };
        self.envelope.value_was_read();
        Ok(Some(object))
    }

    fn value(&mut self, field: Field, value: Range<usize>) -> Result<(), FrameError> {
        let bytes = self.reader.get(value.clone());
        match field {
            Field::Type => match string_text(bytes) {
                Some(name) => self.event.change = Some(Type::from_name(&name)),
                None => return Err(self.malformed("a type of event before")),
            },
            Field::Kind => self.event.kind = kind_of(bytes),
            Field::Object if !bytes.ends_with(b"}") => return Err(self.malformed("`}` before")),
            Field::Object => self.event.object = Some(value),
            Field::Other => {}
        }
        Ok(())
    }

    fn close(&mut self) -> Result<WatchFrame, FrameError> {
        if self.reader.frame_len() > self.options.frame_max {
            return Err(self.too_large());
        }
        let (Some(change), Some(object)) = (self.event.change, self.event.object.take()) else {
            return Err(self.not_an_event());
        };
        let object = self.reader.get_mut(object);
        let frame = match change {
            Type::Change(change) => WatchFrame::Change(change, self.scan.copy(object)),
            Type::Bookmark => match Bookmark::parse(object) {
                Some(bookmark) => WatchFrame::Bookmark(bookmark),
                None => return Err(self.malformed("a bookmark with a version before")),
            },
            Type::Error => match Status::parse(object) {
                Some(status) => WatchFrame::Error(Box::new(status)),
                None => return Err(self.malformed("an ERROR event with a Status before")),
            },
            Type::Unknown => WatchFrame::Unknown,
        };
        self.scan.reset();
        self.reader.consume();
        self.envelope = Envelope::default();
        self.event = Event::default();
        self.events += 1;
        Ok(frame)
    }

    /// The frame is an object, and as far as it was read it is not an event.
    fn not_an_event(&self) -> FrameError {
        let frame = self.reader.get(0..self.reader.frame_len());
        match (self.event.kind.as_deref(), Status::parse(frame)) {
            (Some("Status"), Some(status)) => FrameError::Status(Box::new(status)),
            _ if self.events > 0 => self.malformed("an event with a type and an object"),
            _ => FrameError::Kind { expected: EXPECTED, kind: self.event.kind.clone() },
        }
    }

    fn within_bounds(&self, frame: Option<WatchFrame>) -> Result<Option<WatchFrame>, FrameError> {
        if frame.is_none() && self.reader.held() > self.options.frame_max {
            return Err(self.too_large());
        }
        Ok(frame)
    }

    fn too_large(&self) -> FrameError {
        FrameError::TooLarge { frame_max: self.options.frame_max, place: self.place() }
    }

    fn malformed(&self, expected: &'static str) -> FrameError {
        FrameError::Malformed { expected, place: self.place() }
    }

    fn place(&self) -> Place {
        Place { offset: self.reader.offset(), part: Part::Event(self.events) }
    }
}

impl Type {
    fn from_name(name: &str) -> Self {
        match name {
            "ADDED" => Self::Change(Change::Added),
            "MODIFIED" => Self::Change(Change::Modified),
            "DELETED" => Self::Change(Change::Deleted),
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            _ => Self::Unknown,
        }
    }
}

impl Bookmark {
    /// Reads a bookmark. `None` if it has no version, and no more, since serde's errors quote what they read.
    fn parse(object: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Sent {
            metadata: SentMetadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct SentMetadata {
            resource_version: String,
            #[serde(default)]
            annotations: Option<SentAnnotations>,
        }
        #[derive(Deserialize)]
        struct SentAnnotations {
            #[serde(rename = "k8s.io/initial-events-end", default)]
            initial_events_end: Option<String>,
        }
        let metadata = serde_json::from_slice::<Sent>(object).ok()?.metadata;
        let end = metadata.annotations.and_then(|annotations| annotations.initial_events_end);
        (!metadata.resource_version.is_empty()).then_some(Self {
            resource_version: metadata.resource_version,
            initial_events_end: end.as_deref() == Some("true"),
        })
    }
}

/// Shows no content.
impl fmt::Debug for WatchFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchFrames")
            .field("place", &self.place())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

/// Shows no content.
impl fmt::Debug for WatchFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(change, object) => write!(f, "Change({change:?}, {} bytes)", object.len()),
            Self::Bookmark(bookmark) => f.debug_tuple("Bookmark").field(bookmark).finish(),
            Self::Error(status) => f.debug_tuple("Error").field(status).finish(),
            Self::Unknown => f.write_str("Unknown"),
        }
    }
}
