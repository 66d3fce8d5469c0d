//! What `cargo windlass new` and `add` write and print, in the form of the recordings: a shop with
//! everything added in `template-added`, and a blog in `tests/recordings/blog-operator.txt`.
//!
//! The tests compare it with the recordings, and `cargo xtask record template` makes these: its
//! program, `examples/record.rs`, has this file as a module, too.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The folders of an operator that are recorded of the shop.
pub(crate) const FOLDERS: [&str; 3] = ["src", "tests", "deploy"];

/// The recorded additions, in order.
const ADDED: [&[&str]; 4] = [
    &["kind", "Customer", "--owns", "serviceaccounts"],
    &["webhook", "Shop", "--validate", "--default"],
    &["version", "Shop", "v1beta1"],
    &["version", "Shop", "v2"],
];

/// Files with their texts, by path.
pub(crate) type Files = BTreeMap<PathBuf, String>;

/// Runs the program as cargo calls it, in a folder, without a terminal.
pub(crate) fn windlass(program: &Path, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.arg("windlass").args(arguments).current_dir(folder).stdin(Stdio::null());
    command.output().expect("the program must start")
}

/// Creates a shop in this folder, and returns its path.
pub(crate) fn new_shop(program: &Path, folder: &Path) -> PathBuf {
    run(program, folder, &["new", "shop-operator", "--owns", "configmaps,services"]);
    folder.join("shop-operator")
}

/// Returns the files of `template-added` in [`FOLDERS`], and what was printed in `said.txt`.
pub(crate) fn shop_with_everything(program: &Path) -> Files {
    let folder = tempfile::tempdir().expect("a folder");
    let operator = new_shop(program, folder.path());
    let mut said = String::new();
    for what in ADDED {
        let told = run(program, &operator, &[&["add"], what].concat());
        let _ = writeln!(said, "$ cargo windlass add {}\n{told}", what.join(" "));
    }
    let mut made = files(&operator, &FOLDERS);
    made.insert(PathBuf::from("said.txt"), said);
    made
}

/// Returns all files of a blog in one text, without the `Cargo.lock`, which is that of the clone.
pub(crate) fn blog(program: &Path) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["--kind", "BlogPost", "--group", "blog.example.com", "--owns", "configmaps"];
    run(program, folder.path(), &[&["new", "blog-operator"], &options[..]].concat());
    let mut made = files(&folder.path().join("blog-operator"), &[""]);
    made.remove(Path::new("Cargo.lock"));
    let shown = made.iter().map(|(path, text)| format!("==> {} <==\n{text}", path.display()));
    let clone = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("a clone");
    let clone = clone.to_str().expect("the path of the clone must be text");
    shown.collect::<Vec<_>>().join("\n").replace(clone, "/home/you/windlass")
}

/// Returns the files in some folders of an operator, without the repository.
pub(crate) fn files(operator: &Path, folders: &[&str]) -> Files {
    fn collect(root: &Path, folder: &Path, found: &mut Files) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.ends_with(".git") {
                continue;
            }
            if path.is_dir() {
                collect(root, &path, found);
            } else {
                let relative = path.strip_prefix(root).expect("it is below").to_owned();
                found.insert(relative, fs::read_to_string(&path).expect("text"));
            }
        }
    }
    let mut found = Files::new();
    for folder in folders {
        collect(operator, &operator.join(folder), &mut found);
    }
    found
}

fn run(program: &Path, folder: &Path, arguments: &[&str]) -> String {
    let output = windlass(program, folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!said.contains("rustfmt is missing"), "the recordings are formatted: {said}");
    said
}
