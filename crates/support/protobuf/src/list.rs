//! The body of a list, item by item as it arrives.

use crate::envelope::{Envelope, FIELDS, PREFIX};
use crate::error::{Error, Reason};
use crate::wire::{Reader, Tag, WireType};

/// The number of the metadata of a list.
const METADATA: u32 = 1;

/// The number of the items, in every kind of list.
const ITEMS: u32 = 2;

/// The number of the message in its envelope.
const RAW: u32 = 2;

/// Splits the body of a list. It keeps no bytes: the caller keeps those that are not consumed.
///
/// ```
/// use windlass_protobuf::{ListParser, ListPart, from_json};
///
/// let list = serde_json::json!({
///     "apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"},
///     "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}],
/// });
/// let body = from_json(list.as_object().unwrap())?;
/// let (mut parser, mut rest, mut names) = (ListParser::new(), body.as_slice(), Vec::new());
/// while let Some(part) = parser.next(&mut rest)? {
///     if let ListPart::Item(raw) = part {
///         let pod: serde_json::Value =
///             windlass_protobuf::from_raw(parser.api_version(), parser.item_kind(), raw)?;
///         names.push(pod["metadata"]["name"].clone());
///     }
/// }
/// parser.finish(rest)?;
/// assert_eq!(names, ["a", "b"]);
/// # Ok::<(), windlass_protobuf::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ListParser {
    state: State,
    api_version: String,
    kind: String,
}

/// Where the parser is.
///
/// ```text
/// Start ─prefix→ Envelope ─RAW→ List { left } ─0→ Envelope (had_list)
/// ```
#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Start,
    /// Between fields of the envelope.
    Envelope { had_list: bool },
    /// Between fields of the list, which has this many bytes left.
    List { left: usize },
}

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListPart<'a> {
    /// The metadata, a `ListMeta`: what [`list_metadata`](crate::list_metadata) decodes.
    Metadata(&'a [u8]),
    /// The message of an item.
    Item(&'a [u8]),
}

/// A field, or the start of one.
enum Found<'a> {
    /// It is not complete.
    Incomplete,
    /// The length of the list, without its content.
    List(usize),
    /// A field with its content, which is empty for numbers.
    Field(Tag, &'a [u8]),
}

impl ListParser {
    /// A parser at the start of a body.
    pub fn new() -> Self {
        Self::default()
    }

    /// The version of the list, as in `apps/v1`. Empty before the first part.
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The kind of the list, as in `PodList`. Empty before the first part.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The kind of the items, as in `Pod`.
    pub fn item_kind(&self) -> &str {
        self.kind.strip_suffix("List").unwrap_or(&self.kind)
    }

    /// Returns the next part, and moves `bytes` behind it. Returns `None` if the next part is not
    /// complete: call again with the rest of `bytes` and what follows.
    ///
    /// # Errors
    /// Returns an error if the bytes are no list.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<ListPart<'a>>, Error> {
        loop {
            match self.state {
                State::Start => {
                    let seen = bytes.len().min(PREFIX.len());
                    if bytes[..seen] != PREFIX[..seen] {
                        return Err(Reason::NoPrefix.into());
                    }
                    if seen < PREFIX.len() {
                        return Ok(None);
                    }
                    *bytes = &bytes[seen..];
                    self.state = State::Envelope { had_list: false };
                }
                State::Envelope { had_list } => match field(bytes, usize::MAX, "Unknown")? {
                    Found::Incomplete => return Ok(None),
                    Found::List(_) if had_list => return Err(Reason::TwoLists.into()),
                    Found::List(left) => self.state = State::List { left },
                    Found::Field(tag, content) => self.take(tag, content)?,
                },
                State::List { left: 0 } => self.state = State::Envelope { had_list: true },
                State::List { left } => {
                    let before = bytes.len();
                    let found = field(bytes, left, "List")?;
                    self.state = State::List { left: left - (before - bytes.len()) };
                    match found {
                        Found::Incomplete | Found::List(_) => return Ok(None),
                        Found::Field(tag, content) if tag.is(WireType::Bytes) => match tag.number {
                            METADATA => return Ok(Some(ListPart::Metadata(content))),
                            ITEMS => return Ok(Some(ListPart::Item(content))),
                            _ => {}
                        },
                        Found::Field(..) => {}
                    }
                }
            }
        }
    }

    /// Checks that the body is complete. `rest` is what was not consumed.
    ///
    /// # Errors
    /// Returns an error if it is not.
    pub fn finish(&self, rest: &[u8]) -> Result<(), Error> {
        match self.state {
            State::Envelope { had_list: true } if rest.is_empty() => Ok(()),
            State::Start if rest.is_empty() => Err(Reason::EmptyData.into()),
            _ => Err(Reason::Short.into()),
        }
    }

    /// Takes a field of the envelope that is not the list.
    fn take(&mut self, tag: Tag, content: &[u8]) -> Result<(), Error> {
        let Some(name) = FIELDS.get(tag.number as usize - 1) else { return Ok(()) };
        if !tag.is(WireType::Bytes) {
            let field = (*name).to_owned();
            return Err(Reason::WrongWireType { wire_type: tag.wire_type, field }.into());
        }
        let mut envelope = Envelope::default();
        envelope.set(tag.number, content)?;
        if envelope.is_encoded {
            return Err(Reason::Encoded.into());
        }
        if !envelope.api_version.is_empty() {
            self.api_version = envelope.api_version.into_owned();
        }
        if !envelope.kind.is_empty() {
            self.kind = envelope.kind.into_owned();
        }
        Ok(())
    }
}

