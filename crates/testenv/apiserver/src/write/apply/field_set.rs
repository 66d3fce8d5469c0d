//! Sets of fields, as `metadata.managedFields` stores them.
//!
//! A set is a tree of path elements. Each node says whether the field itself is a member, besides
//! the fields below it. A leaf of the tree is always a member: [`FieldSet`] never holds an empty
//! node.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::field_error::{go_float, go_json, go_quote};
use crate::merge_schema::MergeSchema;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    /// A field of a struct, or an entry of a map.
    Field(String),
    /// The item of a keyed list with these values in its key fields, sorted by field name.
    Key(Vec<(String, Scalar)>),
    /// An item of a set, by its value.
    Item(Scalar),
    /// An item of a list by its index. The server never writes it, but clients may send it.
    Index(u64),
}

/// A scalar that identifies an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scalar {
    Whole(i64),
    /// The bits of a number that does not fit `i64`.
    Float(u64),
    Text(String),
    Flag(bool),
    Null,
}

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(BTreeMap<Element, Node>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    below: FieldSet,
}

impl Scalar {
    /// Returns `None` if the value is a list or a map.
    pub(crate) fn new(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Flag(*flag),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => Self::Whole(whole),
                None => Self::Float(number.as_f64().unwrap_or_default().to_bits()),
            },
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }

    fn value(&self) -> Value {
        match self {
            Self::Whole(whole) => (*whole).into(),
            Self::Float(bits) => f64::from_bits(*bits).into(),
            Self::Text(text) => text.as_str().into(),
            Self::Flag(flag) => (*flag).into(),
            Self::Null => Value::Null,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(whole) => write!(f, "{whole}"),
            Self::Float(bits) => f.write_str(&go_float(f64::from_bits(*bits))),
            Self::Text(text) => f.write_str(&go_quote(text)),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Null => f.write_str("null"),
        }
    }
}

impl Element {
    pub(crate) fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// Encodes the element for `fieldsV1`: `f:name`, `k:{"name":"a"}`, `v:"a"`.
    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.clone(), value.value()));
                format!("k:{}", go_json(&Value::Object(fields.collect())))
            }
            Self::Item(value) => format!("v:{}", go_json(&value.value())),
            Self::Index(at) => format!("i:{at}"),
        }
    }

    /// Decodes an element. Returns `None` for an unknown form.
    fn decode(text: &str) -> Option<Self> {
        let (sort, rest) = text.split_at_checked(2)?;
        match sort {
            "f:" => Some(Self::field(rest)),
            "k:" => {
                let fields: Map<String, Value> = serde_json::from_str(rest).ok()?;
                let scalars = fields.into_iter();
                let scalars = scalars.map(|(name, value)| Some((name, Scalar::new(&value)?)));
                scalars.collect::<Option<_>>().map(Self::Key)
            }
            "v:" => Scalar::new(&serde_json::from_str(rest).ok()?).map(Self::Item),
            "i:" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }
}

/// Formats the element for conflicts: `.name`, `[name="a"]`, `[="a"]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{name}={value}"));
                write!(f, "[{}]", fields.collect::<Vec<_>>().join(","))
            }
            Self::Item(value) => write!(f, "[={value}]"),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}

