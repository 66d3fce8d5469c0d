//! The Go names of fields and types, read from the sources that the real server is built from.
//!
//! gofmt gives every file the same form: a type starts with `type` at the beginning of a line, and
//! a field of a struct is one line with its tag. This module parses nothing else.
//!
//! Types are named with the path of their package, as in `k8s.io/api/core/v1.PodSpec`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{crate_folder, output_of};

/// The Go module that builds the control plane; its `go.mod` pins all versions. The path is
/// relative to the crate.
const MODULE: &str = "../../../xtask/kube/control-plane";

/// Where the modules of Kubernetes are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Modules {
    /// In the versions that the control plane is built from.
    ControlPlane,
    /// All in one version, as in `v0.37.2`. They are downloaded if need be.
    Version(&'static str),
}

/// The sources of one release. Each package is read on first use.
#[derive(Debug)]
pub(super) struct Sources {
    modules: Modules,
    packages: BTreeMap<String, Package>,
}

/// The types of one package.
#[derive(Debug, Default)]
struct Package {
    structs: BTreeMap<String, Vec<Field>>,
    /// Other named types with their definitions.
    named: BTreeMap<String, String>,
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    go_name: String,
    go_type: String,
    /// Its name in JSON; `None` if its fields are inlined.
    json: Option<String>,
    /// When it is left out of JSON.
    omitted: Omitted,
    /// Its number in protobuf, if it has one.
    number: Option<u32>,
}

/// A field of a struct that has a number in protobuf.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) number: u32,
    /// Its name in Go, as in `ObjectMeta`.
    pub(super) go_name: String,
    /// Its name in JSON; `None` if its fields are inlined.
    pub(super) json: Option<String>,
    pub(super) is_pointer: bool,
    pub(super) omitted: Omitted,
}

/// When a field of a struct is left out of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Omitted {
    /// Never.
    Never,
    /// If it is empty, which a struct never is: `omitempty`.
    Empty,
    /// If it is zero, which a struct can be: `omitzero`.
    Zero,
}

/// The Go declaration of a field that has a name in JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The type of its value.
    pub(super) go_type: String,
    /// The path of embedded structs that lead to the field, joined by dots.
    pub(super) inline: String,
    /// When it is left out of JSON.
    pub(super) omitted: Omitted,
}

impl Sources {
    pub(super) fn new(modules: Modules) -> Self {
        Self { modules, packages: BTreeMap::new() }
    }

    /// Returns the folder of a package, as in `k8s.io/api/core/v1`.
    ///
    /// # Errors
    /// If Go cannot find or download its module.
    pub(super) fn folder(&self, path: &str) -> Result<PathBuf> {
        self.modules.folder(path)
    }

    /// Returns the names of the structs of a package that are kinds: those with a `TypeMeta`.
    ///
    /// # Errors
    /// If the package cannot be read.
    pub(super) fn kinds(&mut self, path: &str) -> Result<Vec<String>> {
        let structs = self.package(path)?.structs.iter();
        let is_kind = |fields: &[Field]| {
            fields.iter().any(|field| field.go_name == "TypeMeta" && field.json.is_none())
        };
        Ok(structs.filter(|(_, fields)| is_kind(fields)).map(|(name, _)| name.clone()).collect())
    }

    /// Returns a field of a struct by its name in JSON.
    ///
    /// # Errors
    /// If there is no such struct or field.
    pub(super) fn field(&mut self, go_type: &str, json: &str) -> Result<Found> {
        self.find(go_type, json)?
            .with_context(|| format!("{go_type} has no field for {json:?} in Go's sources"))
    }

    /// Returns the definition of a named type, as in `map[string]string`, or `None` for a struct.
    ///
    /// # Errors
    /// If its package cannot be read.
    pub(super) fn definition(&mut self, go_type: &str) -> Result<Option<String>> {
        let Some((path, name)) = split(go_type) else { return Ok(None) };
        Ok(self.package(path)?.named.get(name).cloned())
    }

    /// Returns the fields of a struct that have a number in protobuf, or `None` if the type is not
    /// a struct.
    ///
    /// # Errors
    /// If its package cannot be read.
    pub(super) fn numbered(&mut self, go_type: &str) -> Result<Option<Vec<Numbered>>> {
        let Some((path, name)) = split(go_type) else { return Ok(None) };
        let package = self.package(path)?;
        let Some(fields) = package.structs.get(name) else {
            // A type may be defined as another struct.
            let other = package.named.get(name).filter(|other| split(other).is_some()).cloned();
            return other.map_or(Ok(None), |other| self.numbered(&other));
        };
        let numbered = fields.iter().filter_map(|field| {
            Some(Numbered {
                number: field.number?,
                go_name: field.go_name.clone(),
                json: field.json.clone(),
                is_pointer: field.go_type.starts_with('*'),
                omitted: field.omitted,
            })
        });
        Ok(Some(numbered.collect()))
    }

