//! The object around objects: `{"kind":…,"items":[…]}` of a list, `{"type":…,"object":…}` of a watch.
//!
//! ```text
//!         {            "            key          :             value, read by the caller
//! Open ──────→ First ─────→ Key ─────────→ Colon ────→ Value ──────────────────────────→ Comma
//!                │           ↑  a key                                            ,       │ │ }
//!                │ }         └───────────────────────────────────────────────────────────┘ │
//!                └──────────────────────────────→ Closed ←─────────────────────────────────┘
//! ```

use std::ops::Range;

use super::reader::Reader;
use super::value::ValueScan;
use crate::decode::compact::Progress;

#[derive(Debug, Default)]
pub(super) struct Envelope {
    step: Step,
    scan: ValueScan,
}

/// What comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Open,
    First,
    Key,
    Colon(Range<usize>),
    Value,
    Comma,
    Closed,
}

/// A part of an envelope that matters to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// A key with its quotes. The caller reads its value next, and then says so by `value_was_read`.
    Key(Range<usize>),
    /// The end.
    Close,
}

/// What should have come next, but did not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expected(pub(super) &'static str);

impl Envelope {
    /// Whether nothing of the envelope was seen.
    pub(super) fn is_new(&self) -> bool {
        self.step == Step::Open
    }

    /// Reads up to the next value, or to the end. `None` if that has not arrived.
    pub(super) fn next(&mut self, reader: &mut Reader) -> Result<Option<Member>, Expected> {
        loop {
            let Some(byte) = reader.peek() else { return Ok(None) };
            self.step = match (&self.step, byte) {
                (Step::Open, b'{') => Step::First,
                (Step::First | Step::Comma, b'}') => {
                    reader.read(1);
                    self.step = Step::Closed;
                    return Ok(Some(Member::Close));
                }
                (Step::First | Step::Key, b'"') => match self.scan.advance(reader.rest()) {
                    Progress::More => {
                        // The same bytes are not a first key again.
                        self.step = Step::Key;
                        return Ok(None);
                    }
                    Progress::End(len) => {
                        self.step = Step::Colon(reader.read(len));
                        continue;
                    }
                },
                (Step::Colon(key), b':') => {
                    let key = key.clone();
                    reader.read(1);
                    self.step = Step::Value;
                    return Ok(Some(Member::Key(key)));
                }
                (Step::Comma, b',') => Step::Key,
                (Step::Open, _) => return Err(Expected("an object")),
                (Step::First, _) => return Err(Expected("a key or `}`")),
                (Step::Key, _) => return Err(Expected("a key")),
                (Step::Colon(_), _) => return Err(Expected("`:`")),
                (Step::Comma, _) => return Err(Expected("`,` or `}`")),
                (Step::Closed, _) => return Err(Expected("the end of the body")),
                (Step::Value, _) => unreachable!("the value must be read before the next key"),
            };
            reader.read(1);
        }
    }

    /// Reads a value of any type. Returns where it is, once it has arrived.
    pub(super) fn value(&mut self, reader: &mut Reader) -> Result<Option<Range<usize>>, Expected> {
        match reader.peek() {
            None => return Ok(None),
            Some(b',' | b':' | b'}' | b']') => return Err(Expected("a value")),
            Some(_) => {}
        }
        let Progress::End(len) = self.scan.advance(reader.rest()) else { return Ok(None) };
        let value = reader.read(len);
        self.value_was_read();
        Ok(Some(value))
    }

    /// The caller has read all up to a value, which comes next.
    pub(super) fn first_key_was_read(&mut self) {
        debug_assert_eq!(self.step, Step::Open, "nothing may have been read");
        self.step = Step::Value;
    }

    /// The caller has read the value of the last key.
    pub(super) fn value_was_read(&mut self) {
        debug_assert_eq!(self.step, Step::Value, "a value must follow a key");
        self.step = Step::Comma;
    }
}
