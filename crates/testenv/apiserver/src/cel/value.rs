//! Values of expressions.
//!
//! Durations, timestamps and the types of the Kubernetes libraries are values of the `cel` crate,
//! because its functions work on them. Everything else has a type of its own: maps are ordered, so
//! that a rule always produces the same message, and lists know whether their order matters.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel;
use kube_cel::cel::objects::OptionalValue;
use serde_json::Value as Json;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Val {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Arc<List>),
    Map(Arc<BTreeMap<Key, Val>>),
    Object(Arc<Object>),
    Optional(Option<Box<Val>>),
    /// A type, by its name.
    Type(Arc<str>),
    /// A value of a library.
    Foreign(cel::Value),
}

/// A list, and how its items are identified.
#[derive(Debug)]
pub(super) struct List {
    pub(super) items: Vec<Val>,
    pub(super) order: Order,
}

/// Whether the order of a list matters when lists are compared and added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Ordered,
    /// The list is a set.
    Set,
    /// The list is keyed by these fields.
    Keyed(Arc<[String]>),
}

/// An object with a schema.
#[derive(Debug, Default)]
pub(super) struct Object {
    /// The fields that expressions see, by their names there.
    pub(super) fields: BTreeMap<String, Val>,
    /// The fields that the schema does not describe. They are only used to compare objects.
    pub(super) hidden: BTreeMap<String, Json>,
}

/// The key of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Arc<str>),
}

impl Key {
    /// Returns the value as a key. Equal numbers are the same key.
    pub(super) fn new(value: &Val) -> Option<Self> {
        Some(match value {
            Val::Bool(flag) => Self::Bool(*flag),
            Val::Int(number) => Self::Int(*number),
            Val::Uint(number) => i64::try_from(*number).map_or(Self::Uint(*number), Self::Int),
            Val::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                #[allow(clippy::cast_possible_truncation)] // whole and small enough
                Self::Int(*number as i64)
            }
            Val::String(text) => Self::String(text.clone()),
            _ => return None,
        })
    }

    pub(super) fn value(&self) -> Val {
        match self {
            Self::Bool(flag) => Val::Bool(*flag),
            Self::Int(number) => Val::Int(*number),
            Self::Uint(number) => Val::Uint(*number),
            Self::String(text) => Val::String(text.clone()),
        }
    }
}

