//! Expressions as the checker and the evaluator see them.
//!
//! Macros are loops of their own kind here instead of the general comprehension that cel-go expands
//! them to, so that a loop that builds a list does not copy it in every round.

use super::value::Val;

/// An expression, and the number by which its place in the source is found.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) id: u64,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Literal(Val),
    Ident(String),
    /// `a.b`, or `has(a.b)` if it is only a test.
    Select {
        operand: Box<Expr>,
        field: String,
        test: bool,
    },
    /// `a.?b`.
    OptionalSelect {
        operand: Box<Expr>,
        field: String,
    },
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List(Vec<Item>),
    Map(Vec<Entry>),
    /// A message, of which Kubernetes has none that an expression can make.
    Message(String),
    Loop(Box<Loop>),
}

/// One item of a list; one that is optional is left out if it has no value.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// One entry of a map.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Expr,
    pub(super) value: Expr,
    pub(super) optional: bool,
}

/// A macro that evaluates its body with one or two variables, once for each item of its range.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) kind: LoopKind,
    pub(super) range: Expr,
    pub(super) variable: String,
    /// The value beside the index or key, in macros with two variables.
    pub(super) second: Option<String>,
    /// Which items count, in those macros that build something.
    pub(super) filter: Option<Expr>,
    pub(super) body: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopKind {
    All,
    Exists,
    ExistsOne,
    /// `map`, `filter` and `transformList`.
    List,
    /// `transformMap`.
    Map,
    /// `transformMapEntry`.
    MapEntry,
    /// `sortBy`.
    SortBy,
    /// `optMap`: the range is an optional value.
    OptionalMap,
    /// `optFlatMap`.
    OptionalFlatMap,
}

impl LoopKind {
    /// The macro that is called so on a value with so many arguments.
    pub(super) fn of_macro(name: &str, arguments: usize) -> Option<Self> {
        Some(match (name, arguments) {
            ("all", 3) => Self::All,
            ("exists", 3) => Self::Exists,
            ("exists_one" | "existsOne", 3) => Self::ExistsOne,
            ("transformList", 3 | 4) => Self::List,
            ("transformMap", 3 | 4) => Self::Map,
            ("transformMapEntry", 3 | 4) => Self::MapEntry,
            ("sortBy", 2) => Self::SortBy,
            ("optMap", 2) => Self::OptionalMap,
            ("optFlatMap", 2) => Self::OptionalFlatMap,
            _ => return None,
        })
    }

    /// Whether the macro names one variable, not two.
    pub(super) fn has_one_variable(self) -> bool {
        matches!(self, Self::SortBy | Self::OptionalMap | Self::OptionalFlatMap)
    }
}

impl Expr {
    /// The dotted name that this is, if it is one: `a.b.c`.
    pub(super) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, test: false } => {
                Some(format!("{}.{field}", operand.qualified_name()?))
            }
            _ => None,
        }
    }
}
