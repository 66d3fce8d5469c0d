//! A column of a built-in kind's table: name and type.

use serde_json::{Value, json};

/// A column definition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    /// A type of JSON Schema, or `date`.
    value_type: &'static str,
    /// `name` for the column with the name of the object.
    format: &'static str,
    /// Columns with a priority above zero are only shown by `kubectl get -o wide`.
    priority: i64,
}

/// The name of the object.
pub(super) const NAME: Column = NAME_WITHOUT_FORMAT.with_format("name");

/// The name of the object, in the table of a scale.
pub(super) const NAME_WITHOUT_FORMAT: Column = text("Name");

/// The age of the object.
pub(super) const AGE: Column = text("Age");

/// The age of a custom object.
pub(super) const AGE_AS_DATE: Column = Column::fixed("Age", "date");

/// The creation time of the object, for kinds without columns of their own.
pub(super) const CREATED_AT: Column = Column::fixed("Created At", "date");

/// The containers of a pod template.
pub(super) const CONTAINERS: Column = text("Containers");

/// The images of a pod template.
pub(super) const IMAGES: Column = text("Images");

pub(super) const fn text(name: &'static str) -> Column {
    Column::fixed(name, "string")
}

pub(super) const fn integer(name: &'static str) -> Column {
    Column::fixed(name, "integer")
}

pub(super) const fn boolean(name: &'static str) -> Column {
    Column::fixed(name, "boolean")
}

impl Column {
    const fn fixed(name: &'static str, value_type: &'static str) -> Self {
        Self { name, value_type, format: "", priority: 0 }
    }

    /// Returns the column as one that is only shown in wide output.
    pub(super) const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    const fn with_format(mut self, format: &'static str) -> Self {
        self.format = format;
        self
    }

    /// Returns the column in the form of `columnDefinitions`.
    pub(super) fn definition(self) -> Value {
        json!({
            "name": self.name,
            "type": self.value_type,
            "format": self.format,
            // The documentation of the field on the real server. No client prints it.
            "description": "",
            "priority": self.priority,
        })
    }
}