impl Val {
    pub(super) fn text(text: &str) -> Self {
        Self::String(text.into())
    }

    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(List { items, order: Order::Ordered }))
    }

    /// Returns the number of characters, bytes, items or fields, and one for everything else.
    pub(super) fn size(&self) -> u64 {
        let size = match self {
            Self::String(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.items.len(),
            Self::Map(map) => map.len(),
            Self::Object(object) => object.fields.len() + object.hidden.len(),
            Self::Optional(Some(value)) => return value.size(),
            _ => 1,
        };
        size as u64
    }

    /// Whether `optional.ofNonZeroValue` treats the value as zero.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(flag) => !flag,
            Self::Int(number) => *number == 0,
            Self::Uint(number) => *number == 0,
            Self::Double(number) => *number == 0.0,
            Self::String(_) | Self::Bytes(_) | Self::List(_) | Self::Map(_) | Self::Object(_) => {
                self.size() == 0
            }
            Self::Optional(value) => value.is_none(),
            Self::Foreign(value) => value.is_zero(),
            Self::Type(_) => false,
        }
    }

    /// Whether two values are equal. Numbers of different types are compared by value.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) | (Self::Optional(None), Self::Optional(None)) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) | (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::List(a), Self::List(b)) => a.equals(b),
            (Self::Map(a), Self::Map(b)) => {
                a.len() == b.len()
                    && a.iter().all(|(key, value)| b.get(key).is_some_and(|one| value.equals(one)))
            }
            (Self::Object(a), Self::Object(b)) => a.equals(b),
            (Self::Optional(Some(a)), Self::Optional(Some(b))) => a.equals(b),
            (Self::Foreign(a), Self::Foreign(b)) => a == b,
            _ => self.compare(other) == Some(Ordering::Equal),
        }
    }

    /// Compares two values, if they are ordered.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Uint(a), Self::Uint(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Uint(a), Self::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Double(a), Self::Int(b)) => compare_double(*a, i128::from(*b)),
            (Self::Double(a), Self::Uint(b)) => compare_double(*a, i128::from(*b)),
            (Self::Int(a), Self::Double(b)) => {
                compare_double(*b, i128::from(*a)).map(Ordering::reverse)
            }
            (Self::Uint(a), Self::Double(b)) => {
                compare_double(*b, i128::from(*a)).map(Ordering::reverse)
            }
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Foreign(a), Self::Foreign(b)) => a.partial_cmp(b),
            _ => None,
        }
    }

    /// Returns the name of the value's type, as `type()` does.
    pub(super) fn type_name(&self) -> String {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) | Self::Object(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Foreign(cel::Value::Duration(_)) => "google.protobuf.Duration",
            Self::Foreign(cel::Value::Timestamp(_)) => "google.protobuf.Timestamp",
            Self::Foreign(cel::Value::Opaque(value)) => {
                return value.runtime_type_name().to_owned();
            }
            Self::Foreign(_) => "dyn",
        }
        .to_owned()
    }

    /// Converts the value for the functions of the `cel` crate.
    pub(super) fn to_cel(&self) -> cel::Value {
        match self {
            Self::Null => cel::Value::Null,
            Self::Bool(flag) => cel::Value::Bool(*flag),
            Self::Int(number) => cel::Value::Int(*number),
            Self::Uint(number) => cel::Value::UInt(*number),
            Self::Double(number) => cel::Value::Float(*number),
            Self::String(text) | Self::Type(text) => cel::Value::String(Arc::new(text.to_string())),
            Self::Bytes(bytes) => cel::Value::Bytes(Arc::new(bytes.to_vec())),
            Self::List(list) => {
                cel::Value::List(Arc::new(list.items.iter().map(Self::to_cel).collect()))
            }
            Self::Map(map) => {
                let entries = map.iter().map(|(key, value)| (key.to_cel(), value.to_cel()));
                cel::Value::Map(entries.collect::<std::collections::HashMap<_, _>>().into())
            }
            Self::Object(object) => {
                let fields = object.fields.iter().map(|(key, value)| (key.clone(), value.to_cel()));
                cel::Value::Map(fields.collect::<std::collections::HashMap<_, _>>().into())
            }
            Self::Optional(None) => cel::Value::Opaque(Arc::new(OptionalValue::none())),
            Self::Optional(Some(value)) => {
                cel::Value::Opaque(Arc::new(OptionalValue::of(value.to_cel())))
            }
            Self::Foreign(value) => value.clone(),
        }
    }

    /// Converts a result of the `cel` crate.
    pub(super) fn from_cel(value: &cel::Value) -> Self {
        match value {
            cel::Value::Null => Self::Null,
            cel::Value::Bool(flag) => Self::Bool(*flag),
            cel::Value::Int(number) => Self::Int(*number),
            cel::Value::UInt(number) => Self::Uint(*number),
            cel::Value::Float(number) => Self::Double(*number),
            cel::Value::String(text) => Self::text(text),
            cel::Value::Bytes(bytes) => Self::Bytes(bytes.as_slice().into()),
            cel::Value::List(items) => Self::list(items.iter().map(Self::from_cel).collect()),
            cel::Value::Map(map) => {
                let entries = map.map.iter();
                let entries =
                    entries.map(|(key, value)| (Key::from_cel(key), Self::from_cel(value)));
                Self::Map(Arc::new(entries.collect()))
            }
            other => match <&OptionalValue>::try_from(other) {
                Ok(optional) => {
                    Self::Optional(optional.value().map(|value| Box::new(Self::from_cel(value))))
                }
                Err(_) => Self::Foreign(other.clone()),
            },
        }
    }
}

impl Key {
    fn to_cel(&self) -> cel::objects::Key {
        match self {
            Self::Bool(flag) => (*flag).into(),
            Self::Int(number) => (*number).into(),
            Self::Uint(number) => (*number).into(),
            Self::String(text) => (&**text).into(),
        }
    }

