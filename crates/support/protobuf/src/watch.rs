//! The body of a watch: frames, each a length in four bytes and an event.

use crate::envelope::{Envelope, each_bytes};
use crate::error::{Error, Reason};
use crate::wire::put_bytes;

/// The longest frame, as in Go's client.
pub const FRAME_MAX: usize = 16 << 20;

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent<'a> {
    /// What happened.
    pub event_type: EventType,
    /// The object. That of a bookmark has nothing but its version, and that of an error is a
    /// `Status`.
    pub object: Envelope<'a>,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
    /// `BOOKMARK`: all events up to this version were sent.
    Bookmark,
    /// `ERROR`: the watch has failed.
    Error,
}

impl EventType {
    const ALL: [Self; 5] =
        [Self::Added, Self::Modified, Self::Deleted, Self::Bookmark, Self::Error];

    /// Returns the type with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event_type| event_type.name() == name)
    }

    /// Its name in a watch.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

/// The content of a frame, and the bytes after it.
pub type Frame<'a> = (&'a [u8], &'a [u8]);

/// Takes the first frame of the bytes: returns its content, and what follows it. Returns `None` if
/// the frame is not complete.
///
/// # Errors
/// Returns an error if the frame is longer than [`FRAME_MAX`].
pub fn split_frame(bytes: &[u8]) -> Result<Option<Frame<'_>>, Error> {
    let Some((length, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > FRAME_MAX {
        return Err(Reason::FrameTooLong(length).into());
    }
    Ok(rest.split_at_checked(length))
}

impl<'a> WatchEvent<'a> {
    /// Reads the content of a frame.
    ///
    /// # Errors
    /// Returns an error if it is no event.
    pub fn read(frame: &'a [u8]) -> Result<Self, Error> {
        let (mut name, mut object) = (&b""[..], &b""[..]);
        each_bytes("WatchEvent", frame, &["Type", "Object"], |number, bytes| {
            if number == 1 {
                name = bytes;
                return Ok(());
            }
            each_bytes("RawExtension", bytes, &["Raw"], |_, raw| {
                object = raw;
                Ok(())
            })
        })?;
        let event_type = std::str::from_utf8(name).ok().and_then(EventType::named);
        let event_type = event_type.ok_or(Reason::EventType)?;
        Ok(Self { event_type, object: Envelope::read(object)? })
    }

    /// Returns the event in its frame.
    ///
    /// # Errors
    /// Returns an error if the frame would be longer than a length in four bytes can say.
    pub fn to_frame(&self) -> Result<Vec<u8>, Error> {
        let object = self.object.to_bytes();
        let mut raw = Vec::with_capacity(object.len() + 8);
        put_bytes(&mut raw, 1, &object);
        let mut out = vec![0; 4];
        put_bytes(&mut out, 1, self.event_type.name().as_bytes());
        put_bytes(&mut out, 2, &raw);
        let length = out.len() - 4;
        let in_four = u32::try_from(length).map_err(|_| Reason::FrameTooLong(length))?;
        out[..4].copy_from_slice(&in_four.to_be_bytes());
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event_type: EventType, raw: &[u8]) -> WatchEvent<'_> {
        WatchEvent { event_type, object: Envelope::new("v1", "ConfigMap", raw) }
    }

    #[test]
    fn frames_are_split_as_they_arrive() {
        let events = [event(EventType::Added, b"\x0a\x00"), event(EventType::Bookmark, b"")];
        let body = events.clone().map(|event| event.to_frame().expect("it is short")).concat();
        for end in 0..body.len() {
            let mut rest = &body[..end];
            let mut found = 0;
            while let Some((frame, next)) = split_frame(rest).expect("no frame is long") {
                assert_eq!(WatchEvent::read(frame), Ok(events[found].clone()));
                (found, rest) = (found + 1, next);
            }
            assert!(found < 2, "the last frame is incomplete");
        }
    }

    #[test]
    fn a_length_alone_reserves_nothing() {
        let error = split_frame(&[0xff; 8]).expect_err("no frame is that long");
        assert_eq!(*error.reason(), Reason::FrameTooLong(0xffff_ffff));
    }

    #[test]
    fn events_of_unknown_types_are_refused() {
        let mut frame = Vec::new();
        put_bytes(&mut frame, 1, b"RENAMED");
        let error = WatchEvent::read(&frame).expect_err("there is no such event");
        assert_eq!(*error.reason(), Reason::EventType);
    }
}
