//! A body that comes in chunks: each with its length before it, as a hexadecimal number in a line of its own.

/// Where in its chunks a body is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunked {
    state: State,
    /// Bytes between chunks since the last one that was not.
    passed: usize,
}

/// What may be between two chunks, and behind the last: some digits, and what nobody needs.
const BETWEEN_MAX: usize = 16 << 10;

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// In the length of the next chunk, of which so much was read.
    Length(Option<u64>),
    /// In what else is in the line of a length, which nobody needs.
    Extension(u64),
    /// At the end of the line of a length.
    LengthEnd(u64),
    /// In a chunk, of which so many bytes are left.
    Data(u64),
    /// Behind a chunk: the end of a line.
    DataEnd,
    /// In a line behind the last chunk, in which so many bytes were.
    Trailer(u64),
    /// Behind all of it.
    End,
    /// At something that is no chunk.
    Broken(&'static str),
}

impl Default for State {
    fn default() -> Self {
        Self::Length(None)
    }
}

impl Chunked {
    pub(super) fn is_complete(&self) -> bool {
        self.state == State::End
    }

    /// What is wrong, if something is.
    pub(super) fn problem(&self) -> Option<&'static str> {
        if let State::Broken(problem) = self.state { Some(problem) } else { None }
    }

    /// Goes on through bytes that have arrived, and moves what is in chunks to their beginning. Returns how much that is: all
    /// that came before a problem is whole.
    pub(super) fn unframe(&mut self, bytes: &mut [u8]) -> usize {
        let (mut at, mut kept) = (0, 0);
        while at < bytes.len() && !self.is_complete() && self.problem().is_none() {
            if let State::Data(left) = &mut self.state {
                self.passed = 0;
                let here = bytes.len() - at;
                let length = usize::try_from(*left).map_or(here, |left| left.min(here));
                bytes.copy_within(at..at + length, kept);
                (at, kept) = (at + length, kept + length);
                *left -= length as u64;
                if *left == 0 {
                    self.state = State::DataEnd;
                }
            } else {
                self.state = self.pass(bytes[at]);
                at += 1;
            }
        }
        kept
    }

    /// Where it is behind a byte between chunks.
    fn pass(&mut self, byte: u8) -> State {
        self.passed += 1;
        if self.passed > BETWEEN_MAX {
            return State::Broken("what is between its chunks has no end");
        }
        match (&self.state, byte) {
            (State::Length(Some(length)) | State::Extension(length), b'\r') => {
                State::LengthEnd(*length)
            }
            (State::Length(Some(length)), b';' | b' ' | b'\t') | (State::Extension(length), _) => {
                State::Extension(*length)
            }
            (State::Length(length), digit) => longer(*length, digit)
                .map_or(State::Broken("a chunk has no length"), |length| {
                    State::Length(Some(length))
                }),
            (State::LengthEnd(0), b'\n') => State::Trailer(0),
            (State::LengthEnd(length), b'\n') => State::Data(*length),
            (State::DataEnd, b'\r') => State::DataEnd,
            (State::DataEnd, b'\n') => State::Length(None),
            (State::Trailer(0), b'\n') => State::End,
            (State::Trailer(_), b'\n') => State::Trailer(0),
            (State::Trailer(length), b'\r') => State::Trailer(*length),
            (State::Trailer(length), _) => State::Trailer(length.saturating_add(1)),
            (State::LengthEnd(_) | State::DataEnd, _) => {
                State::Broken("a chunk is not as long as it says")
            }
            (State::Data(_) | State::End | State::Broken(_), _) => {
                unreachable!("these must not be passed")
            }
        }
    }
}

/// A length with one more digit.
fn longer(length: Option<u64>, digit: u8) -> Option<u64> {
    let value = char::from(digit).to_digit(16)?;
    length.unwrap_or(0).checked_mul(16).map(|length| length + u64::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in the chunks, if they arrive in two pieces, and where that ends.
    fn unframed(text: &str, first: usize) -> (String, Chunked) {
        let mut chunked = Chunked::default();
        let mut all = Vec::new();
        for piece in [&text[..first], &text[first..]] {
            let mut bytes = piece.as_bytes().to_vec();
            let kept = chunked.unframe(&mut bytes);
            all.extend_from_slice(&bytes[..kept]);
        }
        (String::from_utf8(all).expect("text"), chunked)
    }

    #[test]
    fn chunks_are_put_together_wherever_they_are_cut() {
        let cases = [
            ("3\r\none\r\n", ("one", false)),
            (
                "3\r\none\r\n0010;a=\"b\"\r\n, two, and three\r\n0\r\n\r\n",
                ("one, two, and three", true),
            ),
            ("A \r\n0123456789\r\n0\r\nX-A: b\r\nX-C: d\r\n\r\nmore", ("0123456789", true)),
            ("0\r\n\r\n", ("", true)),
        ];
        for (text, (data, is_complete)) in cases {
            for first in 0..=text.len() {
                let (unframed, chunked) = unframed(text, first);
                assert_eq!(
                    (&*unframed, chunked.is_complete()),
                    (data, is_complete),
                    "{text:?} cut at {first}"
                );
                assert_eq!(chunked.problem(), None, "{text:?} cut at {first}");
            }
        }
    }

    #[test]
    fn what_is_no_chunk_is_an_error() {
        for text in ["\r\n", "x\r\n", "-1\r\n", "3\r\nfour\r\n", "3\rx", "10000000000000000\r\n"] {
            assert!(unframed(text, 0).1.problem().is_some(), "{text:?}");
        }
        let many = "x".repeat(BETWEEN_MAX);
        for endless in [format!("0\r\n{many}"), format!("3;{many}"), "0".repeat(BETWEEN_MAX + 1)] {
            assert!(unframed(&endless, 0).1.problem().is_some(), "{}", &endless[..10]);
        }
    }
}