    fn find(&mut self, go_type: &str, json: &str) -> Result<Option<Found>> {
        let (path, name) =
            split(go_type).with_context(|| format!("{go_type} is not a type of a package"))?;
        let fields = self.package(path)?.structs.get(name).cloned();
        let fields =
            fields.with_context(|| format!("{go_type} is not a struct in Go's sources"))?;
        if let Some(field) = fields.iter().find(|field| field.json.as_deref() == Some(json)) {
            let go_type = field.go_type.clone();
            let omitted = field.omitted;
            return Ok(Some(Found { go_type, inline: String::new(), omitted }));
        }
        for field in fields.iter().filter(|field| field.json.is_none()) {
            if let Some(found) = self.find(&field.go_type, json)? {
                let inline = [field.go_name.as_str(), &found.inline].join(".");
                let inline = inline.trim_end_matches('.').to_owned();
                return Ok(Some(Found { inline, ..found }));
            }
        }
        Ok(None)
    }

    fn package(&mut self, path: &str) -> Result<&Package> {
        if !self.packages.contains_key(path) {
            let package = self.folder(path).and_then(|folder| Package::read(path, &folder));
            let package = package.with_context(|| format!("{path} could not be read"))?;
            self.packages.insert(path.to_owned(), package);
        }
        Ok(&self.packages[path])
    }
}

impl Package {
    fn read(path: &str, folder: &Path) -> Result<Self> {
        let mut package = Self::default();
        for file in files(folder)? {
            package.add(path, &fs::read_to_string(&file)?);
        }
        Ok(package)
    }

    /// Adds the types of one file.
    fn add(&mut self, path: &str, text: &str) {
        let scope = Scope { path, imports: imports(text) };
        let mut open: Option<String> = None;
        for line in text.lines() {
            if let Some(name) = &open {
                let field = scope.field(line);
                self.structs.entry(name.clone()).or_default().extend(field);
                if line == "}" {
                    open = None;
                }
            } else if let Some(declaration) = line.strip_prefix("type ") {
                match declaration.split_once(' ') {
                    Some((name, "struct {")) => open = Some(name.to_owned()),
                    Some((name, "struct{}")) => {
                        self.structs.insert(name.to_owned(), Vec::new());
                    }
                    Some((name, target)) if !target.starts_with('=') => {
                        self.named.insert(name.to_owned(), scope.resolved(target));
                    }
                    _ => {}
                }
            }
        }
    }
}

/// The scope of names in one file.
struct Scope<'a> {
    path: &'a str,
    /// The paths of the imported packages, by the names that they have in this file.
    imports: BTreeMap<&'a str, &'a str>,
}

impl Scope<'_> {
    /// Parses the declaration of a field inside of a struct. Returns `None` if it has no name in
    /// JSON.
    fn field(&self, line: &str) -> Option<Field> {
        let line = line.trim();
        if line.starts_with("//") {
            return None;
        }
        let (declaration, tag) = line.split_once('`')?;
        let number = tag
            .split_once("protobuf:\"")
            .and_then(|(_, rest)| rest.split(',').nth(1)?.parse().ok());
        let (_, tag) = tag.split_once("json:\"")?;
        let (tag, _) = tag.split_once('"')?;
        let (json, options) = tag.split_once(',').unwrap_or((tag, ""));
        let omitted = if options.contains("omitzero") {
            Omitted::Zero
        } else if options.contains("omitempty") {
            Omitted::Empty
        } else {
            Omitted::Never
        };
        let mut words = declaration.split_whitespace();
        let (name, go_type) = match (words.next()?, words.next()) {
            (name, Some(go_type)) => (name, go_type),
            (embedded, None) => (embedded.rsplit('.').next()?, embedded),
        };
        let json = (!json.is_empty()).then(|| json.to_owned());
        let go_type = self.resolved(go_type);
        Some(Field { go_name: name.to_owned(), go_type, json, omitted, number })
    }

    /// Replaces the name of the package in a type by its path.
    fn resolved(&self, go_type: &str) -> String {
        if let Some(rest) = go_type.strip_prefix('*') {
            return format!("*{}", self.resolved(rest));
        }
        if let Some(rest) = go_type.strip_prefix("[]") {
            return format!("[]{}", self.resolved(rest));
        }
        if let Some((key, value)) =
            go_type.strip_prefix("map[").and_then(|rest| rest.split_once(']'))
        {
            return format!("map[{}]{}", self.resolved(key), self.resolved(value));
        }
        match go_type.split_once('.') {
            Some((package, name)) => {
                format!("{}.{name}", self.imports.get(package).copied().unwrap_or(package))
            }
            None if go_type == "byte" => "uint8".to_owned(),
            None if go_type.starts_with(char::is_uppercase) => format!("{}.{go_type}", self.path),
            None => go_type.to_owned(),
        }
    }
}

