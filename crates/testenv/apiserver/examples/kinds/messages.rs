//! The protobuf messages of the built-in kinds: the number and type of each field.
//!
//! Numbers and types come from the `.proto` files that are published beside the Go sources. A
//! `.proto` file lacks the JSON name of a field, whether Go holds a pointer, and whether JSON has
//! the field even if it is empty. These come from the Go struct ([`Sources`]), which has the same
//! field numbers.
//!
//! The files are generated and all have the same form: a field is one line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::golang::{Numbered, Omitted, Sources};

/// Types that are not structs in JSON, but texts, numbers, or any value. Their fields have no names
/// in JSON.
const SPECIAL: [&str; 10] = [
    "meta.v1.Time",
    "meta.v1.MicroTime",
    "meta.v1.FieldsV1",
    "api.resource.Quantity",
    "util.intstr.IntOrString",
    "pkg.runtime.RawExtension",
    "apiextensions.v1.JSON",
    "apiextensions.v1.JSONSchemaPropsOrArray",
    "apiextensions.v1.JSONSchemaPropsOrBool",
    "apiextensions.v1.JSONSchemaPropsOrStringArray",
];

/// The folders whose folders are groups, with the folder of a version in each, as in
/// `k8s.io/api/apps/v1`.
const GROUPS: [&str; 3] =
    ["k8s.io/api", "k8s.io/apiextensions-apiserver/pkg/apis", "k8s.io/kube-aggregator/pkg/apis"];

/// The kinds of [`META`] in each version; its other kinds are options, which are sent in queries.
const META_KINDS: [(&str, &[&str]); 2] = [
    ("meta.k8s.io/v1", &["PartialObjectMetadata", "PartialObjectMetadataList"]),
    (
        "v1",
        &[
            "APIGroup",
            "APIGroupList",
            "APIResourceList",
            "APIVersions",
            "DeleteOptions",
            "Status",
            "WatchEvent",
        ],
    ),
];

/// The package of the types that all groups share.
const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";

/// The oldest minor version of a server that tests run on: kinds that it no longer serves are left
/// out.
const OLDEST_MINOR: u32 = 33;

/// A field of a `.proto` file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    number: u32,
    /// The type, as in `string`, `[]string`, `{}bytes`. Messages have their package.
    kind: String,
}

/// The messages of the packages read so far, by their full names.
struct Messages<'a> {
    sources: &'a mut Sources,
    packages: BTreeSet<String>,
    known: BTreeMap<String, Vec<Field>>,
    waiting: BTreeSet<String>,
    reached: BTreeSet<String>,
}

/// Returns the text of the table, of all built-in kinds and what they refer to.
///
/// # Errors
/// If a source cannot be read or parsed.
pub(super) fn table(sources: &mut Sources) -> Result<String> {
    let kinds = kinds(sources)?;
    let mut messages = Messages {
        sources,
        packages: BTreeSet::new(),
        known: BTreeMap::new(),
        waiting: BTreeSet::new(),
        reached: BTreeSet::new(),
    };
    // The versions of messages that are kinds, by the name in the table.
    let mut versions: BTreeMap<String, String> = BTreeMap::new();
    for (full, version) in kinds {
        let (package, _) = full.rsplit_once('.').context("a kind has a package")?;
        messages.read(package)?;
        // A kind that is never sent has no message.
        if messages.known.contains_key(&full) {
            versions.insert(short(&full), version);
            messages.reach(&full)?;
        }
    }
    let mut text = String::new();
    let mut open = String::new();
    for (name, fields) in messages.finish()? {
        let (package, kind) = name.rsplit_once('.').context("a message has a package")?;
        if package != open {
            writeln!(text, "package {package}")?;
            package.clone_into(&mut open);
        }
        text.push_str(kind);
        if let Some(version) = versions.get(&name) {
            write!(text, " kind {version}")?;
        }
        let prefix = format!("{package}.");
        for line in fields.lines() {
            // A type of the same package is written without it.
            let line = match line.split_once(&prefix) {
                Some((start, kind)) if start.ends_with([' ', ']', '}', '*']) => {
                    format!("{start}{kind}")
                }
                _ => line.to_owned(),
            };
            writeln!(text, "{line}")?;
        }
    }
    Ok(text)
}

/// Returns the full names of the built-in kinds, with their versions, as in `apps/v1`.
fn kinds(sources: &mut Sources) -> Result<BTreeMap<String, String>> {
    let mut kinds = BTreeMap::new();
    for module in GROUPS {
        for group in folders(&sources.folder(module)?)? {
            for version in folders(&sources.folder(&format!("{module}/{group}"))?)? {
                let path = format!("{module}/{group}/{version}");
                let folder = sources.folder(&path)?;
                if !folder.join("generated.proto").exists() {
                    continue;
                }
                let group = group_name(&fs::read_to_string(folder.join("register.go"))?)
                    .with_context(|| format!("{path} names no group"))?;
                let lifecycle = folder.join("zz_generated.prerelease-lifecycle.go");
                let removed = removed(&fs::read_to_string(lifecycle).unwrap_or_default());
                let version = if group.is_empty() { version } else { format!("{group}/{version}") };
                for kind in sources.kinds(&path)? {
                    if !removed.contains(&kind) {
                        kinds.insert(full(&path, &kind), version.clone());
                    }
                }
            }
        }
    }
    for (version, names) in META_KINDS {
        kinds.extend(names.iter().map(|kind| (full(META, kind), version.to_owned())));
    }
    Ok(kinds)
}

