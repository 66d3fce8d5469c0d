//! The types of expressions, and type inference.
//!
//! The rules are those of cel-go's checker: `dyn` fits everywhere, a type parameter is bound to the
//! first type that it meets, and two object types are the same if they have the same name, which is
//! that of their place in the schema.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Dyn,
    /// The type of an expression with a reported error. It fits everywhere, so that the error is
    /// reported once.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    Object(Arc<Object>),
    /// A type of a library, or `optional_type`.
    Opaque(Arc<str>, Vec<Type>),
    /// The type of a type.
    Meta(Option<Arc<Type>>),
    /// A type parameter of a declaration or of the checker.
    Param(Arc<str>),
}

/// An object type with a schema. The fields have their names in expressions.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) fields: BTreeMap<String, Type>,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Object {}

const OPTIONAL: &str = "optional_type";

impl Type {
    pub(super) fn list(item: Self) -> Self {
        Self::List(Arc::new(item))
    }

    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub(super) fn optional(value: Self) -> Self {
        Self::Opaque(OPTIONAL.into(), vec![value])
    }

    /// Returns the type inside an optional type.
    pub(super) fn unwrapped(&self) -> Option<&Self> {
        match self {
            Self::Opaque(name, parameters) if &**name == OPTIONAL => parameters.first(),
            _ => None,
        }
    }

    /// Parses a type in the form of its [`fmt::Display`]. A single capital letter is a parameter.
    pub(super) fn parse(text: &str) -> Self {
        let text = text.trim();
        if let Some((name, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            let mut parameters = split(inner).into_iter().map(Self::parse);
            let mut next = || parameters.next().unwrap_or(Self::Dyn);
            return match name {
                "list" => Self::list(next()),
                "map" => Self::map(next(), next()),
                "type" => Self::Meta(Some(Arc::new(next()))),
                _ => Self::Opaque(name.into(), parameters.collect()),
            };
        }
        match text {
            "dyn" => Self::Dyn,
            "null" => Self::Null,
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "duration" => Self::Duration,
            "timestamp" => Self::Timestamp,
            "type" => Self::Meta(None),
            _ if text.len() == 1 => Self::Param(text.into()),
            _ => Self::Opaque(text.into(), Vec::new()),
        }
    }

    /// Returns the type with its parameters changed.
    fn rebuilt(&self, change: &mut impl FnMut(&Self) -> Self) -> Self {
        match self {
            Self::List(item) => Self::list(change(item)),
            Self::Map(pair) => Self::map(change(&pair.0), change(&pair.1)),
            Self::Opaque(name, parameters) => {
                Self::Opaque(name.clone(), parameters.iter().map(change).collect())
            }
            Self::Meta(Some(inner)) => Self::Meta(Some(Arc::new(change(inner)))),
            other => other.clone(),
        }
    }

    fn parameters(&self) -> Vec<&Self> {
        match self {
            Self::List(item) => vec![item],
            Self::Map(pair) => vec![&pair.0, &pair.1],
            Self::Opaque(_, parameters) => parameters.iter().collect(),
            Self::Meta(Some(inner)) => vec![inner],
            _ => Vec::new(),
        }
    }

    fn is_wild(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether this type is at least as general as the other.
    fn is_as_general_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Param(_), _) | (Self::Meta(_), Self::Meta(_)) => true,
            (_, Self::Dyn | Self::Param(_)) => false,
            (Self::Opaque(a, _), Self::Opaque(b, _)) if a != b => false,
            (Self::Opaque(..), Self::Opaque(..))
            | (Self::List(_), Self::List(_))
            | (Self::Map(_), Self::Map(_)) => {
                let (ours, theirs) = (self.parameters(), other.parameters());
                ours.len() == theirs.len()
                    && ours.iter().zip(theirs).all(|(a, b)| a.is_as_general_as(b))
            }
            _ => self == other,
        }
    }
}

/// Splits a list of types at its commas outside of parentheses.
pub(super) fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(pair) => write!(f, "map({}, {})", pair.0, pair.1),
            Self::Object(object) => f.write_str(&object.name),
            Self::Opaque(name, parameters) if parameters.is_empty() => f.write_str(name),
            Self::Opaque(name, parameters) => {
                let shown: Vec<String> = parameters.iter().map(ToString::to_string).collect();
                write!(f, "{name}({})", shown.join(", "))
            }
            Self::Meta(None) => f.write_str("type"),
            Self::Meta(Some(inner)) => write!(f, "type({inner})"),
            Self::Param(name) => f.write_str(name),
        }
    }
}

/// The bindings of type parameters that are known so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Substitution {
    bound: BTreeMap<Arc<str>, Type>,
    next_parameter: usize,
}

impl Substitution {
    /// Returns a new type parameter.
    pub(super) fn fresh(&mut self) -> Type {
        self.next_parameter += 1;
        Type::Param(format!("_var{}", self.next_parameter - 1).into())
    }

