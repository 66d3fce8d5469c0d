//! How the fields of built-in kinds merge in strategic merge patches, with the real server's errors
//! for unknown fields.

use crate::kind::Kind;
use crate::kinds::shape::table::{Field, PatchMarkers, Shape, TABLE, Table, Type};

/// A place in a built-in type that a strategic merge patch has reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct PatchPlace(Of);

/// The type at a place.
#[derive(Clone, Copy, Debug)]
enum Of {
    Type(&'static Type),
    Shape(&'static Shape),
}

impl PatchPlace {
    /// Whole objects of a kind in one of its versions.
    pub(super) fn of_kind(kind: &Kind, version: &str) -> Option<Self> {
        Self::of(&kind.api_version(version), &kind.kind)
    }

    /// Returns the place of whole objects by the names of their type, such as `autoscaling/v1` and
    /// `Scale`.
    pub(super) fn of(version: &str, kind: &str) -> Option<Self> {
        let table: &'static Table = &TABLE;
        Some(Self(Of::Type(table.get(table.kind(version, kind)?))))
    }

    /// Returns the place of a field that holds a map, and how it merges.
    ///
    /// # Errors
    /// Returns an error if the field is unknown.
    pub(super) fn map(self, name: &str) -> Result<(Self, PatchMarkers), String> {
        let field = self.field(name)?;
        Ok((Self::new(&field.shape), field.patching))
    }

    /// Returns the place of the items of a list field, and how the list merges.
    ///
    /// # Errors
    /// Returns an error if the field is unknown or is no list.
    pub(super) fn list(self, name: &str) -> Result<(Self, PatchMarkers), String> {
        let field = self.field(name)?;
        match &field.shape {
            Shape::List(_, items) => Ok((Self::new(items), field.patching)),
            // Go names the type that contains the field, not that of the field.
            _ => Err(format!("expected slice or array type, but got: {}", self.go_kind())),
        }
    }

    /// Returns the `reflect.Kind` of the place.
    pub(super) fn go_kind(self) -> &'static str {
        match self.0 {
            Of::Type(_) => "struct",
            Of::Shape(shape) => shape.go_kind(),
        }
    }

    fn field(self, name: &str) -> Result<&'static Field, String> {
        let of = match self.0 {
            Of::Type(of) => of,
            // Untyped values are structs without JSON fields. The only one that a patch can reach
            // into is the data of a controller revision.
            Of::Shape(Shape::Any) => return Err(not_found("RawExtension", name)),
            Of::Shape(shape) => {
                return Err(format!(
                    "merging an object in json but data type is not struct, instead is: {}",
                    shape.go_kind()
                ));
            }
        };
        let alike = || of.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        of.field(name).or_else(alike).ok_or_else(|| not_found(of.struct_name(), name))
    }

    fn new(shape: &'static Shape) -> Self {
        let table: &'static Table = &TABLE;
        match shape {
            Shape::Struct(name) => Self(Of::Type(table.get(name))),
            shape => Self(Of::Shape(shape)),
        }
    }
}

fn not_found(of: &str, name: &str) -> String {
    format!("unable to find api field in struct {of} for the json field {name:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Origin, Verbs};
    use crate::kinds::builtin;

    #[test]
    fn every_kind_that_can_be_patched_has_a_place() {
        for kind in builtin() {
            assert_eq!(kind.origin, Origin::BuiltIn);
            for version in &kind.versions {
                let place = PatchPlace::of_kind(&kind, &version.name);
                assert!(place.is_some() || kind.rules.verbs == Verbs::CreateOnly, "{}", kind.kind);
            }
        }
        assert!(PatchPlace::of("autoscaling/v1", "Scale").is_some());
    }

    #[test]
    fn fields_are_found_as_go_finds_them() {
        let pod = PatchPlace::of("v1", "Pod").expect("pods are built in");
        let (spec, _) = pod.map("spec").expect("a pod has a spec");
        let (container, patching) = spec.list("containers").expect("a spec has containers");
        assert_eq!((patching.strategy, patching.key), ("merge", "name"));
        assert_eq!(container.go_kind(), "struct");
        assert!(spec.list("Containers").is_ok(), "capital and small letters are the same here");
        let (_, patching) = spec.list("volumes").expect("a spec has volumes");
        assert_eq!((patching.strategy, patching.key), ("merge", "name"));
        assert_eq!(
            spec.list("bogus").err().as_deref(),
            Some("unable to find api field in struct PodSpec for the json field \"bogus\"")
        );
        assert_eq!(
            spec.list("hostname").err().as_deref(),
            Some("expected slice or array type, but got: struct")
        );
        let (selector, _) = spec.map("nodeSelector").expect("a spec has a node selector");
        assert_eq!(
            selector.map("x").err().as_deref(),
            Some("merging an object in json but data type is not struct, instead is: map")
        );
    }
}
