//! The file is as the code expects it, and has the fields of the newest types in k8s-openapi.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::RELEASE;

#[test]
fn file_is_sorted() {
    assert!(TABLE.messages.is_sorted_by_key(|message| (message.package, message.name)));
    for message in &TABLE.messages {
        let sorted = message.fields.is_sorted_by_key(|field| field.number);
        assert!(sorted, "{}", message.name);
    }
}

#[test]
fn names_of_a_message_and_of_those_in_its_fields_differ() {
    fn names(message: &Message, all: &mut Vec<&'static str>) {
        for field in &message.fields {
            match field.inlined() {
                Some(inner) => names(inner, all),
                None => all.push(field.name),
            }
        }
    }
    for message in &TABLE.messages {
        let mut all = Vec::new();
        names(message, &mut all);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "{}.{}", message.package, message.name);
    }
}

/// Go says so of `creationTimestamp` alone, and a struct would have to be compared with zero.
#[test]
fn empty_structs_are_left_out_if_they_are_times_alone() {
    for message in &TABLE.messages {
        for field in &message.fields {
            let Type::Message(inner) = field.item else { continue };
            if field.repeat == Repeat::Once && !field.pointer && !field.always {
                assert_eq!(TABLE.get(inner).form, Form::Time, "{}.{}", message.name, field.name);
            }
        }
    }
}

/// The folder of k8s-openapi's types of the newest release that it has.
fn newest_types() -> PathBuf {
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .other_options(["--offline".to_owned()])
        .exec()
        .expect("cargo knows its packages");
    let package = metadata.packages.iter().find(|package| package.name == "k8s-openapi");
    let manifest = &package.expect("it is a dependency").manifest_path;
    let source = manifest.parent().expect("it is in a folder").join("src");
    let entries = fs::read_dir(source).expect("there are sources");
    let folders = entries.map(|entry| entry.expect("it can be read").path());
    let releases = folders.filter_map(|path| {
        let minor = path.file_name()?.to_str()?.strip_prefix("v1_")?.parse::<u32>().ok()?;
        Some((minor, path))
    });
    let (minor, path) = releases.max().expect("there is a release");
    assert_eq!(format!("1.{minor}"), RELEASE, "record the table of this release");
    path
}

/// Returns the names in `deserialize_struct` of all types, by the definition in Kubernetes, as in
/// `io.k8s.api.core.v1.PodSpec`.
fn fields_of_types(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("it is a folder") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("it is a text");
            let name = text.strip_prefix("// Generated from definition ");
            let Some((name, rest)) = name.and_then(|text| text.split_once('\n')) else { continue };
            let Some((_, call)) = rest.split_once("deserializer.deserialize_struct(") else {
                continue;
            };
            let (list, _) = call.split_once("],").expect("the names are a list");
            let (_, list) = list.split_once("&[").expect("the names are a list");
            let names = list.split('"').skip(1).step_by(2).map(str::to_owned);
            found.insert(name.to_owned(), names.collect());
        }
    }
    found
}

#[test]
fn table_has_the_fields_of_the_newest_types() {
    // The list of any kind is k8s-openapi's own, the answer to `/version` is JSON, and a watch has
    // no kind beside its events.
    let without_message = |name: &str| {
        let others =
            ["List", "apimachinery.pkg.version.Info", "apimachinery.pkg.apis.meta.v1.WatchEvent"];
        name.strip_prefix("io.k8s.").is_some_and(|name| others.contains(&name))
    };
    let types = fields_of_types(&newest_types());
    assert!(types.len() > 600, "{} types", types.len());
    let (mut problems, mut compared) = (Vec::new(), 0);
    for (definition, names) in types.iter().filter(|(name, _)| !without_message(name)) {
        let parts: Vec<&str> = definition.split('.').collect();
        let [.., group, version, name] = parts.as_slice() else { panic!("{definition}") };
        let Some(message) = TABLE.named(&format!("{group}.{version}"), name) else {
            problems.push(format!("{definition} is not in the table"));
            continue;
        };
        compared += 1;
        let mut of_table = Vec::new();
        if message.is_kind {
            of_table.extend(["apiVersion", "kind"].map(str::to_owned));
        }
        push_names(message, &mut of_table);
        let mut names = names.clone();
        names.sort_unstable();
        of_table.sort_unstable();
        of_table.dedup();
        if names != of_table {
            problems.push(format!("{definition}: types {names:?}, table {of_table:?}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(compared > 600, "{compared} types");
}

fn push_names(message: &Message, names: &mut Vec<String>) {
    for field in &message.fields {
        match field.inlined() {
            Some(inner) => push_names(inner, names),
            None => names.push(field.name.to_owned()),
        }
    }
}
