//! Splits the body of a response into single objects as it arrives.
//!
//! A feed reads the body of a LIST or WATCH response, pushes every chunk of it into [`Frames`], and
//! takes out what is complete. There is no I/O and no clock here.
//!
//! ```text
//! {"kind":"PodList","metadata":{…},"items":[{…},{…},{…},{…}]}
//! └─────────────── envelope ───────────────┘└── objects ──┘└┘
//! {"type":"ADDED","object":{…}} {"type":"MODIFIED","object":{…}}
//! └─────── envelope ──────┘   ┘ └──────── envelope ────────┘   ┘
//! ```
//!
//! A list is one envelope with many objects, and a watch is one envelope for each object. An object
//! ends where its brackets do, so whitespace and the order of keys do not matter.
//!
//! Invariants:
//! - What comes out does not depend on where the body was divided into chunks, except for how much
//!   an error shows of a body that is plain text.
//! - An object comes out whole or not at all. A body that ends within one is
//!   [`FrameError::Truncated`].
//! - Only unfinished data is held. An object, or an envelope, may not be larger than
//!   [`FrameOptions::frame_max`].
//! - Of an object only brackets and strings are checked here. If the rest is not valid JSON, it
//!   comes out all the same and fails when its head is read, so that one broken object does not
//!   affect the others.
//! - No error and no `Debug` output shows the content of an object. The beginning of a body is
//!   shown only if it is in no format that an API server writes.

mod buffer;
mod describe;
mod envelope;
mod error;
mod frame;
mod status;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use describe::describe_body;
pub use error::FrameError;
pub use frame::EventType;
pub(crate) use frame::Frame;
pub(crate) use frame::{Bookmark, ListEnd};
pub(crate) use status::RETRY_AFTER_MAX;
pub use status::{Status, StatusCause};

use crate::decode::compact::{Key, ManagedFields, ObjectScan, is_whitespace};
use buffer::Buffer;
use envelope::{Envelope, Stop};

/// Splits the body of a LIST or WATCH response as it arrives.
pub(crate) struct Frames {
    kind: BodyKind,
    options: FrameOptions,
    buffer: Buffer,
    envelope: Envelope,
    step: Step,
    scan: ObjectScan,
    /// The object of the watch event that is being read.
    object: Option<Box<[u8]>>,
    /// Items or events that were taken out.
    objects: u64,
}

/// How bodies are split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameOptions {
    /// Whether objects keep `metadata.managedFields`.
    pub(crate) managed_fields: ManagedFields,
    /// The largest object, in bytes as they are sent.
    pub(crate) frame_max: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyKind {
    List,
    Watch,
}

/// What comes next.
///
/// ```text
/// both:  Start ─{→ Envelope ─}→ Start (of the next event) or End (of the list)
/// list:  Envelope ─[→ FirstItem ─{→ Object ─}→ AfterItem ─,→ NextItem ─{→ Object …
///        FirstItem or AfterItem ─]→ Envelope
/// watch: Envelope ─{→ Object ─}→ Envelope
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Before the `{` of an envelope.
    Start,
    /// Within an envelope.
    Envelope,
    /// Before the first item, or `]`.
    FirstItem,
    /// Before an item, after a comma.
    NextItem,
    /// Within an object.
    Object,
    /// After an item.
    AfterItem,
    /// After a list.
    End,
}

/// What was expected in a watch, for errors.
const EVENT: &str = "an event with a type and an object";

impl FrameOptions {
    /// By default etcd accepts requests of up to 1.5 MiB, so this leaves ample room for servers
    /// that accept more.
    pub(crate) const FRAME_MAX_DEFAULT: usize = 64 << 20;
}

impl Frames {
    /// Splits the body of a list.
    pub(crate) fn list(options: FrameOptions) -> Self {
        Self::new(BodyKind::List, options)
    }

    /// Splits the body of a watch.
    pub(crate) fn watch(options: FrameOptions) -> Self {
        Self::new(BodyKind::Watch, options)
    }

    fn new(kind: BodyKind, options: FrameOptions) -> Self {
        Self {
            kind,
            options,
            buffer: Buffer::default(),
            envelope: Envelope::default(),
            step: Step::Start,
            scan: ObjectScan::default(),
            object: None,
            objects: 0,
        }
    }

