//! The functions that expressions may call, with their types.
//!
//! `functions.txt` lists the functions that kube-apiserver v1.36.3 declares for rules, one overload
//! per line, in its order.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::types::{Type, split};

/// One overload of a function.
#[derive(Debug)]
pub(super) struct Overload {
    /// Whether it is a method. Then the first parameter is its receiver.
    pub(super) member: bool,
    /// The types of the parameters, followed by the type of the result.
    pub(super) types: Vec<Type>,
}

static FUNCTIONS: LazyLock<BTreeMap<&str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<&str, Vec<Overload>> = BTreeMap::new();
    for (name, overload) in include_str!("functions.txt").lines().filter_map(read) {
        functions.entry(name).or_default().push(overload);
    }
    functions
});

/// Returns the overloads of a function, if it exists.
pub(super) fn function(name: &str) -> Option<&'static [Overload]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

/// Returns the type with this name, as in `type(self.port) == int`.
pub(super) fn named_type(name: &str) -> Option<Type> {
    Some(match name {
        "bool" | "bytes" | "double" | "int" | "string" | "uint" => Type::parse(name),
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::Meta(None),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        _ => return None,
    })
}

fn read(line: &str) -> Option<(&str, Overload)> {
    let (style, rest) = line.split_once(' ')?;
    let (name, rest) = rest.split_once(" (")?;
    let (parameters, result) = rest.split_once(") -> ")?;
    let mut types: Vec<Type> = split(parameters).into_iter().map(Type::parse).collect();
    types.push(Type::parse(result));
    Some((name, Overload { member: style == "member", types }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_function() {
        let lines = include_str!("functions.txt").lines();
        assert_eq!(lines.clone().filter_map(read).count(), lines.count());
        assert_eq!(function("matches").map(<[_]>::len), Some(2));
        assert_eq!(function("isSorted").map(<[_]>::len), Some(8));
    }
}
