//! The changes of a kind, and the reconstruction of past states from them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::object::{Encoding, Form, Key, Stored};

/// One change of one object.
pub(crate) struct Event {
    key: Key,
    change: EventKind,
    /// The object after the change. For a removal, this is its last state with the revision of the
    /// removal.
    object: Arc<Stored>,
    /// Encoded lines by form: a thousand watchers of the same form share one encoding.
    lines: Mutex<Vec<(Line, Bytes)>>,
}

/// Objects may be secrets: only key and revision are shown.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({} at {})", self.key.path(), self.revision())
    }
}

/// The type of a change, with the earlier state of the object.
#[derive(Debug)]
pub(crate) enum EventKind {
    Added,
    Modified { old: Arc<Stored> },
    Deleted { old: Arc<Stored> },
}

/// Identifies an encoding of an event: the event type, and the version and form of the object.
type Line = (&'static str, String, Form);

impl Event {
    pub(super) fn new(key: Key, change: EventKind, object: Arc<Stored>) -> Self {
        Self { key, change, object, lines: Mutex::default() }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.object.revision
    }

    /// Returns the size of the object in bytes.
    pub(super) fn size(&self) -> usize {
        self.object.size()
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the object after the change, or the last state of a removed one.
    pub(crate) fn object(&self) -> &Arc<Stored> {
        &self.object
    }

    /// Returns the object before the change, or `None` if the change created it.
    pub(crate) fn before(&self) -> Option<&Arc<Stored>> {
        match &self.change {
            EventKind::Added => None,
            EventKind::Modified { old } | EventKind::Deleted { old } => Some(old),
        }
    }

    /// Returns the object after the change, or `None` if the change removed it.
    pub(crate) fn after(&self) -> Option<&Arc<Stored>> {
        (!matches!(self.change, EventKind::Deleted { .. })).then_some(&self.object)
    }

    /// Returns the line of the event in a watch stream. It is encoded once for all watchers with
    /// the same form, except for tables, because their rows contain ages.
    pub(crate) fn line(&self, event_type: &'static str, encoding: &Encoding) -> Bytes {
        if encoding.table().is_some() {
            return encode_line(event_type, &self.object, encoding);
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = |(line, _): &&(Line, Bytes)| {
            line.0 == event_type && line.2 == encoding.form && line.1 == encoding.type_meta().1
        };
        if let Some((_, bytes)) = lines.iter().find(wanted) {
            return bytes.clone();
        }
        let bytes = encode_line(event_type, &self.object, encoding);
        lines.push(((event_type, encoding.type_meta().1.to_owned(), encoding.form), bytes.clone()));
        bytes
    }
}

/// Encodes `{"type":"ADDED","object":{…}}` and a newline.
pub(crate) fn encode_line(event_type: &str, object: &Stored, encoding: &Encoding) -> Bytes {
    let mut line = Vec::with_capacity(object.size() + 128);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(event_type.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    encoding.write(object, &mut line);
    line.extend_from_slice(b"}\n");
    line.into()
}

/// Yields the objects as they were: the current ones, except for the keys in `then`, which has
/// their earlier states (`None` if there was no object). Both inputs must be sorted by key, and so
/// is the result.
pub(super) fn overlay<'a>(
    now: impl Iterator<Item = (&'a Key, &'a Arc<Stored>)>,
    then: &'a BTreeMap<Key, Option<Arc<Stored>>>,
) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> {
    let mut now = now.peekable();
    let mut then = then.iter().peekable();
    std::iter::from_fn(move || {
        loop {
            let past_is_next = match (now.peek(), then.peek()) {
                (_, None) => return now.next(),
                (None, Some(_)) => true,
                (Some((key, _)), Some((past, _))) => past <= key,
            };
            if !past_is_next {
                return now.next();
            }
            let (key, object) = then.next()?;
            now.next_if(|(present, _)| *present == key);
            if let Some(object) = object {
                return Some((key, object));
            }
        }
    })
}