    fn from_cel(key: &cel::objects::Key) -> Self {
        match key {
            cel::objects::Key::Bool(flag) => Self::Bool(*flag),
            cel::objects::Key::Int(number) => Self::Int(*number),
            cel::objects::Key::Uint(number) => Self::Uint(*number),
            cel::objects::Key::String(text) => Self::String(text.as_str().into()),
        }
    }
}

impl Object {
    fn equals(&self, other: &Self) -> bool {
        let size = |object: &Self| object.fields.len() + object.hidden.len();
        size(self) == size(other)
            && self
                .fields
                .iter()
                .all(|(name, value)| other.fields.get(name).is_some_and(|one| value.equals(one)))
            && self.hidden.iter().all(|(name, value)| other.hidden.get(name) == Some(value))
    }
}

/// Compares exactly: not every 64-bit integer is a double.
fn compare_double(double: f64, whole: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() >= 1e30 {
        return Some(if double > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    #[allow(clippy::cast_possible_truncation)] // far below the bounds of the type
    let floor = double.floor() as i128;
    Some(floor.cmp(&whole).then(if double.fract() == 0.0 {
        Ordering::Equal
    } else {
        Ordering::Greater
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_value() {
        assert!(Val::Int(1).equals(&Val::Double(1.0)));
        assert!(Val::Uint(1).equals(&Val::Int(1)));
        assert_eq!(Val::Int(-1).compare(&Val::Uint(1)), Some(Ordering::Less));
        assert_eq!(Val::Double(1.5).compare(&Val::Int(1)), Some(Ordering::Greater));
        assert_eq!(Val::Double(-1.5).compare(&Val::Int(-1)), Some(Ordering::Less));
        assert_eq!(Val::Int(2).compare(&Val::Double(1e300)), Some(Ordering::Less));
        assert_eq!(Val::Int(2).compare(&Val::Double(f64::NAN)), None);
    }

    #[test]
    fn order_of_a_set_does_not_matter() {
        let list = |order: Order, items: &[i64]| {
            let items = items.iter().map(|item| Val::Int(*item)).collect();
            Val::List(Arc::new(List { items, order }))
        };
        assert!(list(Order::Set, &[1, 2]).equals(&list(Order::Set, &[2, 1])));
        assert!(!list(Order::Ordered, &[1, 2]).equals(&list(Order::Ordered, &[2, 1])));
        assert!(!list(Order::Set, &[1, 2]).equals(&list(Order::Set, &[2, 3])));
    }

    #[test]
    fn items_with_equal_keys_are_merged() {
        let item = |name: &str, size: Option<i64>| {
            let name = Some(("name".to_owned(), Val::text(name)));
            let size = size.map(|size| ("size".to_owned(), Val::Int(size)));
            let fields = name.into_iter().chain(size).collect();
            Val::Object(Arc::new(Object { fields, hidden: BTreeMap::new() }))
        };
        let keys: Arc<[String]> = ["name".to_owned(), "zone".to_owned()].into();
        let list = |items: Vec<Val>| List { items, order: Order::Keyed(keys.clone()) };
        let both = list(vec![item("a", Some(1)), item("b", None)]);
        assert!(both.equals(&list(vec![item("b", None), item("a", Some(1))])));
        assert!(!both.equals(&list(vec![item("b", None), item("a", Some(2))])));
        assert!(!both.equals(&list(vec![item("b", None), item("c", Some(1))])));
        let merged = both.with(&list(vec![item("c", None), item("a", Some(2))]));
        assert!(merged.equals(&list(vec![item("a", Some(2)), item("b", None), item("c", None)])));
        assert_eq!(merged.items.len(), 3);
    }

    #[test]
    fn large_sets_are_compared_and_merged_in_linear_time() {
        // A quadratic algorithm would need ten billion comparisons, and the test would not end.
        let set = |items: &mut dyn Iterator<Item = i64>| {
            let items = items.map(Val::Int).collect();
            List { items, order: Order::Set }
        };
        let (up, down) = (set(&mut (0..100_000)), set(&mut (0..100_000).rev()));
        assert!(up.equals(&down));
        assert_eq!(up.with(&down).items.len(), 100_000);
    }
}
