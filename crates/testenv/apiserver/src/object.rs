//! A stored object: compact JSON bytes, and the few properties that requests need without parsing
//! them.
//!
//! The bytes are the JSON object without its type meta and its opening brace, so that every form of
//! the object (alone, as an item of a list, inside a watch event, in another version, metadata
//! only) is a prefix followed by these bytes. `metadata` comes first, so metadata alone is a slice.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::kind::{Kind, Version};
use crate::kinds::Registered;
use crate::table::{Include, TableForm, TableWriter};

/// The annotation of the bookmark that ends the initial events of a watch.
pub(crate) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The key of an object: its namespace and name as one path. Keys are ordered as in etcd.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(Arc<str>);

impl Key {
    /// `namespace` is empty for cluster-scoped objects.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            Self(name.into())
        } else {
            Self(format!("{namespace}/{name}").into())
        }
    }

    /// Returns a bound for ranges; it is not the key of an object.
    pub(crate) fn bound(path: &str) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self) -> &str {
        &self.0
    }

    pub(crate) fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub(crate) fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

/// Labels, sorted by key.
pub(crate) type Labels = Box<[(Box<str>, Box<str>)]>;

/// An object at one revision.
pub(crate) struct Stored {
    pub(crate) revision: u64,
    pub(crate) labels: Labels,
    /// The values of the kind's selectable fields, in the order of [`Kind::selectable`].
    pub(crate) fields: Box<[Box<str>]>,
    /// The version that the object is stored in; `None` for built-in kinds.
    pub(crate) version: Option<Box<str>>,
    /// `"metadata":{…},"spec":…}`
    body: Bytes,
    /// The end of the value of `metadata` in `body`.
    metadata_end: usize,
}

/// Objects may be secrets: only their size is shown.
impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stored(revision {}, {} bytes)", self.revision, self.body.len())
    }
}

/// A form in which objects are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// The whole object.
    Full,
    /// `PartialObjectMetadata`.
    Metadata,
    /// A row of a `Table`.
    Table(TableForm),
}

/// How objects of one kind, version and form are written. It holds their type meta as a prefix.
#[derive(Debug, Clone)]
pub(crate) struct Encoding {
    pub(crate) form: Form,
    /// `{"kind":"ConfigMap","apiVersion":"v1",`
    prefix: Bytes,
    /// The prefix in lists: a bare brace for a built-in kind, whose items have no type meta;
    /// otherwise the same.
    item_prefix: Bytes,
    version: Version,
    type_meta: (String, String),
    /// Set if the form is a table.
    table: Option<TableWriter>,
}

impl Stored {
    /// Creates an object from its fields in this version, and sets its `metadata.resourceVersion`.
    pub(crate) fn new(
        mut object: Map<String, Value>,
        revision: u64,
        kind: &Registered,
        version: &str,
    ) -> Self {
        crate::fields::metadata_mut(&mut object)
            .insert("resourceVersion".into(), revision.to_string().into());
        Self::draft(object, revision, kind, version)
    }

    /// Returns the object with the revision of its removal, or of the change that removed it from a
    /// selection.
    pub(crate) fn at_revision(&self, revision: u64, kind: &Registered) -> Self {
        Self::new(self.value(), revision, kind, self.version.as_deref().unwrap_or_default())
    }

    /// Returns another object at the same revision and in the same version.
    pub(crate) fn changed(&self, object: Map<String, Value>, kind: &Registered) -> Self {
        Self::draft(object, self.revision, kind, self.version.as_deref().unwrap_or_default())
    }

    /// Returns the version of the object, if only a webhook can convert it to `wanted`.
    pub(crate) fn version_before(&self, kind: &Kind, wanted: &str) -> Option<&str> {
        let held = self.version.as_deref().filter(|held| *held != wanted);
        held.filter(|_| kind.conversion.is_some())
    }

    /// Returns whether the object is stored in the current storage version of its kind.
    pub(crate) fn is_in_storage_version(&self, kind: &Kind) -> bool {
        self.version.as_deref().is_none_or(|held| held == kind.storage().name)
    }

    /// Creates an object for an answer, without storing it. It keeps its
    /// `metadata.resourceVersion`.
    pub(crate) fn draft(
        mut object: Map<String, Value>,
        revision: u64,
        kind: &Registered,
        version: &str,
    ) -> Self {
        object.remove("apiVersion");
        object.remove("kind");
        let value = Value::Object(object);
        let labels = kind.selectable();
        let fields = labels.iter().map(|label| kind.field_value(&value, label).into()).collect();
        let Value::Object(mut object) = value else { unreachable!("an object was put in") };
        let metadata = object.remove("metadata").unwrap_or_default();

        let mut body = Vec::with_capacity(512);
        body.extend_from_slice(b"\"metadata\":");
        serde_json::to_writer(&mut body, &metadata).expect("a JSON value must serialise");
        let metadata_end = body.len();
        for (field, value) in &object {
            body.push(b',');
            serde_json::to_writer(&mut body, field).expect("a string must serialise");
            body.push(b':');
            serde_json::to_writer(&mut body, value).expect("a JSON value must serialise");
        }
        body.push(b'}');
        let version = (!kind.is_builtin()).then(|| version.into());
        let labels = labels_of(&metadata);
        Self { revision, labels, fields, version, body: body.into(), metadata_end }
    }

