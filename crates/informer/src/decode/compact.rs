//! Finds where an object ends and, in the same pass, what of it is not kept.
//!
//! `frames` finds where an object starts, and the cache holds the object's bytes. The bytes are
//! held without whitespace and without managedFields: these are about half of a typical pod, and
//! readers of a cache do not use them.
//!
//! One pass finds the end of the object, whether there is whitespace outside of its strings, and
//! the position of `managedFields`. What is kept is then copied, into an allocation of exactly its
//! size.
//!
//! Invariants:
//! - Only the member `managedFields` of the member `metadata` of the object itself is cut. The scan
//!   recognises it by depth and key, also if the key has escapes. The same text elsewhere stays: in
//!   the spec, in an annotation, in the metadata of a pod template.
//! - If the object is valid JSON, the result is valid JSON that is equal to it but for that member.
//!   If it is not, in general the result is not either, and reading it fails.
//! - The result has no spare capacity.

use std::ops::Range;

use crate::decode::scan::Strings;

/// Whether objects keep `metadata.managedFields`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagedFields {
    /// They are cut. The default: they are about half of an object, and only the API server uses
    /// them.
    #[default]
    Cut,
    /// They are kept, for readers that need to know who owns which field.
    Keep,
}

/// A pass over one object, which may arrive in chunks.
#[derive(Default)]
pub(crate) struct ObjectScan {
    /// Bytes that were passed.
    at: usize,
    strings: Strings,
    /// Objects and arrays that are open at `at`.
    depth: usize,
    /// Whether `at` is within the metadata of the object itself.
    is_in_metadata: bool,
    /// Where the managedFields begin that are being passed.
    managed_from: Option<usize>,
    /// Where managedFields are, in order.
    managed_fields: Vec<Range<usize>>,
    /// Whether there is whitespace outside of strings.
    has_whitespace: bool,
}

/// A key of an object, as it is written.
pub(crate) struct Key<'a> {
    /// Where its first quote is.
    start: usize,
    /// With its quotes.
    quoted: &'a [u8],
}

impl ObjectScan {
    /// Continues through `bytes`, which are the object from its `{` to as far as it has arrived.
    /// Returns the length of the object if its end has arrived.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        // What arrived before may have ended within a string.
        self.at += self.strings.pass_string(&bytes[self.at..]);
        while let Some(&byte) = bytes.get(self.at) {
            let at = self.at;
            self.at += 1;
            if !self.strings.pass(byte) {
                self.at += self.strings.pass_string(&bytes[self.at..]);
                continue;
            }
            match byte {
                b'{' | b'[' => self.open(bytes, at),
                b'}' | b']' => {
                    if self.close(bytes, at) {
                        return Some(self.at);
                    }
                }
                b':' => self.colon(bytes, at),
                _ => self.has_whitespace |= is_whitespace(byte),
            }
        }
        None
    }

    /// What is kept of the object at the beginning of `bytes`; `None` if there is no whole one.
    pub(crate) fn copy_of(bytes: &[u8], managed_fields: ManagedFields) -> Option<Box<[u8]>> {
        let mut scan = Self::default();
        let len = scan.advance(bytes)?;
        Some(scan.copy(&bytes[..len], managed_fields))
    }

    /// Copies what is kept of `object`, which this scan has passed to its end.
    pub(crate) fn copy(&self, object: &[u8], managed_fields: ManagedFields) -> Box<[u8]> {
        let cuts = match managed_fields {
            ManagedFields::Cut => self.managed_fields.as_slice(),
            ManagedFields::Keep => &[],
        };
        let starts = std::iter::once(0).chain(cuts.iter().map(|cut| cut.end));
        let ends = cuts.iter().map(|cut| cut.start).chain([object.len()]);
        let kept = || starts.clone().zip(ends.clone()).map(|(start, end)| &object[start..end]);
        let mut copy = Vec::with_capacity(kept().map(<[u8]>::len).sum());
        for part in kept() {
            if self.has_whitespace {
                // Cuts are made between members, so each part begins outside of strings.
                let mut strings = Strings::default();
                let is_kept = |byte: &u8| !strings.pass(*byte) || !is_whitespace(*byte);
                copy.extend(part.iter().copied().filter(is_kept));
            } else {
                copy.extend_from_slice(part);
            }
        }
        copy.into_boxed_slice()
    }

    #[inline]
    fn open(&mut self, bytes: &[u8], at: usize) {
        if self.depth == 1 && bytes[at] == b'{' {
            let key = Key::of_value(&bytes[..at]);
            self.is_in_metadata = key.is_some_and(|key| key.is("metadata"));
        }
        self.depth += 1;
    }

    /// Returns whether this was the end of the object itself.
    #[inline]
    fn close(&mut self, bytes: &[u8], at: usize) -> bool {
        self.depth -= 1;
        if self.depth == 1 && self.is_in_metadata {
            self.is_in_metadata = false;
            if let Some(from) = self.managed_from.take() {
                // There is no member after it, so the comma before it is cut too.
                let before = bytes[..from].trim_ascii_end();
                let from = if before.ends_with(b",") { before.len() - 1 } else { from };
                self.managed_fields.push(from..at);
            }
        }
        self.depth == 0
    }

    #[inline]
    fn colon(&mut self, bytes: &[u8], at: usize) {
        if self.depth != 2 || !self.is_in_metadata {
            return;
        }
        let Some(key) = Key::before(&bytes[..at]) else { return };
        if key.is("managedFields") {
            self.managed_from.get_or_insert(key.start);
        } else if let Some(from) = self.managed_from.take() {
            // The comma between the two is cut. The one before stays for this member.
            self.managed_fields.push(from..key.start);
        }
    }
}