    /// Takes the next chunk of the body.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.push(chunk);
    }

    /// The next frame; `None` if it has not arrived.
    ///
    /// # Errors
    /// Returns an error if the body is not what was requested. After an error the rest cannot be
    /// read.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            match self.step {
                Step::Envelope => {
                    let has_objects = |key: &Key<'_>, bracket| self.kind.has_objects(key, bracket);
                    let (len, stop) = self.envelope.advance(self.buffer.rest(), has_objects);
                    self.buffer.consume(len);
                    self.check_len(self.envelope.bytes.len())?;
                    match stop {
                        Stop::More => return Ok(None),
                        Stop::Value => self.begin_objects()?,
                        Stop::End => return self.end_envelope().map(Some),
                    }
                }
                Step::Object => {
                    let Some(object) = self.read_object()? else { return Ok(None) };
                    if self.kind == BodyKind::List {
                        self.step = Step::AfterItem;
                        self.objects += 1;
                        return Ok(Some(Frame::Item(object)));
                    }
                    // The object of an event comes out when the event is complete.
                    self.step = Step::Envelope;
                    self.object = Some(object);
                }
                step => {
                    let Some(byte) = self.skip_whitespace() else { return Ok(None) };
                    self.step = self.step_after(step, byte)?;
                }
            }
        }
    }

    /// Ends the body. All frames must have been taken out.
    ///
    /// # Errors
    /// If the body has ended before the list did, or within an event.
    pub(crate) fn finish(self) -> Result<(), FrameError> {
        match (self.step, self.kind) {
            (Step::End, _) | (Step::Start, BodyKind::Watch) => Ok(()),
            (Step::Start, BodyKind::List) => Err(self.not_an_object()),
            _ => {
                let offset = self.buffer.offset() + self.buffer.rest().len() as u64;
                Err(FrameError::Truncated { offset, objects: self.objects })
            }
        }
    }

    /// Consumes whitespace. Returns the byte after it, if it has arrived.
    fn skip_whitespace(&mut self) -> Option<u8> {
        let rest = self.buffer.rest();
        let len = rest.iter().take_while(|&&byte| is_whitespace(byte)).count();
        let next = rest.get(len).copied();
        self.buffer.consume(len);
        next
    }

    /// The step that follows a step between objects, if `byte` comes next. Consumes `byte` unless
    /// it belongs to what follows.
    fn step_after(&mut self, step: Step, byte: u8) -> Result<Step, FrameError> {
        let next = match (step, byte) {
            (Step::Start, b'{') => return Ok(Step::Envelope),
            (Step::FirstItem | Step::NextItem, b'{') => return Ok(Step::Object),
            (Step::FirstItem | Step::AfterItem, b']') => Step::Envelope,
            (Step::AfterItem, b',') => Step::NextItem,
            (Step::Start, _) if self.objects == 0 => return Err(self.not_an_object()),
            (Step::FirstItem, _) => return Err(self.malformed("an object or `]`")),
            (Step::AfterItem, _) => return Err(self.malformed("`,` or `]`")),
            (Step::End, _) => return Err(self.malformed("the end of the body")),
            _ => return Err(self.malformed("an object")),
        };
        self.buffer.consume(1);
        Ok(next)
    }

    /// The next value contains the objects. The envelope keeps empty brackets in its place.
    fn begin_objects(&mut self) -> Result<(), FrameError> {
        if self.object.is_some() {
            return Err(self.malformed("one object only"));
        }
        if self.kind == BodyKind::Watch && self.buffer.rest().starts_with(b"{") {
            self.envelope.bytes.extend_from_slice(b"{}");
            self.step = Step::Object;
            return Ok(());
        }
        self.envelope.bytes.extend_from_slice(b"[]");
        if self.kind == BodyKind::Watch {
            // The server has sent a list, because it does not support watches. There is no need to
            // wait for the end of the list.
            self.envelope.bytes.push(b'}');
            return Err(self.unexpected_kind());
        }
        self.buffer.consume(1);
        self.step = Step::FirstItem;
        Ok(())
    }

    /// Reads on in an object. Returns it if it is complete.
    fn read_object(&mut self) -> Result<Option<Box<[u8]>>, FrameError> {
        let rest = self.buffer.rest();
        let Some(len) = self.scan.advance(rest) else {
            return self.check_len(rest.len()).map(|()| None);
        };
        self.check_len(len)?;
        let object = &rest[..len];
        if !object.ends_with(b"}") {
            return Err(self.malformed("an object that ends with `}`"));
        }
        let object = self.scan.copy(object, self.options.managed_fields);
        self.scan = ObjectScan::default();
        self.buffer.consume(len);
        Ok(Some(object))
    }

    /// The envelope is complete.
    fn end_envelope(&mut self) -> Result<Frame, FrameError> {
        let frame = match self.kind {
            BodyKind::List => {
                self.step = Step::End;
                Frame::ListEnd(self.list_end()?)
            }
            BodyKind::Watch => {
                self.step = Step::Start;
                let frame = self.event()?;
                self.objects += 1;
                frame
            }
        };
        self.envelope.bytes.clear();
        Ok(frame)
    }

    fn list_end(&self) -> Result<ListEnd, FrameError> {
        let malformed = || self.malformed("a list with metadata and items");
        let list = serde_json::from_slice::<Members<'_>>(&self.envelope.bytes);
        let list = list.map_err(|_| malformed())?;
        let Some(items) = list.items else { return Err(self.unexpected_kind()) };
        let metadata = list.metadata.map_or("null", RawValue::get);
        // Go writes an empty list as null. serde would read a struct from an array too.
        if !matches!(items.get(), "[]" | "null") || metadata.starts_with('[') {
            return Err(malformed());
        }
        let end = serde_json::from_str::<Option<ListEnd>>(metadata);
        Ok(end.map_err(|_| malformed())?.unwrap_or_default())
    }

    fn event(&mut self) -> Result<Frame, FrameError> {
        #[derive(Deserialize)]
        struct Event<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
        }
        let event = serde_json::from_slice::<Event<'_>>(&self.envelope.bytes);
        let (event, object) = match (event, self.object.take()) {
            (Ok(event), Some(object)) => (event, object),
            (Err(_), None) => return Err(self.unexpected_kind()),
            _ => return Err(self.malformed(EVENT)),
        };
        Ok(match &*event.r#type {
            "ADDED" => Frame::Change(EventType::Added, object),
            "MODIFIED" => Frame::Change(EventType::Modified, object),
            "DELETED" => Frame::Change(EventType::Deleted, object),
            "BOOKMARK" => match Bookmark::parse(&object) {
                Some(bookmark) => Frame::Bookmark(bookmark),
                None => return Err(self.malformed("a bookmark with a version")),
            },
            "ERROR" => match Status::parse(&object) {
                Some(status) => Frame::Error(Box::new(status)),
                None => return Err(self.malformed("an ERROR event with a Status")),
            },
            _ => Frame::Unknown,
        })
    }

    /// The body is not a list and not a watch event.
    fn unexpected_kind(&self) -> FrameError {
        let expected = self.kind.expected();
        let Ok(body) = serde_json::from_slice::<Value>(&self.envelope.bytes) else {
            return self.malformed(expected);
        };
        let kind = body["kind"].as_str();
        if kind == Some("Status")
            && let Some(status) = Status::of(&body)
        {
            return FrameError::Status(Box::new(status));
        }
        if self.objects > 0 {
            return self.malformed(EVENT);
        }
        let kind = kind.filter(|kind| looks_like_kind(kind)).map(str::to_owned);
        FrameError::Kind { expected, kind }
    }

    fn not_an_object(&self) -> FrameError {
        let found = describe_body(self.buffer.rest());
        FrameError::Body { expected: self.kind.expected(), found }
    }

    fn check_len(&self, len: usize) -> Result<(), FrameError> {
        let FrameOptions { frame_max, .. } = self.options;
        if len <= frame_max {
            return Ok(());
        }
        let offset = self.buffer.offset();
        Err(FrameError::TooLarge { frame_max, offset, objects: self.objects })
    }

    fn malformed(&self, expected: &'static str) -> FrameError {
        let offset = self.buffer.offset();
        FrameError::Malformed { expected, offset, objects: self.objects }
    }
}

impl BodyKind {
    /// Whether a member of the envelope has the objects, given its key and the first byte of its
    /// value.
    fn has_objects(self, key: &Key<'_>, bracket: u8) -> bool {
        match bracket {
            b'[' => key.is("items"),
            _ => self == Self::Watch && key.is("object"),
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::List => "a list",
            Self::Watch => "a stream of watch events",
        }
    }
}

/// The members of a list's envelope that matter, undecoded. Of an envelope that has one of them
/// twice, it is unclear whether the list is complete, so serde refuses it.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    items: Option<&'a RawValue>,
}

/// A member that is there, even if it is null.
fn present<'de, D: Deserializer<'de>>(json: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(json).map(Some)
}

/// Whether a text may be shown as a kind in an error.
fn looks_like_kind(text: &str) -> bool {
    /// The longest name of a kind that a custom resource may have.
    const KIND_MAX: usize = 63;
    let is_alphanumeric = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    !text.is_empty() && text.len() <= KIND_MAX + "List".len() && is_alphanumeric
}