/// Returns the packages that a file imports, by the names that it gives them.
fn imports(text: &str) -> BTreeMap<&str, &str> {
    let head = text.lines().take_while(|line| !line.starts_with("type "));
    let quoted = head.filter_map(|line| {
        let (name, path) = line.trim().split_once('"')?;
        let path = path.strip_suffix('"')?;
        let name = name.trim_start_matches("import").trim();
        let last = path.rsplit('/').next()?;
        Some((if name.is_empty() { last } else { name }, path))
    });
    quoted.collect()
}

/// Splits a type into its package and its name.
fn split(go_type: &str) -> Option<(&str, &str)> {
    let (path, name) = go_type.rsplit_once('.')?;
    (!path.starts_with(['*', '[']) && !path.starts_with("map[")).then_some((path, name))
}

/// Returns the source files of a package, without generated ones and tests.
fn files(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_source = path.extension().is_some_and(|extension| extension == "go");
        let is_generated = name.starts_with("zz_generated") || name.starts_with("generated");
        if is_source && !is_generated && !name.ends_with("_test.go") {
            files.insert(path);
        }
    }
    Ok(files)
}

impl Modules {
    /// Returns the folder of a package.
    fn folder(self, path: &str) -> Result<PathBuf> {
        let mut parts = path.splitn(3, '/');
        let (Some(host), Some(module), rest) = (parts.next(), parts.next(), parts.next()) else {
            bail!("it is not in a module of Kubernetes");
        };
        let folder = self.module(&format!("{host}/{module}"))?;
        Ok(rest.map_or_else(|| folder.clone(), |rest| folder.join(rest)))
    }

    fn module(self, module: &str) -> Result<PathBuf> {
        match self {
            Self::ControlPlane => Ok(list(module, "{{.Dir}}")?.into()),
            Self::Version(version) => {
                let mut go = Command::new("go");
                go.args(["mod", "download", "-json", &format!("{module}@{version}")]);
                let found: Value = serde_json::from_str(&output_of(&mut go)?)?;
                Ok(found["Dir"].as_str().context("Go names no folder")?.into())
            }
        }
    }
}

/// Returns the release that the control plane is built from, as in `v1.36.3`.
///
/// # Errors
/// If Go cannot be run.
pub(super) fn release() -> Result<String> {
    list("k8s.io/kubernetes", "{{.Version}}")
}

/// Runs `go list` for a module with a format.
fn list(module: &str, format: &str) -> Result<String> {
    let mut go = Command::new("go");
    go.args(["list", "-m", "-f", format, module]).current_dir(crate_folder().join(MODULE));
    Ok(output_of(&mut go)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type ResourceList map[ResourceName]resource.Quantity

type Volume struct {
	// Old string `json:"lie"`
	Name  string        `json:"name" protobuf:"bytes,1,opt,name=name"`
	Since *metav1.Time  `json:"since,omitempty"`
	Data  map[string][]byte `json:"data"`
	VolumeSource `json:",inline" protobuf:"bytes,2,opt,name=volumeSource"`
}

type VolumeSource struct {
	EmptyDir *EmptyDir `json:"emptyDir,omitempty"`
}
"#;

    fn sources() -> Sources {
        let mut package = Package::default();
        package.add("x/v1", FILE);
        Sources {
            modules: Modules::ControlPlane,
            packages: BTreeMap::from([("x/v1".to_owned(), package)]),
        }
    }

    #[test]
    fn fields_are_found_with_the_paths_of_their_types() {
        let mut sources = sources();
        let mut go_type = |json: &str| {
            sources.field("x/v1.Volume", json).map(|found| found.go_type).unwrap_or_default()
        };
        assert_eq!(go_type("name"), "string");
        assert_eq!(go_type("since"), "*k8s.io/apimachinery/pkg/apis/meta/v1.Time");
        assert_eq!(go_type("data"), "map[string][]uint8");
        assert_eq!(go_type("lie"), "");
    }

    #[test]
    fn embedded_structs_on_the_way_to_a_field_are_told() {
        let found = sources().field("x/v1.Volume", "emptyDir").expect("the field must be found");
        assert_eq!(found.inline, "VolumeSource");
        assert_eq!(found.omitted, Omitted::Empty);
        assert_eq!(found.go_type, "*x/v1.EmptyDir");
    }

    #[test]
    fn fields_have_their_numbers_in_protobuf() {
        let fields = sources().numbered("x/v1.Volume").expect("the package is there");
        let fields = fields.expect("it is a struct");
        let numbers: Vec<(u32, Option<&str>)> =
            fields.iter().map(|field| (field.number, field.json.as_deref())).collect();
        assert_eq!(numbers, [(1, Some("name")), (2, None)]);
    }

    #[test]
    fn named_types_are_defined_by_others() {
        let definition = sources().definition("x/v1.ResourceList").expect("the package is there");
        let expected = "map[x/v1.ResourceName]k8s.io/apimachinery/pkg/api/resource.Quantity";
        assert_eq!(definition.as_deref(), Some(expected));
    }
}
