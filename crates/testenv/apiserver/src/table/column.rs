//! A column of a built-in kind's table: name, type and description.

use serde_json::{Value, json};

/// A column definition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    /// A type of JSON Schema, or `date`.
    value_type: &'static str,
    /// `name` for the column with the name of the object.
    format: &'static str,
    description: &'static str,
    /// Columns with a priority above zero are only shown by `kubectl get -o wide`.
    priority: i64,
}

const NAME_DOC: &str = "\
     Name must be unique within a namespace. Is required when creating resources, although some \
     resources may allow a client to request the generation of an appropriate name automatically. \
     Name is primarily intended for creation idempotence and configuration definition. Cannot be \
     updated. More info: \
     https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// The description of columns with the creation time or the age.
const CREATION_DOC: &str = "\
     CreationTimestamp is a timestamp representing the server time when this object was created. \
     It is not guaranteed to be set in happens-before order across separate operations. Clients \
     may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the \
     system. Read-only. Null for lists. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The name of the object.
pub(super) const NAME: Column = NAME_WITHOUT_FORMAT.with_format("name");

/// The name of the object, in the table of a scale.
pub(super) const NAME_WITHOUT_FORMAT: Column = text("Name", NAME_DOC);

/// The age of the object.
pub(super) const AGE: Column = text("Age", CREATION_DOC);

/// The age of a custom object.
pub(super) const AGE_AS_DATE: Column = Column::fixed("Age", "date", CREATION_DOC);

/// The creation time of the object, for kinds without columns of their own.
pub(super) const CREATED_AT: Column = Column::fixed("Created At", "date", CREATION_DOC);

/// The containers of a pod template.
pub(super) const CONTAINERS: Column =
    text("Containers", "Names of each container in the template.");

/// The images of a pod template.
pub(super) const IMAGES: Column =
    text("Images", "Images referenced by each container in the template.");

pub(super) const fn text(name: &'static str, description: &'static str) -> Column {
    Column::fixed(name, "string", description)
}

pub(super) const fn integer(name: &'static str, description: &'static str) -> Column {
    Column::fixed(name, "integer", description)
}

pub(super) const fn boolean(name: &'static str, description: &'static str) -> Column {
    Column::fixed(name, "boolean", description)
}

impl Column {
    const fn fixed(
        name: &'static str,
        value_type: &'static str,
        description: &'static str,
    ) -> Self {
        Self { name, value_type, format: "", description, priority: 0 }
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
            "description": self.description,
            "priority": self.priority,
        })
    }
}