impl FieldSet {
    /// Returns the set of the fields with these paths.
    pub(crate) fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::field(*name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a field, but not its parents. An empty path is ignored: nobody manages a whole object.
    pub(crate) fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.0.entry(first.clone()).or_default();
        if rest.is_empty() {
            node.member = true;
        } else {
            node.below.insert(rest);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this field itself is a member.
    pub(crate) fn has(&self, element: &Element) -> bool {
        self.0.get(element).is_some_and(|node| node.member)
    }

    /// Returns the members below a field, if there are any.
    pub(crate) fn below(&self, element: &Element) -> Option<&Self> {
        self.0.get(element).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// Returns the members of either set.
    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (element, theirs) in &other.0 {
            let node = both.0.entry(element.clone()).or_default();
            node.member |= theirs.member;
            node.below = node.below.union(&theirs.below);
        }
        both
    }

    /// Returns the members of both sets.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.filtered(|element, node| {
            let theirs = other.0.get(element)?;
            let member = node.member && theirs.member;
            Some(Node { member, below: node.below.intersection(&theirs.below) })
        })
    }

    /// Returns the members of this set that are not in the other. The fields below a member of
    /// `other` stay.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.filtered(|element, node| match other.0.get(element) {
            None => Some(node.clone()),
            Some(theirs) => Some(Node {
                member: node.member && !theirs.member,
                below: node.below.difference(&theirs.below),
            }),
        })
    }

    /// Returns the difference, also without the fields below a member of `other`.
    pub(crate) fn without(&self, other: &Self) -> Self {
        self.filtered(|element, node| match other.0.get(element) {
            None => Some(node.clone()),
            Some(theirs) if theirs.member => None,
            Some(theirs) => {
                Some(Node { member: node.member, below: node.below.without(&theirs.below) })
            }
        })
    }

    /// Adds all structs with fields in the set. A set usually leaves them out, because the manager
    /// of a field also manages the struct around it.
    pub(crate) fn with_named(&self, place: MergeSchema<'_>) -> Self {
        let named = self.0.iter().map(|(element, node)| {
            let (named, below) = match element {
                Element::Field(name) => {
                    let field = place.field_or_open(name);
                    (field.named, field.place)
                }
                Element::Key(_) => (false, place.item()),
                Element::Item(_) | Element::Index(_) => (false, MergeSchema::Open),
            };
            let member = node.member || named && !node.below.is_empty();
            (element.clone(), Node { member, below: node.below.with_named(below) })
        });
        Self(named.collect())
    }

    /// Returns the paths of all members as strings: for each level, its members before those below.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.add_paths("", &mut paths);
        paths
    }

    fn add_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        let members = self.0.iter().filter(|(_, node)| node.member);
        paths.extend(members.map(|(element, _)| format!("{prefix}{element}")));
        for (element, node) in &self.0 {
            node.below.add_paths(&format!("{prefix}{element}"), paths);
        }
    }

    /// Encodes the set as `fieldsV1`.
    pub(crate) fn encode(&self) -> Value {
        let fields = self.0.iter().map(|(element, node)| {
            let mut below = node.below.encode();
            if let Value::Object(fields) = &mut below
                && node.member
                && !fields.is_empty()
            {
                fields.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (element.encode(), below)
        });
        Value::Object(fields.collect())
    }

    /// Decodes `fieldsV1`. Unknown elements are ignored.
    pub(crate) fn decode(fields: &Value) -> Self {
        let Value::Object(fields) = fields else { return Self::default() };
        let nodes = fields.iter().filter_map(|(name, fields)| {
            let element = Element::decode(name)?;
            let below = Self::decode(fields);
            let member = below.is_empty() || fields.get(".").is_some();
            Some((element, Node { member, below }))
        });
        Self(nodes.collect())
    }

    /// Returns the nodes that `keep` returns, without empty ones.
    fn filtered(&self, keep: impl Fn(&Element, &Node) -> Option<Node>) -> Self {
        let kept = self.0.iter().filter_map(|(element, node)| {
            let kept = keep(element, node)?;
            (kept.member || !kept.below.is_empty()).then(|| (element.clone(), kept))
        });
        Self(kept.collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests pass literals")]
    fn set(fields: Value) -> FieldSet {
        FieldSet::decode(&fields)
    }

    #[test]
    fn field_sets_round_trip() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {"v:\"a/b\"": {}}},
            "f:spec": {
                "f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}}},
                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {}},
                "f:replicas": {},
            },
        });
        assert_eq!(set(fields.clone()).encode(), fields);
    }

    #[test]
    fn keys_have_one_form_whatever_the_order_of_their_fields() {
        let other = set(json!({"k:{\"protocol\":\"TCP\",\"containerPort\":80}": {}}));
        assert_eq!(other, set(json!({"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {}})));
        assert_eq!(other.paths(), [r#"[containerPort=80,protocol="TCP"]"#]);
    }

    #[test]
    fn unknown_element_kinds_are_ignored() {
        assert_eq!(set(json!({"x:what": {}, "f:a": {}, "": {}})), set(json!({"f:a": {}})));
    }

    #[test]
    fn difference_keeps_nested_fields_and_without_does_not() {
        let all = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let parent = set(json!({"f:a": {}}));
        assert_eq!(all.difference(&parent), set(json!({"f:a": {"f:b": {}}, "f:c": {}})));
        assert_eq!(all.without(&parent), set(json!({"f:c": {}})));
        assert!(all.difference(&all).is_empty());
    }

    #[test]
    fn union_and_intersection_count_members_one_by_one() {
        let (one, two) = (set(json!({"f:a": {"f:b": {}}})), set(json!({"f:a": {}, "f:c": {}})));
        assert_eq!(one.union(&two), set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}})));
        assert!(one.intersection(&two).is_empty());
        assert_eq!(one.intersection(&one.union(&two)), one);
    }

    #[test]
    fn paths_of_one_level_come_before_those_below() {
        let set = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}, "f:d": {"v:\"x\"": {}}}));
        assert_eq!(set.paths(), [".a", ".c", ".a.b", ".d[=\"x\"]"]);
    }
}
