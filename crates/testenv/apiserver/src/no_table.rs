//! Replaces tables if the feature `kubectl` is off: no client gets one.
//!
//! [`TableVersion`] has no variants, so code for tables compiles but can never run.

use serde_json::Value;

use crate::clock::WallClock;
use crate::failure::Failure;
use crate::kind::{Kind, Version};

/// The form of table that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TableForm {
    pub(crate) version: TableVersion,
    pub(crate) include: Include,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TableVersion {}

/// The part of the object that is sent with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Include {
    None,
    #[default]
    Object,
}

/// Writes tables of the objects of one kind.
// Not an enum without variants: the compiler would warn about unreachable code where it is used.
#[derive(Debug, Clone)]
pub(crate) struct TableWriter(TableVersion);

pub(crate) mod custom {
    use serde_json::Value;

    /// The columns of one version of a custom kind. Nothing shows them.
    #[derive(Debug, Clone)]
    pub(crate) struct CustomColumns;

    impl CustomColumns {
        pub(crate) fn of(_: &Value) -> Self {
            Self
        }
    }
}

impl TableVersion {
    pub(crate) fn of(_: &str) -> Option<Self> {
        None
    }

    pub(crate) fn api_version(self) -> &'static str {
        match self {}
    }
}

impl Include {
    pub(crate) fn parse(_: &str) -> Result<Self, Failure> {
        Ok(Self::Object)
    }
}

impl TableWriter {
    pub(crate) fn new(version: TableVersion, _: WallClock, _: &Kind, _: &Version, _: &str) -> Self {
        match version {}
    }

    pub(crate) fn omit_columns(&mut self) {
        match self.0 {}
    }

    pub(crate) fn write_head(&self, _: &Value, _: &mut Vec<u8>) {
        match self.0 {}
    }

    pub(crate) fn has_null_for_no_rows(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn write_row(&self, _: Value, _: &mut Vec<u8>, _: impl FnOnce(&mut Vec<u8>)) {
        match self.0 {}
    }

    pub(crate) fn write(&self, _: Value, _: &mut Vec<u8>, _: impl FnOnce(&mut Vec<u8>)) {
        match self.0 {}
    }
}
