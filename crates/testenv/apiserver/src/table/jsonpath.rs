//! The `JSONPath` dialect of Kubernetes, as printer columns of custom resources use it.
//!
//! It is that of `k8s.io/client-go/util/jsonpath`, which is older than RFC 9535 and differs in
//! nearly everything but the looks: dots are escaped by backslashes, quoted keys are split at
//! their dots, an index out of bounds is an error, and numbers of different types are not
//! comparable. No crate reads it. [`parse`] makes nodes of a text, [`eval`] walks them.
//!
//! Bounds: nodes nest as deep as a filter in a union, and a path that looks at more than
//! [`eval::VALUES_MAX`] values finds nothing.

mod eval;
mod parse;

use serde_json::Value;

/// A path that was understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    /// What stands in braces: one part, unless the path itself has braces.
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
    /// The value and everything below it.
    Recursive,
    Union(Vec<Vec<Node>>),
    /// A word without a meaning in a column, such as `range`.
    Word,
}

/// `[start:end:step]`; a single index ends after itself.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    /// Whether `end` was not given but follows from `start`.
    is_index: bool,
    step: Option<i64>,
}

/// How a filter compares.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Test {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Something else, which is found out when the filter is used.
    Unknown,
}

impl JsonPath {
    /// Reads the path of a column, which has no braces around it.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        parse::parse(path).map(|actions| Self { actions })
    }

    /// The first value that the path finds; none if it finds nothing, or fails.
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
