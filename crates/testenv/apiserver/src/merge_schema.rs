//! How the values of a field merge in server-side apply, as the types of built-in kinds or the
//! schema of a custom one say.
//!
//! Server-side apply tells fields apart by this: a map or struct is merged field by field unless it
//! is atomic, a list only if its items can be told apart, and everything else is one value. Where
//! nothing is said, maps merge and lists do not.
//!
//! [`builtin`] and [`custom`] answer for the two sources. They lead back here: a field of one may
//! be of the other, as the metadata of a custom resource, or of nothing.

mod builtin;
mod custom;

use serde_json::Value;

pub(crate) use self::builtin::BuiltInMergeSchema;
use self::custom::CustomMergeSchema;
use crate::schema::Schema;

/// How the values of one field, or of a whole object, merge.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MergeSchema<'a> {
    /// Nothing is said about it, nor about what is in it.
    Open,
    /// A text, such as `kind`.
    Text,
    /// A type of Kubernetes, or a field of one.
    BuiltIn(BuiltInMergeSchema),
    /// A node of the schema of a custom kind.
    Custom(CustomMergeSchema<'a>),
}

/// How a value merges with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As a whole.
    Leaf,
    /// Field by field.
    Map,
    /// Items that are told apart by their values.
    Set,
    /// Items that are told apart by some of their fields.
    Keyed,
}

/// What is said about the type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Map,
    List,
    Number,
    Text,
    Flag,
    /// Any of the last three.
    Scalar,
    /// Anything at all.
    Any,
}

/// A field of a map or struct.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) place: MergeSchema<'a>,
    /// Whether it is known by its name, as fields of structs are and entries of maps are not.
    pub(crate) named: bool,
}

/// A field that tells the items of a list apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key<'a> {
    pub(crate) name: &'a str,
    /// What it is where an item leaves it out.
    pub(crate) default: Option<Value>,
}

impl<'a> MergeSchema<'a> {
    /// Whole objects of a custom kind.
    pub(crate) fn of_schema(schema: &'a Schema) -> Self {
        Self::Custom(CustomMergeSchema::root(schema.root()))
    }

    /// How a value merges here. Null merges as whatever is expected here.
    pub(crate) fn form(&self, value: &Value) -> Form {
        match self {
            Self::Open if value.is_object() || value.is_null() => Form::Map,
            Self::Open | Self::Text => Form::Leaf,
            Self::BuiltIn(place) => place.form(value),
            Self::Custom(place) => place.form(value),
        }
    }

    /// What a value has to be here.
    pub(crate) fn expected(&self) -> Expected {
        match self {
            Self::Open => Expected::Any,
            Self::Text => Expected::Text,
            Self::BuiltIn(place) => place.expected(),
            Self::Custom(place) => place.expected(),
        }
    }

    /// A field of what is here; `None` if there can be none of that name.
    pub(crate) fn field(&self, name: &str) -> Option<Field<'a>> {
        match self {
            Self::Open => Some(Field { place: Self::Open, named: false }),
            Self::Text => None,
            Self::BuiltIn(place) => place.field(name),
            Self::Custom(place) => place.field(name),
        }
    }

    /// The same for what is already there, which may be of an older schema.
    pub(crate) fn field_or_open(&self, name: &str) -> Field<'a> {
        self.field(name).unwrap_or(Field { place: Self::Open, named: false })
    }

    /// An item of the list that is here.
    pub(crate) fn item(&self) -> MergeSchema<'a> {
        match self {
            Self::Open | Self::Text => Self::Open,
            Self::BuiltIn(place) => place.item(),
            Self::Custom(place) => place.item(),
        }
    }

    /// The fields that tell the items of the list apart; none if their values do.
    pub(crate) fn keys(&self) -> Vec<Key<'a>> {
        match self {
            Self::Open | Self::Text => Vec::new(),
            Self::BuiltIn(place) => place.keys(),
            Self::Custom(place) => place.keys(),
        }
    }
}
