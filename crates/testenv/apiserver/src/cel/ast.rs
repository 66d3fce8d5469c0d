//! The expression tree for the checker and the evaluator.
//!
//! Macros stay loops here; cel-go expands them to a general comprehension. A loop that builds a
//! list therefore does not copy the list in every iteration.

use super::value::Val;

/// An expression. Its position in the source is found by `id`.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) id: u64,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Literal(Val),
    Ident(String),
    /// `a.b`, or `has(a.b)` if `test` is set.
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
    /// A message literal. Kubernetes has no messages that an expression can create.
    Message(String),
    Loop(Box<Loop>),
}

/// An item of a list. An optional item without a value is left out.
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
    /// The second variable: the value, next to the index or key.
    pub(super) second: Option<String>,
    /// The condition on items, in macros that build a list or map.
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
    /// Returns the macro with this name and number of arguments.
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
    /// Returns the dotted name, such as `a.b.c`, if the expression is one.
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
