//! Why an object has no head. The error shows nothing of the object but its key.

use crate::key::ObjectKey;

/// An object without a readable head.
///
/// The error names the object if its key could be read. It shows no content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", describe_object(.key.as_ref()))]
pub struct HeadError {
    key: Option<ObjectKey>,
    problem: HeadProblem,
}

/// What is wrong with a head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadProblem {
    /// The bytes are not a JSON object.
    #[error("it is not a JSON object: line {line} column {column} cannot be read")]
    Syntax {
        /// The line, counted from one.
        line: usize,
        /// The column, counted from one; 0 if nothing of the line could be read.
        column: usize,
    },
    /// A field does not have the shape that the API promises.
    #[error("{field} is not {expected}")]
    Shape {
        /// The field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A field is missing.
    #[error("{field} is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// The writer of the store rejects the object.
    #[error("{reason}")]
    Rejected {
        /// Why.
        reason: &'static str,
    },
}

impl HeadError {
    pub(crate) fn new(key: Option<ObjectKey>, problem: HeadProblem) -> Self {
        Self { key, problem }
    }

    /// The error for an object that the writer of the store rejects.
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

fn describe_object(key: Option<&ObjectKey>) -> String {
    match key {
        Some(key) => format!("object {key}"),
        None => "an object whose key cannot be read".to_owned(),
    }
}
