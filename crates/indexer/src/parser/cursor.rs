//! A cursor over JSON bytes. It reads what the caller asks for and skips the rest.
//!
//! Skipping checks that strings end and that brackets balance, and nothing else. The cursor copies
//! nothing: the caller decodes the escapes of a string.

use std::borrow::Cow;

use memchr::memchr2;

/// How deep brackets may be nested. `serde_json` has the same limit.
const DEPTH_MAX: usize = 128;

/// A position in JSON bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The bytes are not JSON from this offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) at: usize,
}

/// A string without its quotes, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<'a> {
    pub(super) bytes: &'a [u8],
    has_escapes: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next byte that is not white space, without taking it.
    pub(super) fn peek(&mut self) -> Result<u8, Broken> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(self.broken())
    }

    /// Takes the next byte if it is `wanted`.
    pub(super) fn take(&mut self, wanted: u8) -> Result<bool, Broken> {
        let is_next = self.peek()? == wanted;
        self.at += usize::from(is_next);
        Ok(is_next)
    }

    pub(super) fn expect(&mut self, wanted: u8) -> Result<(), Broken> {
        if self.take(wanted)? { Ok(()) } else { Err(self.broken()) }
    }

    /// The next key of an object; `None` at the object's end.
    pub(super) fn next_key(&mut self, is_first: &mut bool) -> Result<Option<Raw<'a>>, Broken> {
        if self.take(b'}')? {
            return Ok(None);
        }
        if !std::mem::take(is_first) {
            self.expect(b',')?;
        }
        let key = self.string()?;
        self.expect(b':')?;
        Ok(Some(key))
    }

    /// Whether the array has another item.
    pub(super) fn next_item(&mut self, is_first: &mut bool) -> Result<bool, Broken> {
        if self.take(b']')? {
            return Ok(false);
        }
        if !std::mem::take(is_first) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    pub(super) fn string(&mut self) -> Result<Raw<'a>, Broken> {
        self.expect(b'"')?;
        let start = self.at;
        let has_escapes = self.end_string()?;
        Ok(Raw { bytes: &self.bytes[start..self.at - 1], has_escapes })
    }

    /// A number, `true`, `false` or `null`, as its bytes.
    pub(super) fn word(&mut self) -> Result<&'a [u8], Broken> {
        self.peek()?;
        let rest = &self.bytes[self.at..];
        let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
        let word = &rest[..rest.iter().position(is_end).unwrap_or(rest.len())];
        if word.is_empty() {
            return Err(self.broken());
        }
        self.at += word.len();
        Ok(word)
    }

    /// Skips any value.
    pub(super) fn skip(&mut self) -> Result<(), Broken> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' | b'[' => self.skip_nested(),
            _ => self.word().map(drop),
        }
    }

    /// Skips past the bracket that closes the one at the cursor.
    fn skip_nested(&mut self) -> Result<(), Broken> {
        // A stack of one bit for each open bracket: set for `{`, clear for `[`.
        let (mut open, mut depth) = (0_u128, 0);
        loop {
            let Some(&byte) = self.bytes.get(self.at) else { return Err(self.broken()) };
            self.at += 1;
            match byte {
                b'"' => drop(self.end_string()?),
                b'{' | b'[' if depth == DEPTH_MAX => return Err(self.broken()),
                b'{' | b'[' => {
                    open = open << 1 | u128::from(byte == b'{');
                    depth += 1;
                }
                b'}' | b']' => {
                    if (open & 1 == 1) != (byte == b'}') {
                        return Err(self.broken());
                    }
                    open >>= 1;
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
    }

    /// Moves past the closing quote of a string. Returns whether the string has escapes.
    fn end_string(&mut self) -> Result<bool, Broken> {
        let mut has_escapes = false;
        loop {
            let rest = &self.bytes[self.at..];
            match memchr2(b'"', b'\\', rest) {
                Some(length) if rest[length] == b'"' => {
                    self.at += length + 1;
                    return Ok(has_escapes);
                }
                // The byte after a backslash belongs to the string, whatever it is.
                Some(length) if length + 1 < rest.len() => {
                    has_escapes = true;
                    self.at += length + 2;
                }
                _ => return Err(Broken { at: self.bytes.len() }),
            }
        }
    }

    fn broken(&self) -> Broken {
        Broken { at: self.at }
    }
}

impl<'a> Raw<'a> {
    /// The text; `None` if it is not UTF-8 or an escape is invalid.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        if !self.has_escapes {
            return std::str::from_utf8(self.bytes).ok().map(Cow::Borrowed);
        }
        let quoted = [b"\"", self.bytes, b"\""].concat();
        serde_json::from_slice(&quoted).ok().map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipping_ends_behind_the_value() {
        for value in [r#""a\"}""#, r#"{"a":[1,{"b":"]}"}]}"#, "[[],{}]", "-1.5e3", "null", " [ ] "]
        {
            let text = format!("{value},1");
            let mut cursor = Cursor::new(text.as_bytes());
            cursor.skip().expect("whole");
            assert!(text[cursor.at..].trim_start().starts_with(",1"), "{value} ends at {cursor:?}");
        }
    }

    #[test]
    fn broken_values_are_noticed() {
        let deep = "[".repeat(DEPTH_MAX + 1);
        for value in ["", r#""a"#, r#""a\"#, "{", "[}", "{]", r#"["a"#, &deep] {
            assert!(Cursor::new(value.as_bytes()).skip().is_err(), "{value}");
        }
    }

    #[test]
    fn nesting_up_to_the_limit_is_skipped() {
        let deep = "[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX);
        assert_eq!(Cursor::new(deep.as_bytes()).skip(), Ok(()));
    }
}
