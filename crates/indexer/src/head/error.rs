//! Why an object has no head. Nothing of it shows but its key.

use std::fmt;

use crate::key::ObjectKey;

/// An object without a readable head. It names the object if its key could be read, and shows no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadError {
    key: Option<ObjectKey>,
    problem: HeadProblem,
}

/// What is wrong with a head.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeadProblem {
    /// The bytes are no JSON object.
    Syntax {
        /// How many bytes could be read.
        offset: usize,
    },
    /// A field does not have the form that the API promises.
    Shape {
        /// The field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A field is missing.
    Missing {
        /// The field.
        field: &'static str,
    },
    /// The texts of the metadata are longer than 4 GiB.
    TooLarge,
    /// Whoever fills the store does not take it.
    Rejected {
        /// Why.
        reason: &'static str,
    },
}

impl HeadError {
    pub(super) fn new(key: Option<ObjectKey>, problem: HeadProblem) -> Self {
        Self { key, problem }
    }

    /// An object that whoever fills the store does not take.
    pub fn rejected(key: Option<ObjectKey>, reason: &'static str) -> Self {
        Self::new(key, HeadProblem::Rejected { reason })
    }

    /// The key of the object, if it could be read.
    pub fn key(&self) -> Option<&ObjectKey> {
        self.key.as_ref()
    }

    /// What is wrong.
    pub fn problem(&self) -> &HeadProblem {
        &self.problem
    }
}

impl std::error::Error for HeadError {}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "object {key}: {}", self.problem),
            None => write!(f, "an object whose key cannot be read: {}", self.problem),
        }
    }
}

impl fmt::Display for HeadProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { offset } => write!(f, "it is no JSON object from byte {offset} on"),
            Self::Shape { field, expected } => write!(f, "{field} is not {expected}"),
            Self::Missing { field } => write!(f, "{field} is missing"),
            Self::TooLarge => f.write_str("its metadata is larger than 4 GiB"),
            Self::Rejected { reason } => f.write_str(reason),
        }
    }
}