    /// Returns the object as a value, in the stored version, without type meta.
    pub(crate) fn value(&self) -> Map<String, Value> {
        let mut text = Vec::with_capacity(self.body.len() + 1);
        text.push(b'{');
        text.extend_from_slice(&self.body);
        // Stored objects were checked before; defaults may have made them a little deeper than a
        // body may be.
        let mut deserializer = serde_json::Deserializer::from_slice(&text);
        deserializer.disable_recursion_limit();
        Map::deserialize(&mut deserializer).expect("stored bytes must be a JSON object")
    }

    /// Returns the size of the stored bytes.
    pub(crate) fn size(&self) -> usize {
        self.body.len()
    }
}

impl Encoding {
    pub(crate) fn new(kind: &Kind, version: &Version, form: Form) -> Self {
        let partial = |version: &str| ("PartialObjectMetadata".to_owned(), version.to_owned());
        let (kind_name, api_version) = match form {
            Form::Full | Form::Table(TableForm { include: Include::Object, .. }) => {
                (kind.kind.clone(), kind.api_version(&version.name))
            }
            Form::Metadata => partial("meta.k8s.io/v1"),
            Form::Table(table) => partial(table.version.api_version()),
        };
        let prefix = format!("{{\"kind\":\"{kind_name}\",\"apiVersion\":\"{api_version}\",");
        let bare_items = form == Form::Full && kind.is_builtin();
        let item_prefix = if bare_items { "{".to_owned() } else { prefix.clone() };
        Self {
            form,
            prefix: prefix.into(),
            item_prefix: item_prefix.into(),
            version: version.clone(),
            type_meta: (kind_name, api_version),
            table: None,
        }
    }

    /// Returns the encoding with rows that `table` writes.
    #[must_use]
    pub(crate) fn with_table(mut self, table: TableWriter) -> Self {
        self.table = Some(table);
        self
    }

    /// Returns the name of the version in which objects are sent.
    pub(crate) fn version(&self) -> &str {
        &self.version.name
    }

    /// Returns the writer of the rows, if the form is a table.
    pub(crate) fn table(&self) -> Option<&TableWriter> {
        self.table.as_ref()
    }

    /// Omits the column definitions from all further tables.
    pub(crate) fn omit_columns(&mut self) {
        if let Some(table) = &mut self.table {
            table.omit_columns();
        }
    }

    /// Returns a value that is not stored, such as a scale, as a table, or `None` if the form is no
    /// table.
    pub(crate) fn table_of(&self, object: &Value) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.table()?.write(object.clone(), &mut out, |out| {
            let (kind, api_version) = self.type_meta();
            let metadata = &object["metadata"];
            // The annotation that ends the initial events is sent whatever `includeObject` says.
            let ends_initial = !metadata["annotations"][INITIAL_EVENTS_END].is_null();
            let included = match self.include() {
                Include::Object => object.clone(),
                Include::None if !ends_initial => Value::Null,
                _ => json!({"kind": kind, "apiVersion": api_version, "metadata": metadata}),
            };
            out.extend_from_slice(included.to_string().as_bytes());
        });
        Some(out)
    }

    /// Returns `kind` and `apiVersion` of the objects that are sent.
    pub(crate) fn type_meta(&self) -> (&str, &str) {
        (&self.type_meta.0, &self.type_meta.1)
    }

    /// Appends the object as it is sent alone or in an event.
    pub(crate) fn write(&self, object: &Stored, out: &mut Vec<u8>) {
        if let Some(table) = &self.table {
            let value = Value::Object(object.value());
            return table.write(value, out, |out| self.write_included(object, out));
        }
        out.extend_from_slice(&self.prefix);
        self.write_body(object, out);
    }

    /// Appends the object as an item of a list.
    pub(crate) fn write_item(&self, object: &Stored, out: &mut Vec<u8>) {
        if let Some(table) = &self.table {
            let value = Value::Object(object.value());
            return table.write_row(value, out, |out| self.write_included(object, out));
        }
        out.extend_from_slice(&self.item_prefix);
        self.write_body(object, out);
    }

    /// Appends the object that is included in its row, or null.
    fn write_included(&self, object: &Stored, out: &mut Vec<u8>) {
        if self.include() == Include::None {
            return out.extend_from_slice(b"null");
        }
        out.extend_from_slice(&self.prefix);
        self.write_body(object, out);
    }

    fn include(&self) -> Include {
        if let Form::Table(table) = self.form { table.include } else { Include::Object }
    }

    fn write_body(&self, object: &Stored, out: &mut Vec<u8>) {
        let is_whole = self.form != Form::Metadata && self.include() == Include::Object;
        if !is_whole {
            out.extend_from_slice(&object.body[..object.metadata_end]);
            out.push(b'}');
        } else if self.version.renames.is_empty() {
            out.extend_from_slice(&object.body);
        } else {
            let mut value = Value::Object(object.value());
            self.version.to_shown(&mut value);
            let text = serde_json::to_vec(&value).expect("a JSON value must serialise");
            out.extend_from_slice(&text[1..]);
        }
    }
}

fn labels_of(metadata: &Value) -> Labels {
    let Some(Value::Object(labels)) = metadata.get("labels") else { return Labels::default() };
    let mut labels: Vec<(Box<str>, Box<str>)> = labels
        .iter()
        .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
        .collect();
    labels.sort_unstable();
    labels.into()
}