/// Returns the names of the folders in a folder, sorted.
fn folders(folder: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// Returns the group that a file `register.go` declares.
fn group_name(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains("GroupName = \""))?;
    line.split('"').nth(1).map(str::to_owned)
}

/// Returns the kinds that no supported release serves.
fn removed(lifecycle: &str) -> BTreeSet<String> {
    let mut lines = lifecycle.lines();
    let mut removed = BTreeSet::new();
    while let Some(line) = lines.next() {
        let kind = line.strip_prefix("func (in *").and_then(|line| line.split_once(')'));
        let Some((kind, rest)) = kind else { continue };
        let minor = lines.next().and_then(|line| line.trim().strip_prefix("return 1, "));
        let is_removed =
            minor.and_then(|minor| minor.parse().ok()).is_some_and(|it: u32| it <= OLDEST_MINOR);
        if rest.starts_with(" APILifecycleRemoved()") && is_removed {
            removed.insert(kind.to_owned());
        }
    }
    removed
}

impl Messages<'_> {
    /// Returns the text of the fields of all messages that are referred to, by their names.
    fn finish(mut self) -> Result<BTreeMap<String, String>> {
        let mut types = BTreeMap::new();
        while let Some(full) = self.waiting.pop_first() {
            let text = self.message(&full).with_context(|| format!("{full} is no message"))?;
            types.insert(short(&full), text);
        }
        Ok(types)
    }

    /// Returns what follows the name of a message in the table.
    fn message(&mut self, full: &str) -> Result<String> {
        let fields = self.known.get(full).cloned().context("it is in no file")?;
        let mut text = String::from("\n");
        if SPECIAL.contains(&short(full).as_str()) {
            for field in fields {
                text.push_str(&line(&nameless(&field), &self.shown(&field.kind)?));
            }
            return Ok(text);
        }
        let Some(in_go) = self.sources.numbered(&go_type(full)?)? else {
            // A named list type of Go is a message around a list in protobuf.
            let [Field { number: 1, kind, .. }] = fields.as_slice() else {
                bail!("Go has no such struct");
            };
            return Ok(format!(" list\n 1 items {}\n", self.shown(kind)?));
        };
        ensure!(fields.len() == in_go.len(), "Go has {} fields of {}", in_go.len(), fields.len());
        for field in fields {
            let found = in_go.iter().find(|found| found.number == field.number);
            let found = found.with_context(|| format!("Go lacks field {}", field.number))?;
            text.push_str(&line(found, &self.shown(&field.kind)?));
        }
        Ok(text)
    }

    /// Returns a type as it is written in the table.
    fn shown(&mut self, kind: &str) -> Result<String> {
        for prefix in ["[]", "{}"] {
            if let Some(inner) = kind.strip_prefix(prefix) {
                return Ok(format!("{prefix}{}", self.shown(inner)?));
            }
        }
        if kind.contains('.') {
            return self.reach(kind);
        }
        ensure!(
            matches!(kind, "string" | "bytes" | "bool" | "int32" | "int64" | "double"),
            "the table has no type {kind}"
        );
        Ok(kind.to_owned())
    }

    /// Queues a message for the table, and returns its name there.
    fn reach(&mut self, full: &str) -> Result<String> {
        let (package, _) = full.rsplit_once('.').context("a message has a package")?;
        self.read(package)?;
        let name = short(full);
        if self.reached.insert(full.to_owned()) {
            self.waiting.insert(full.to_owned());
        }
        Ok(name)
    }

    fn read(&mut self, package: &str) -> Result<()> {
        if !self.packages.insert(package.to_owned()) {
            return Ok(());
        }
        let path = self.sources.folder(&go_path(package))?.join("generated.proto");
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{} could not be read", path.display()))?;
        self.known.extend(messages(package, &text)?);
        Ok(())
    }
}

/// Returns a field of a type that is not a struct in JSON, under its protobuf name.
fn nameless(field: &Field) -> Numbered {
    let (mut go_name, mut json) = (field.name.clone(), field.name.clone());
    go_name[..1].make_ascii_uppercase();
    json[..1].make_ascii_lowercase();
    Numbered {
        number: field.number,
        go_name: if go_name == "String" { "String_".to_owned() } else { go_name },
        json: Some(json),
        // A missing schema differs from an empty one.
        is_pointer: field.kind.ends_with(".JSONSchemaProps"),
        omitted: Omitted::Never,
    }
}

