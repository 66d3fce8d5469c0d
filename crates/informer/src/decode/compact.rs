//! Finding where an object ends and, in the same pass, what of it is not worth keeping.
//!
//! Between `frames`, which knows where an object starts, and the cache, which holds its bytes for as long as
//! it lives: managedFields are about half of a typical pod, and nobody who reads a cache looks at them.
//!
//! One pass of the structural scan finds the end of the object, whether there is whitespace outside of its
//! strings, and the place of `managedFields`. Most blocks of 64 bytes only change the depth by what they open
//! and close; single places are looked at only where the object, or its metadata, may end or name a member.
//! What stays is then copied once, into an allocation of exactly its size.
//!
//! Invariants:
//! - Only the member `managedFields` of the object that is the member `metadata` of the object itself is cut.
//!   A member is recognised by its depth and its key, also if the key is written with escapes; the same text
//!   elsewhere (in the spec, in an annotation, in the metadata of a pod template) stays.
//! - If the object is valid JSON, the result is valid JSON that is equal to it but for that member. If it is
//!   not, the result is not either, in general: whoever decodes it will find out.
//! - The result has no spare capacity.

use std::borrow::Cow;
use std::ops::Range;

use crate::decode::scan::{Block, Strings, Structure};

/// Whether objects keep `metadata.managedFields`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagedFields {
    /// They are cut. The default: they are about half of an object, and of use to the API server only.
    #[default]
    Cut,
    /// They stay, for those who look at who owns which field.
    Keep,
}

/// How far a scan has come with the bytes that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The value goes on after them.
    More,
    /// The value ends here: so many bytes belong to it.
    End(usize),
}

/// A pass over one object or array, which may arrive in pieces.
#[derive(Debug)]
pub(crate) struct ObjectScan {
    managed_fields: ManagedFields,
    /// Bytes that were passed.
    at: usize,
    strings: Strings,
    /// Objects and arrays that are open at `at`.
    depth: usize,
    place: Outline,
    /// Where the member that is being cut begins.
    cut_from: Option<usize>,
    /// What is left out, in order. A second entry needs a member to be there twice.
    cuts: Vec<Range<usize>>,
    /// Whether there is whitespace outside of strings.
    spaced: bool,
}

/// Where in the outline of an object a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outline {
    /// Anywhere else.
    Elsewhere,
    /// After the key `metadata` of the object itself.
    AtMetadata,
    /// Within the object that is the value of that key.
    InMetadata,
}

/// Copies `object`, which must be one JSON object with nothing before or after it, without whitespace and
/// without what `managed_fields` says. `None` if it does not begin or end as an object does.
///
/// ```
/// use windlass_informer::{ManagedFields, compact};
///
/// let pod = br#"{ "metadata": { "name": "web", "managedFields": [{}] }, "spec": {} }"#;
/// let compacted = compact(pod, ManagedFields::Cut).expect("it is an object");
/// assert_eq!(&*compacted, br#"{"metadata":{"name":"web"},"spec":{}}"#);
/// ```
pub fn compact(object: &[u8], managed_fields: ManagedFields) -> Option<Box<[u8]>> {
    if object.first() != Some(&b'{') {
        return None;
    }
    let mut scan = ObjectScan::new(managed_fields);
    if scan.advance(object) != Progress::End(object.len()) || !object.ends_with(b"}") {
        return None;
    }
    // Only what has whitespace to lose is changed before it is copied.
    if scan.spaced {
        return Some(scan.copy(&mut object.to_vec()));
    }
    Some(scan.copy_without_cuts(object))
}

impl ObjectScan {
    pub(crate) fn new(managed_fields: ManagedFields) -> Self {
        Self {
            managed_fields,
            at: 0,
            strings: Strings::default(),
            depth: 0,
            place: Outline::Elsewhere,
            cut_from: None,
            cuts: Vec::new(),
            spaced: false,
        }
    }

    /// Starts over, with another object.
    pub(crate) fn reset(&mut self) {
        let mut cuts = std::mem::take(&mut self.cuts);
        cuts.clear();
        *self = Self { cuts, ..Self::new(self.managed_fields) };
    }