impl<'a> Key<'a> {
    /// The key whose value comes after `bytes`, if a value does.
    pub(crate) fn of_value(bytes: &'a [u8]) -> Option<Self> {
        Self::before(bytes.trim_ascii_end().strip_suffix(b":")?)
    }

    /// The key at the end of `bytes`, which stand before a colon that is outside of strings.
    fn before(bytes: &'a [u8]) -> Option<Self> {
        let bytes = bytes.trim_ascii_end();
        let mut start = bytes.strip_suffix(b"\"")?.len();
        loop {
            start = bytes[..start].iter().rposition(|&byte| byte == b'"')?;
            let escapes = bytes[..start].iter().rev().take_while(|&&byte| byte == b'\\').count();
            // After an odd number of backslashes, the quote is a part of the key.
            if escapes % 2 == 0 {
                return Some(Self { start, quoted: &bytes[start..] });
            }
        }
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        let text = &self.quoted[1..self.quoted.len() - 1];
        text == name.as_bytes()
            || text.contains(&b'\\')
                && serde_json::from_slice::<String>(self.quoted).is_ok_and(|text| text == name)
    }
}

/// Whether JSON allows the byte between two tokens.
pub(crate) fn is_whitespace(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compact(object: &[u8], managed_fields: ManagedFields) -> Option<Box<[u8]>> {
        let mut scan = ObjectScan::default();
        let len = scan.advance(object)?;
        (len == object.len()).then(|| scan.copy(object, managed_fields))
    }

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
            r#"{"metadata":{"managedFields":1,"a":1,"managedFields":2},
                "metadata":{"managedFields":3}}"#,
            r#"{"metadata":{"a":1},"metadata":{}}"#,
        );
    }

    #[test]
    fn whitespace_goes_outside_of_strings_only() {
        cuts(
            "{\n\t\"a b\" : \" \\\" x \",\r\n \"metadata\" : { \"b\" : 1 ,
                \"managedFields\" : [ ] } }",
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
    fn unfinished_object_has_no_end() {
        for text in ["{", r#"{"a":"}"#, r#"{"a":{}"#, r#"{"a":"\"}"#] {
            assert_eq!(compact(text.as_bytes(), ManagedFields::Cut), None, "{text}");
        }
    }

    #[test]
    fn bytes_after_the_object_are_not_part_of_it() {
        for rest in ["{}", " ", "]", "\"", ",{"] {
            let text = format!(r#"{{"a":[]}}{rest}"#);
            let mut scan = ObjectScan::default();
            assert_eq!(scan.advance(text.as_bytes()), Some(8), "{text}");
        }
    }
}