/// Returns the line of a field in the table.
fn line(field: &Numbered, kind: &str) -> String {
    let is_message = kind.contains('.') && !kind.starts_with(['[', '{']);
    let is_always = field.omitted == Omitted::Never
        || field.omitted == Omitted::Empty && is_message && !field.is_pointer;
    let name = match field.json.as_deref() {
        None => format!(".{}", field.go_name),
        Some(json) if capitalized(json) == field.go_name => json.to_owned(),
        Some(json) => format!("{json}={}", field.go_name),
    };
    let always = if is_always { "!" } else { "" };
    let pointer = if field.is_pointer { "*" } else { "" };
    format!(" {} {name}{always} {pointer}{kind}\n", field.number)
}

fn capitalized(name: &str) -> String {
    let mut name = name.to_owned();
    name[..1].make_ascii_uppercase();
    name
}

/// Parses the messages of one file.
fn messages(package: &str, text: &str) -> Result<BTreeMap<String, Vec<Field>>> {
    let mut messages = BTreeMap::new();
    let mut open: Option<(String, Vec<Field>)> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("message ") {
            let name = name.trim_end_matches(" {").trim_end_matches(" {}");
            open = Some((format!("{package}.{name}"), Vec::new()));
        } else if line == "}" {
            // Go encodes fields in the order of their numbers.
            messages.extend(open.take().map(|(name, mut fields)| {
                fields.sort_by_key(|field| field.number);
                (name, fields)
            }));
        } else if let Some((name, fields)) = &mut open {
            let line = line.trim();
            if line.is_empty() || line.starts_with("//") {
                continue;
            }
            let field = field(package, line).with_context(|| format!("{name}: {line}"))?;
            fields.push(field);
        }
    }
    Ok(messages)
}

/// Parses the declaration of a field.
fn field(package: &str, line: &str) -> Result<Field> {
    let (declaration, number) =
        line.trim_end_matches(';').split_once(" = ").context("it has no number")?;
    let (kind, name) = declaration.rsplit_once(' ').context("it has no name")?;
    let message = |name: &str| match name.strip_prefix('.') {
        Some(full) => full.to_owned(),
        None if name.starts_with(char::is_uppercase) => format!("{package}.{name}"),
        None => name.to_owned(),
    };
    let kind = if let Some(item) = kind.strip_prefix("repeated ") {
        format!("[]{}", message(item))
    } else if let Some(item) = kind.strip_prefix("map<string, ") {
        format!("{{}}{}", message(item.trim_end_matches('>')))
    } else {
        message(kind.strip_prefix("optional ").context("it is of no known kind")?)
    };
    Ok(Field { name: name.to_owned(), number: number.parse()?, kind })
}

/// Returns `core.v1.PodSpec` for `k8s.io.api.core.v1.PodSpec`.
fn short(full: &str) -> String {
    let parts: Vec<&str> = full.split('.').collect();
    parts[parts.len().saturating_sub(3)..].join(".")
}

/// Returns `k8s.io/api/core/v1.PodSpec` for `k8s.io.api.core.v1.PodSpec`.
fn go_type(full: &str) -> Result<String> {
    let (package, name) = full.rsplit_once('.').context("it has no package")?;
    Ok(format!("{}.{name}", go_path(package)))
}

/// Returns `k8s.io.api.core.v1.PodSpec` for `k8s.io/api/core/v1` and `PodSpec`.
fn full(path: &str, name: &str) -> String {
    format!("{}.{name}", path.replace('/', ".").replace('-', "_"))
}

fn go_path(package: &str) -> String {
    let rest = package.strip_prefix("k8s.io.").unwrap_or(package);
    format!("k8s.io/{}", rest.replace('.', "/").replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_one_line_each() {
        let text = "message Volume {\n  // optional string lie = 9;\n  optional string name = 1;\n\n  \
                    map<string, .k8s.io.apimachinery.pkg.api.resource.Quantity> limits = 3;\n  \
                    repeated Other others = 4;\n}\n";
        let messages = messages("k8s.io.api.core.v1", text).expect("it is such a file");
        let kinds: Vec<(u32, &str)> = messages["k8s.io.api.core.v1.Volume"]
            .iter()
            .map(|field| (field.number, field.kind.as_str()))
            .collect();
        let quantities = "{}k8s.io.apimachinery.pkg.api.resource.Quantity";
        let others = "[]k8s.io.api.core.v1.Other";
        assert_eq!(kinds, [(1, "string"), (3, quantities), (4, others)]);
    }

    #[test]
    fn packages_of_protobuf_are_paths_in_go() {
        let full = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON";
        let path = go_type(full).expect("it has a package");
        assert_eq!(path, "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON");
        assert_eq!(short(full), "apiextensions.v1.JSON");
    }
}
