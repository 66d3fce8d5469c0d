//! The `JSONPath` dialect of Kubernetes, for printer columns of custom resources.
//!
//! It is the dialect of `k8s.io/client-go/util/jsonpath`, which is older than RFC 9535 and differs
//! in nearly everything but its looks: dots are escaped by backslashes, quoted keys are split at
//! their dots, an index out of bounds is an error, and numbers of different types are not
//! comparable. No crate implements it. [`parse`] parses a path into nodes, and [`eval`] evaluates
//! them.
//!
//! Limits: filters and unions nest only a few levels deep, and a path that visits more than
//! [`eval::VALUES_MAX`] values finds nothing.

mod eval;
mod parse;

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    /// The nodes of each pair of braces: one pair, unless the path itself has braces.
    actions: Vec<Vec<Node>>,
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// A literal.
    Constant(Value),
    Field(String),
    Slice(Slice),
    Filter {
        left: Vec<Node>,
        test: Test,
        right: Vec<Node>,
    },
    Wildcard,
    /// The value and all values below it.
    Recursive,
    Union(Vec<Vec<Node>>),
    /// A word that has no meaning in a column, such as `range`.
    Word,
}

/// `[start:end:step]`. A single index is a slice of one item.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    /// Whether this is a single index, so that `end` follows from `start`.
    is_index: bool,
    step: Option<i64>,
}

/// The comparison in a filter.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Test {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// An unknown operator, which is an error when the filter is used.
    Unknown,
}

impl JsonPath {
    /// Parses the path of a column, which has no braces around it.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        parse::parse(path).map(|actions| Self { actions })
    }

    /// Returns the first value that the path finds, or `None` if it finds nothing or fails.
    pub(crate) fn first(&self, object: &Value) -> Option<Value> {
        let mut first = None;
        for (index, action) in self.actions.iter().enumerate() {
            let found = eval::find(action, object)?;
            if index == 0 {
                first = found.first().copied().cloned();
            }
        }
        first
    }
}

#[cfg(test)]
mod tests;