/// Takes a field of a message that has `left` bytes, of which some are there. In the envelope,
/// whose length is not known, the list is entered instead.
fn field<'a>(bytes: &mut &'a [u8], left: usize, message: &'static str) -> Result<Found<'a>, Error> {
    let mut reader = Reader::new(&bytes[..bytes.len().min(left)]);
    if reader.is_empty() {
        return Ok(Found::Incomplete);
    }
    let all = reader.left();
    let outcome: Result<_, Error> = (|| {
        let tag = reader.tag(message)?;
        if !tag.is(WireType::Bytes) {
            reader.skip(tag)?;
            return Ok(Found::Field(tag, &[][..]));
        }
        let length = reader.length()?;
        if left == usize::MAX && tag.number == RAW {
            return Ok(Found::List(length));
        }
        // Only what is within the message can still arrive.
        if length > left - (all - reader.left()) {
            return Err(Reason::TooLong.into());
        }
        Ok(Found::Field(tag, reader.take(length)?))
    })();
    match outcome {
        Err(error) if all < left && *error.reason() == Reason::Short => Ok(Found::Incomplete),
        outcome => {
            *bytes = &bytes[all - reader.left()..];
            outcome
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::TABLE;
    use crate::wire::put_bytes;

    fn body() -> Vec<u8> {
        let list = json!({
            "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}, {}],
        });
        crate::from_json(list.as_object().expect("an object")).expect("it is a list")
    }

    #[test]
    fn parts_arrive_in_any_pieces() {
        let body = body();
        for size in 1..body.len() {
            let (mut parser, mut kept, mut found) = (ListParser::new(), Vec::new(), Vec::new());
            for piece in body.chunks(size) {
                kept.extend_from_slice(piece);
                let mut rest = kept.as_slice();
                while let Some(part) = parser.next(&mut rest).expect("it is a list") {
                    found.push(match part {
                        ListPart::Metadata(raw) => ("metadata", raw.to_vec()),
                        ListPart::Item(raw) => ("item", raw.to_vec()),
                    });
                }
                kept = rest.to_vec();
            }
            assert_eq!(parser.finish(&kept), Ok(()), "in pieces of {size}");
            assert_eq!((parser.api_version(), parser.item_kind()), ("v1", "ConfigMap"));
            let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, ["metadata", "item", "item", "item"]);
            let metadata = crate::list_metadata(&found[0].1).expect("it is metadata");
            assert_eq!(metadata.resource_version, "7");
        }
    }

    #[test]
    fn a_list_that_ends_early_is_not_finished() {
        let body = body();
        for end in 0..body.len() {
            let (mut parser, mut rest) = (ListParser::new(), &body[..end]);
            while parser.next(&mut rest).expect("it is the start of a list").is_some() {}
            // The last two fields are empty, and Go may leave them out.
            let is_whole = end == body.len() - 4 || end == body.len() - 2;
            assert_eq!(parser.finish(rest).is_ok(), is_whole, "{end} of {}", body.len());
        }
    }

    #[test]
    fn an_item_that_is_longer_than_its_list_is_refused_at_once() {
        let mut list = Vec::new();
        put_bytes(&mut list, ITEMS, b"abc");
        list[1] = 100;
        let body = Envelope::new("v1", "PodList", &list).to_bytes();
        let error = ListParser::new().next(&mut &body[..]).expect_err("it is too long");
        assert_eq!(*error.reason(), Reason::TooLong);
    }

    #[test]
    fn every_list_has_its_items_in_the_same_field() {
        for (api_version, kind) in TABLE.kinds().filter(|(_, kind)| kind.ends_with("List")) {
            let message = TABLE.kind(api_version, kind).expect("a kind has a message");
            let number = |name| message.fields.iter().find(|field| field.name == name);
            let numbers = [number("metadata"), number("items")].map(|it| it.map(|it| it.number));
            let discovery = ["APIGroupList", "APIResourceList"].contains(&kind);
            assert!(discovery || numbers == [Some(METADATA), Some(ITEMS)], "{api_version} {kind}");
        }
    }
}
