//! Bytes of a message: of the input, which the decoded value may borrow, or of a copy.

/// A part of the input or of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'de: 's, 's> {
    Input(&'de [u8]),
    Copy(&'s [u8]),
}

impl<'de: 's, 's> Source<'de, 's> {
    /// No bytes.
    pub(crate) const EMPTY: Self = Self::Input(&[]);

    #[inline]
    pub(crate) fn bytes(self) -> &'s [u8] {
        #[expect(clippy::match_same_arms, reason = "one arm would give both one lifetime")]
        match self {
            Self::Input(bytes) => bytes,
            Self::Copy(bytes) => bytes,
        }
    }

    /// Returns `length` bytes that end `left` bytes before the end.
    #[inline]
    pub(crate) fn before(self, left: usize, length: usize) -> Self {
        let end = self.bytes().len() - left;
        let range = end - length..end;
        match self {
            Self::Input(bytes) => Self::Input(&bytes[range]),
            Self::Copy(bytes) => Self::Copy(&bytes[range]),
        }
    }
}