    /// Goes on through `bytes`: the object or array from its first byte to as far as it has arrived.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Progress {
        while self.at < bytes.len() {
            let block = Block::at(bytes, self.at);
            let structure = self.strings.pass(&block);
            // What is empty, as most of managedFields is, opens and closes at once and reaches nothing.
            let empty = structure.closes & (structure.opens << 1);
            let closes = (structure.closes ^ empty).count_ones() as usize;
            // Even if all that this block closes came first, nothing of interest would be reached.
            if self.depth >= self.floor() + closes {
                let opens = (structure.opens ^ (empty >> 1)).count_ones() as usize;
                self.depth = self.depth + opens - closes;
                self.spaced |= structure.blanks != 0;
            } else if let Some(end) = self.walk(bytes, &block, structure) {
                return Progress::End(end);
            }
            self.at += block.len();
        }
        Progress::More
    }

    /// Copies what stays of `object`, through which this scan has gone, and which is changed on the way.
    pub(crate) fn copy(&self, object: &mut [u8]) -> Box<[u8]> {
        if !self.spaced {
            return self.copy_without_cuts(object);
        }
        let mut end = 0;
        for segment in self.segments(object.len()) {
            end = close_up(object, segment, end);
        }
        object[..end].into()
    }

    fn copy_without_cuts(&self, object: &[u8]) -> Box<[u8]> {
        let mut copy = Vec::with_capacity(self.segments(object.len()).map(|part| part.len()).sum());
        for segment in self.segments(object.len()) {
            copy.extend_from_slice(&object[segment]);
        }
        copy.into_boxed_slice()
    }

    /// What stays: all that is between the cuts.
    fn segments(&self, len: usize) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.cuts.iter().map(|cut| cut.end));
        let ends = self.cuts.iter().map(|cut| cut.start).chain([len]);
        starts.zip(ends).map(|(start, end)| start..end)
    }

    /// The lowest depth at which there is nothing to look at.
    #[inline]
    fn floor(&self) -> usize {
        match (self.managed_fields, self.place) {
            (ManagedFields::Keep, _) => 1,
            (ManagedFields::Cut, Outline::InMetadata) => 3,
            (ManagedFields::Cut, _) => 2,
        }
    }

    /// Goes through the single places of a block. Returns where the object ends, if it does.
    fn walk(&mut self, bytes: &[u8], block: &Block, structure: Structure) -> Option<usize> {
        let colons = match self.managed_fields {
            ManagedFields::Cut => block.equal(b':') & structure.outside,
            ManagedFields::Keep => 0,
        };
        let mut bits = structure.opens | structure.closes | colons;
        while bits != 0 {
            let bit = bits & bits.wrapping_neg();
            bits ^= bit;
            let at = self.at + bit.trailing_zeros() as usize;
            if structure.opens & bit != 0 {
                self.open(bytes[at]);
            } else if structure.closes & bit == 0 {
                self.colon(bytes, at);
            } else if self.close(bytes, at) {
                // What follows belongs to somebody else.
                self.spaced |= structure.blanks & (bit - 1) != 0;
                return Some(at + 1);
            }
        }
        self.spaced |= structure.blanks != 0;
        None
    }

    #[inline]
    fn open(&mut self, bracket: u8) {
        self.depth += 1;
        if self.depth == 2 {
            self.place = match self.place {
                Outline::AtMetadata if bracket == b'{' => Outline::InMetadata,
                _ => Outline::Elsewhere,
            };
        }
    }

    /// Returns whether this was the end of the object itself.
    #[inline]
    fn close(&mut self, bytes: &[u8], at: usize) -> bool {
        self.depth -= 1;
        if self.depth == 1 && self.place == Outline::InMetadata {
            self.place = Outline::Elsewhere;
            if let Some(from) = self.cut_from.take() {
                // There is no member after it, so the comma before it goes too.
                let before = trim_end(&bytes[..from]);
                let from = if before.ends_with(b",") { before.len() - 1 } else { from };
                self.cuts.push(from..at);
            }
        }
        self.depth == 0
    }

    #[inline]
    fn colon(&mut self, bytes: &[u8], at: usize) {
        match (self.depth, self.place) {
            (1, _) => {
                let is_metadata = key_before(bytes, at).is_some_and(|key| key.is("metadata"));
                self.place = if is_metadata { Outline::AtMetadata } else { Outline::Elsewhere };
            }
            (2, Outline::InMetadata) => {
                let Some(key) = key_before(bytes, at) else { return };
                if key.is("managedFields") {
                    self.cut_from.get_or_insert(key.start);
                } else if let Some(from) = self.cut_from.take() {
                    // The comma between the two goes, and the one before stays for this member.
                    self.cuts.push(from..key.start);
                }
            }
            _ => {}
        }
    }
}