    /// Binds type parameters so that each type in `given` fits the type at the same index of
    /// `places`. Returns whether that is possible; otherwise no binding changes.
    pub(super) fn fit(&mut self, given: &[Type], places: &[Type]) -> bool {
        if given.len() != places.len() {
            return false;
        }
        let mut tried = self.clone();
        let fits = given.iter().zip(places).all(|(a, b)| tried.assign(a, b));
        if fits {
            *self = tried;
        }
        fits
    }

    /// Returns the more general of two types, if one fits the other.
    pub(super) fn join(&mut self, a: &Type, b: &Type) -> Option<Type> {
        self.fit(std::slice::from_ref(a), std::slice::from_ref(b)).then(|| most_general(a, b))
    }

    fn assign(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Param(name) = b {
            match self.bind(name, a) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Param(name) = a {
            return self.bind(name, b).0;
        }
        match (a, b) {
            _ if a.is_wild() || b.is_wild() => true,
            (Type::Null, other) | (other, Type::Null) => {
                use Type::{Duration, Null, Object, Opaque, Timestamp};
                matches!(other, Null | Opaque(..) | Object(_) | Duration | Timestamp)
            }
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::Opaque(x, _), Type::Opaque(y, _)) if x != y => false,
            (Type::Opaque(..), Type::Opaque(..))
            | (Type::List(_), Type::List(_))
            | (Type::Map(_), Type::Map(_)) => {
                let (ours, theirs) = (a.parameters(), b.parameters());
                ours.len() == theirs.len()
                    && ours.iter().zip(theirs).all(|(a, b)| self.assign(a, b))
            }
            _ => a == b,
        }
    }

    /// Binds a parameter to a type. Returns whether it could be bound, and whether it was bound
    /// before.
    fn bind(&mut self, name: &Arc<str>, given: &Type) -> (bool, bool) {
        if matches!(given, Type::Param(other) if other == name) {
            return (true, true);
        }
        if let Some(held) = self.bound.get(name).cloned() {
            if held == *given {
                return (true, true);
            }
            if !self.assign(given, &held) {
                return (false, true);
            }
            let general = most_general(given, &held);
            if !self.is_within(name, &general) {
                self.bound.insert(name.clone(), general);
            }
            return (true, true);
        }
        let free = !self.is_within(name, given);
        if free {
            self.bound.insert(name.clone(), given.clone());
        }
        (free, false)
    }

    fn is_within(&self, name: &Arc<str>, within: &Type) -> bool {
        match within {
            Type::Param(other) if other == name => true,
            Type::Param(other) => {
                self.bound.get(other).is_some_and(|bound| self.is_within(name, bound))
            }
            other => other.parameters().into_iter().any(|inner| self.is_within(name, inner)),
        }
    }

    /// Returns the type with its parameters replaced by the types that they are bound to.
    pub(super) fn resolve(&self, given: &Type) -> Type {
        match given {
            Type::Param(name) => match self.bound.get(name) {
                Some(bound) => self.resolve(bound),
                None => given.clone(),
            },
            other => other.rebuilt(&mut |inner| self.resolve(inner)),
        }
    }

    /// Returns the resolved type, with `dyn` for unbound parameters.
    pub(super) fn resolve_or_dyn(&self, given: &Type) -> Type {
        match self.resolve(given) {
            Type::Param(_) => Type::Dyn,
            other => other.rebuilt(&mut |inner| self.resolve_or_dyn(inner)),
        }
    }

    /// Returns the types of a declaration with fresh parameters.
    pub(super) fn instantiate(&mut self, types: &[Type]) -> Vec<Type> {
        let mut fresh = BTreeMap::new();
        types.iter().map(|one| self.with_fresh_parameters(one, &mut fresh)).collect()
    }

    fn with_fresh_parameters(
        &mut self,
        given: &Type,
        fresh: &mut BTreeMap<Arc<str>, Type>,
    ) -> Type {
        match given {
            Type::Param(name) => {
                if let Some(known) = fresh.get(name) {
                    return known.clone();
                }
                let next_parameter = self.fresh();
                fresh.insert(name.clone(), next_parameter.clone());
                next_parameter
            }
            other => other.rebuilt(&mut |inner| self.with_fresh_parameters(inner, fresh)),
        }
    }
}

fn most_general(a: &Type, b: &Type) -> Type {
    if a.is_as_general_as(b) { a.clone() } else { b.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_round_trip_through_text() {
        for text in ["map(string, list(int))", "optional_type(V)", "net.IP", "type(A)", "type"] {
            assert_eq!(Type::parse(text).to_string(), text);
        }
    }

    #[test]
    fn a_parameter_stands_for_one_type() {
        let mut substitution = Substitution::default();
        let place = substitution.instantiate(&[Type::parse("A"), Type::parse("list(A)")]);
        assert!(substitution.fit(&[Type::Int, Type::list(Type::Int)], &place));
        assert_eq!(substitution.resolve_or_dyn(&place[1]).to_string(), "list(int)");
        let place = substitution.instantiate(&[Type::parse("A"), Type::parse("list(A)")]);
        assert!(!substitution.fit(&[Type::Int, Type::list(Type::String)], &place));
        assert!(substitution.fit(&[Type::Int, Type::list(Type::Dyn)], &place));
    }
}
