//! Texts, one behind the other in one text, so that a list of them is one allocation, and one to share.
//!
//! Every text stands behind its length, which is written as a character: one byte for the lengths that labels
//! have. In front stands how many there are.

use crate::interner::{Interning, Symbol};

/// A list of texts. An empty one takes no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Packed(Option<Symbol>);

/// The texts of a list.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts<'a> {
    left: usize,
    rest: &'a str,
}

/// Numbers from here on are written as two characters. What is below is no surrogate.
const WIDE: u32 = 1 << 15;

/// The first of two characters is this and the upper bits.
const MARK: u32 = 1 << 16;

impl Packed {
    /// Packs texts into a shared list; `buffer` is for work.
    pub(super) fn new<'a>(
        texts: impl ExactSizeIterator<Item = &'a str>,
        buffer: &mut String,
        interner: &mut Interning<'_>,
    ) -> Self {
        if texts.len() == 0 {
            return Self(None);
        }
        buffer.clear();
        write(buffer, texts.len());
        for text in texts {
            write(buffer, text.len());
            buffer.push_str(text);
        }
        Self(Some(interner.intern(buffer)))
    }

    pub(super) fn texts(&self) -> Texts<'_> {
        let mut rest = self.0.as_deref().unwrap_or_default();
        Texts { left: take_number(&mut rest), rest }
    }
}

impl<'a> Iterator for Texts<'a> {
    type Item = &'a str;

    #[inline]
    fn next(&mut self) -> Option<&'a str> {
        self.left = self.left.checked_sub(1)?;
        let len = take_number(&mut self.rest);
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(text)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Texts<'_> {}

fn write(to: &mut String, number: usize) {
    let number = u32::try_from(number).expect("a longer text must have been refused");
    let char = |code| char::from_u32(code).expect("neither range may have surrogates");
    if number >= WIDE {
        to.push(char(MARK + number / WIDE));
    }
    to.push(char(number % WIDE));
}

/// Zero at the end.
#[inline]
fn take_number(rest: &mut &str) -> usize {
    let mut chars = rest.chars();
    let mut take = || chars.next().map_or(0, u32::from);
    let first = take();
    let number = if first < MARK { first } else { (first - MARK) * WIDE + take() };
    *rest = chars.as_str();
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interner::Interner;

    #[test]
    fn texts_come_back_as_they_were() {
        let lengths = [0, 1, 127, 128, 0x7fff, 0x8000, 0xd800, 0xdfff, 0x1_0000, 0x12_3456];
        let texts: Vec<_> = lengths.map(|len| "x".repeat(len)).into();
        let many = vec!["ä\0"; 40_000];
        let interner = Interner::new();
        for texts in [texts.iter().map(String::as_str).collect(), many, vec![""], vec![]] {
            let packed =
                Packed::new(texts.iter().copied(), &mut String::new(), &mut interner.lock());
            assert_eq!(packed.texts().len(), texts.len());
            assert!(packed.texts().eq(texts.iter().copied()));
        }
    }

    #[test]
    fn equal_lists_are_one() {
        let interner = Interner::new();
        let pack = |texts: &[&str]| {
            Packed::new(texts.iter().copied(), &mut String::new(), &mut interner.lock())
        };
        let packed = [pack(&["a", "bc"]), pack(&["a", "bc"]), pack(&["ab", "c"])];
        assert_eq!(interner.len(), 2);
        assert_eq!(packed[0], packed[1]);
        assert_ne!(packed[0], packed[2]);
    }
}