/// A key of an object, as it is written.
struct Key<'a> {
    /// Where its first quote is.
    start: usize,
    /// With its quotes.
    quoted: &'a [u8],
}

impl Key<'_> {
    fn is(&self, name: &str) -> bool {
        let text = &self.quoted[1..self.quoted.len() - 1];
        text == name.as_bytes()
            || text.contains(&b'\\') && string_text(self.quoted).is_some_and(|text| text == name)
    }
}

/// The key that ends before the colon at `colon`, which must be outside of strings.
fn key_before(bytes: &[u8], colon: usize) -> Option<Key<'_>> {
    let bytes = trim_end(&bytes[..colon]);
    let mut start = bytes.strip_suffix(b"\"")?.len();
    loop {
        start = bytes[..start].iter().rposition(|&byte| byte == b'"')?;
        let backslashes = bytes[..start].iter().rev().take_while(|&&byte| byte == b'\\').count();
        // After an odd number of backslashes, the quote is itself a part of the key.
        if backslashes % 2 == 0 {
            return Some(Key { start, quoted: &bytes[start..] });
        }
    }
}

/// The text of a JSON string with its quotes. `None` if it is not one.
pub(crate) fn string_text(quoted: &[u8]) -> Option<Cow<'_, str>> {
    let text = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if text.contains(&b'\\') {
        return serde_json::from_slice::<String>(quoted).ok().map(Cow::Owned);
    }
    std::str::from_utf8(text).ok().map(Cow::Borrowed)
}

/// Moves the bytes of `segment` that are not whitespace down to `to`. Returns where they end there.
fn close_up(object: &mut [u8], segment: Range<usize>, mut to: usize) -> usize {
    // A segment begins outside of strings: cuts are made between members.
    let mut strings = Strings::default();
    let mut at = segment.start;
    while at < segment.end {
        let block = Block::at(&object[..segment.end], at);
        let structure = strings.pass(&block);
        let mut keep = block.there() & !(block.whitespace() & structure.outside);
        while keep != 0 {
            let skip = keep.trailing_zeros();
            let run = (keep >> skip).trailing_ones();
            keep &= u64::MAX.checked_shl(skip + run).unwrap_or(0);
            let from = at + skip as usize;
            object.copy_within(from..from + run as usize, to);
            to += run as usize;
        }
        at += block.len();
    }
    to
}

fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\n' | b'\r' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn cuts(object: &str, expected: &str) {
        let compacted = compact(object.as_bytes(), ManagedFields::Cut).expect("an object");
        assert_eq!(std::str::from_utf8(&compacted), Ok(expected));
        assert_eq!(compacted.into_vec().capacity(), expected.len());
    }

    #[track_caller]
    fn keeps(object: &str) {
        cuts(object, object);
    }

    #[test]
    fn managed_fields_go_with_the_right_comma() {
        cuts(r#"{"metadata":{"managedFields":[{"a":[1]}]}}"#, r#"{"metadata":{}}"#);
        cuts(r#"{"metadata":{"managedFields":[],"name":"a"}}"#, r#"{"metadata":{"name":"a"}}"#);
        cuts(r#"{"metadata":{"name":"a","managedFields":[]}}"#, r#"{"metadata":{"name":"a"}}"#);
        cuts(
            r#"{"metadata":{"name":"a","managedFields":[],"uid":"b"},"spec":{}}"#,
            r#"{"metadata":{"name":"a","uid":"b"},"spec":{}}"#,
        );
    }

    #[test]
    fn managed_fields_of_any_type_are_cut() {
        for value in ["null", "1", r#""a,}\"b""#, "{}", r#"{"metadata":{"a":"]"}}"#, "[[],{}]"] {
            let object = format!(r#"{{"metadata":{{"a":1,"managedFields":{value},"b":2}}}}"#);
            cuts(&object, r#"{"metadata":{"a":1,"b":2}}"#);
            let object = format!(r#"{{"metadata":{{"a":1,"managedFields":{value}}}}}"#);
            cuts(&object, r#"{"metadata":{"a":1}}"#);
        }
    }

    #[test]
    fn the_same_name_elsewhere_stays() {
        keeps(
            r#"{"managedFields":[1],"spec":{"managedFields":[1],"metadata":{"managedFields":1}}}"#,
        );
        keeps(r#"{"metadata":{"annotations":{"managedFields":"x","b":"\"managedFields\":[1]"}}}"#);
        keeps(r#"{"spec":{"template":{"metadata":{"managedFields":[1]}}},"metadata":{"a":1}}"#);
        keeps(r#"{"metadata":[{"managedFields":[1]}],"a":{"managedFields":1}}"#);
        keeps(r#"{"metadata":null,"a":{"managedFields":1}}"#);
        keeps(r#"{"metadata":"metadata","a":{"managedFields":1}}"#);
        keeps(r#"{"metadata":{"name":"managedFields","x\"managedFields":1,"managedFieldsX":2}}"#);
        keeps(r#"{"metadata":{"a":{}},"b":{"managedFields":1}}"#);
        keeps(r#"{"x":"metadata","y":{"managedFields":1}}"#);
    }

    #[test]
    fn keys_with_escapes_are_read() {
        cuts(
            r#"{"meta\u0064ata":{"a\"":1,"managed\u0046ields":2}}"#,
            r#"{"meta\u0064ata":{"a\"":1}}"#,
        );
        keeps(r#"{"metadata":{"managed\\u0046ields":2,"\"managedFields":3}}"#);
    }

    #[test]
    fn members_that_are_there_twice_are_both_cut() {
        cuts(r#"{"metadata":{"managedFields":1,"managedFields":2}}"#, r#"{"metadata":{}}"#);
        cuts(
            r#"{"metadata":{"a":1,"managedFields":1,"managedFields":2}}"#,
            r#"{"metadata":{"a":1}}"#,
        );
        cuts(
            r#"{"metadata":{"managedFields":1,"a":1,"managedFields":2},"metadata":{"managedFields":3}}"#,
            r#"{"metadata":{"a":1},"metadata":{}}"#,
        );
    }

    #[test]
    fn whitespace_goes_outside_of_strings_only() {
        cuts(
            "{\n\t\"a b\" : \" \\\" x \",\r\n \"metadata\" : { \"b\" : 1 , \"managedFields\" : [ ] } }",
            r#"{"a b":" \" x ","metadata":{"b":1}}"#,
        );
        cuts(
            "{ \"metadata\" : {\n \"managedFields\" : [ 1, 2 ] ,\n \"b\" : [ 1 , { } ] } }",
            r#"{"metadata":{"b":[1,{}]}}"#,
        );
    }

    #[test]
    fn long_runs_are_moved_as_a_whole() {
        let text = "x \\\" ".repeat(100);
        let spaced = format!("{{{0}\"a\"{0}:{0}\"{text}\"{0}}}", " ".repeat(100));
        cuts(&spaced, &format!("{{\"a\":\"{text}\"}}"));
    }

    #[test]
    fn control_characters_are_no_whitespace() {
        keeps("{\"a\":\u{1}1}");
    }

    #[test]
    fn managed_fields_stay_when_asked_for() {
        let object = br#"{"metadata": {"managedFields": []}}"#;
        let kept = compact(object, ManagedFields::Keep).expect("an object");
        assert_eq!(&*kept, br#"{"metadata":{"managedFields":[]}}"#);
    }

    #[test]
    fn what_is_not_one_object_is_refused() {
        for text in ["", "1", "[]", "{", "{]", "{}{}", "{} ", " {}", r#"{"a":"}"#, "}"] {
            assert_eq!(compact(text.as_bytes(), ManagedFields::Cut), None, "{text}");
        }
    }
}
