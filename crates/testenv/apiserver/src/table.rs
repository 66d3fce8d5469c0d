//! Tables: objects as rows of cells, which `kubectl get` requests and prints.
//!
//! A client asks for the form `as=Table` in its `Accept` header ([`crate::accept`]). The query
//! parameter `includeObject` says how much of an object is sent with its row. Otherwise a table is
//! a form like any other: [`crate::object::Encoding`] writes objects with a [`TableWriter`], alone,
//! in lists and in watches. A [`Printer`] has the columns: those of [`builtin`] kinds are in this
//! crate, those of [`custom`] kinds in their definition. Ages are relative to the server's clock
//! when a row is written.
//!
//! Invariant: a row has as many cells as the table has columns, even if the object lacks fields.

mod age;
mod builtin;
mod cells;
mod column;
pub(crate) mod custom;
mod jsonpath;

use serde_json::{Value, json};

use self::age::Now;
use self::builtin::BuiltIn;
use self::custom::CustomColumns;
use crate::clock::WallClock;
use crate::failure::Failure;
use crate::kind::{Kind, Version};

/// The form of table that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TableForm {
    pub(crate) version: TableVersion,
    pub(crate) include: Include,
}

/// The versions of tables. They look the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TableVersion {
    V1,
    V1Beta1,
}

/// `includeObject`: the part of the object that is sent with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

/// The source of a kind's columns and cells.
#[derive(Debug, Clone)]
enum Printer {
    BuiltIn(&'static BuiltIn),
    Custom(CustomColumns),
}

/// Writes tables of the objects of one kind.
#[derive(Debug, Clone)]
pub(crate) struct TableWriter {
    version: TableVersion,
    printer: Printer,
    clock: WallClock,
    /// `kind` and `apiVersion` of the objects, which are stored without them. Only columns of
    /// custom kinds can show them.
    type_meta: Option<(String, String)>,
    /// Whether to write the column definitions: in a watch only the first table has them.
    with_columns: bool,
}

impl TableVersion {
    pub(crate) fn of(version: &str) -> Option<Self> {
        match version {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

impl Include {
    /// Parses the parameter. An empty one means metadata.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "None" => Ok(Self::None),
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            other => Err(Failure::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                 must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

impl Printer {
    fn of(kind: &Kind, version: &Version) -> Self {
        match &version.columns {
            Some(columns) => Self::Custom(columns.clone()),
            None => Self::BuiltIn(builtin::of(&kind.group, &kind.plural)),
        }
    }

    fn of_scale(kind: &Kind) -> Self {
        if kind.is_builtin() {
            Self::BuiltIn(&builtin::SCALE)
        } else {
            Self::Custom(CustomColumns::of_scale())
        }
    }

    fn definitions(&self) -> Value {
        match self {
            Self::BuiltIn(builtin) => {
                builtin.columns.iter().map(|column| column.definition()).collect()
            }
            Self::Custom(columns) => columns.definitions().into(),
        }
    }

    fn cells(&self, object: &Value, now: Now) -> Value {
        match self {
            Self::BuiltIn(builtin) => (builtin.cells)(object, now),
            Self::Custom(columns) => columns.cells(object, now),
        }
    }

    /// Returns the conditions of a row, or null.
    fn conditions(&self, object: &Value) -> Value {
        match self {
            Self::BuiltIn(builtin) => (builtin.conditions)(object),
            Self::Custom(_) => Value::Null,
        }
    }
}

impl TableWriter {
    pub(crate) fn new(
        version: TableVersion,
        clock: WallClock,
        kind: &Kind,
        of: &Version,
        subresource: &str,
    ) -> Self {
        let is_scale = subresource == "scale";
        let printer = if is_scale { Printer::of_scale(kind) } else { Printer::of(kind, of) };
        let shows_type_meta = !is_scale && !kind.is_builtin();
        let type_meta = shows_type_meta.then(|| (kind.kind.clone(), kind.api_version(&of.name)));
        Self { version, printer, clock, type_meta, with_columns: true }
    }

    /// Leaves out the column definitions of all tables from now on.
    pub(crate) fn omit_columns(&mut self) {
        self.with_columns = false;
    }

    /// Appends everything before the rows.
    pub(crate) fn write_head(&self, metadata: &Value, out: &mut Vec<u8>) {
        let api_version = self.version.api_version();
        let columns = if self.with_columns { self.printer.definitions() } else { Value::Null };
        let head = format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\
             \"columnDefinitions\":{columns},\"rows\":"
        );
        out.extend_from_slice(head.as_bytes());
    }

    /// Whether an empty list has `"rows": null`, as the real server writes it for kinds without
    /// columns of their own, instead of `"rows": []`.
    pub(crate) fn has_null_for_no_rows(&self) -> bool {
        matches!(&self.printer, Printer::BuiltIn(builtin) if builtin.null_for_no_rows)
    }

    /// Appends the row of an object. `write_object` appends the object that is sent with it.
    pub(crate) fn write_row(
        &self,
        mut object: Value,
        out: &mut Vec<u8>,
        write_object: impl FnOnce(&mut Vec<u8>),
    ) {
        if let Some((kind, api_version)) = &self.type_meta {
            object["kind"] = kind.as_str().into();
            object["apiVersion"] = api_version.as_str().into();
        }
        let cells = self.printer.cells(&object, Now(self.clock.timestamp()));
        out.extend_from_slice(b"{\"cells\":");
        out.extend_from_slice(cells.to_string().as_bytes());
        let conditions = self.printer.conditions(&object);
        if !conditions.is_null() {
            out.extend_from_slice(format!(",\"conditions\":{conditions}").as_bytes());
        }
        out.extend_from_slice(b",\"object\":");
        write_object(out);
        out.push(b'}');
    }

    /// Appends a table with one row.
    pub(crate) fn write(
        &self,
        object: Value,
        out: &mut Vec<u8>,
        write_object: impl FnOnce(&mut Vec<u8>),
    ) {
        let version = &object["metadata"]["resourceVersion"];
        let metadata =
            if version.is_null() { json!({}) } else { json!({ "resourceVersion": version }) };
        self.write_head(&metadata, out);
        out.push(b'[');
        self.write_row(object, out, write_object);
        out.extend_from_slice(b"]}");
    }
}
