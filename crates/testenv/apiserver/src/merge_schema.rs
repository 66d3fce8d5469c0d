//! How the values of a field merge in server-side apply, as defined by the types of built-in kinds
//! or the schema of a custom kind.
//!
//! Server-side apply needs three rules: a map or struct merges field by field unless it is atomic,
//! a list merges item by item only if its items have an identity, and everything else is one value.
//! Values without a schema follow the defaults: maps merge and lists do not.
//!
//! [`builtin`] and [`custom`] implement the two sources. They refer back to this module, because a
//! field of one source may belong to the other (the metadata of a custom resource), or to neither.

mod builtin;
mod custom;

use serde_json::Value;

pub(crate) use self::builtin::BuiltInMergeSchema;
use self::custom::CustomMergeSchema;
use crate::schema::Schema;

/// The merge rules of one field, or of a whole object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MergeSchema<'a> {
    /// The value, and everything in it, has no schema.
    Open,
    /// A text field, such as `kind`.
    Text,
    /// A built-in type, or a field of one.
    BuiltIn(BuiltInMergeSchema),
    /// A node of the schema of a custom kind.
    Custom(CustomMergeSchema<'a>),
}

/// How a value merges with another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As a whole.
    Leaf,
    /// Field by field.
    Map,
    /// A list whose items are identified by their values.
    Set,
    /// A list whose items are identified by some of their fields.
    Keyed,
}

/// The expected type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Map,
    List,
    Number,
    Text,
    Flag,
    /// A number, text or flag.
    Scalar,
    /// Any type.
    Any,
}

/// A field of a map or struct.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) place: MergeSchema<'a>,
    /// Whether the field has a name in the schema: fields of structs do, entries of maps do not.
    pub(crate) named: bool,
}

/// A field that identifies the items of a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key<'a> {
    pub(crate) name: &'a str,
    /// The value of the field in items that do not have it.
    pub(crate) default: Option<Value>,
}

impl<'a> MergeSchema<'a> {
    /// Returns the rules of whole objects of a custom kind.
    pub(crate) fn of_schema(schema: &'a Schema) -> Self {
        Self::Custom(CustomMergeSchema::root(schema.root()))
    }

    /// Returns how `value` merges here. Null merges as the expected type does.
    pub(crate) fn form(&self, value: &Value) -> Form {
        match self {
            Self::Open if value.is_object() || value.is_null() => Form::Map,
            Self::Open | Self::Text => Form::Leaf,
            Self::BuiltIn(place) => place.form(value),
            Self::Custom(place) => place.form(value),
        }
    }

    /// Returns the expected type.
    pub(crate) fn expected(&self) -> Expected {
        match self {
            Self::Open => Expected::Any,
            Self::Text => Expected::Text,
            Self::BuiltIn(place) => place.expected(),
            Self::Custom(place) => place.expected(),
        }
    }

    /// Returns the rules of a field, or `None` if there can be no field of that name.
    pub(crate) fn field(&self, name: &str) -> Option<Field<'a>> {
        match self {
            Self::Open => Some(Field { place: Self::Open, named: false }),
            Self::Text => None,
            Self::BuiltIn(place) => place.field(name),
            Self::Custom(place) => place.field(name),
        }
    }

    /// Like [`Self::field`], for stored objects: a field that the current schema does not declare
    /// has no schema.
    pub(crate) fn field_or_open(&self, name: &str) -> Field<'a> {
        self.field(name).unwrap_or(Field { place: Self::Open, named: false })
    }

    /// Returns the rules of the items of a list.
    pub(crate) fn item(&self) -> MergeSchema<'a> {
        match self {
            Self::Open | Self::Text => Self::Open,
            Self::BuiltIn(place) => place.item(),
            Self::Custom(place) => place.item(),
        }
    }

    /// Returns the fields that identify the items of a list; empty if the values do.
    pub(crate) fn keys(&self) -> Vec<Key<'a>> {
        match self {
            Self::Open | Self::Text => Vec::new(),
            Self::BuiltIn(place) => place.keys(),
            Self::Custom(place) => place.keys(),
        }
    }
}
