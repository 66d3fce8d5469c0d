//! `cargo windlass new`: writes an operator into a new folder, or into an empty one.
//!
//! Answers come from flags, or from the terminal if there is one; otherwise defaults are used and
//! printed. All of them are checked before anything is written.

mod answers;
pub(crate) mod names;
pub(crate) mod owned;
pub(crate) mod render;
pub(crate) mod template;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::package::cargo;
use answers::{Answers, Input};
use render::Names;
use template::Part;

/// What a new operator should be. What is not given is asked for on a terminal, and has its default
/// otherwise.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The folder to make, or an empty one; its name is the name of the operator, such as
    /// shop-operator
    #[arg(value_name = "NAME")]
    path: PathBuf,
    /// The API group of the kind, a domain of yours [default: example.com]
    #[arg(long, value_name = "DOMAIN")]
    group: Option<String>,
    /// The kind that people will create [default: from NAME: Shop for shop-operator]
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// The kinds of the objects that it makes, such as configmaps,deployments,services: that is the
    /// default, and there are also serviceaccounts,statefulsets
    #[arg(long, value_name = "KINDS")]
    owns: Option<String>,
    /// The clone of Windlass that the operator depends on [default: the one that this program was
    /// built from]
    #[arg(long, value_name = "FOLDER")]
    windlass: Option<PathBuf>,
}

/// Creates the operator, and prints what to do next.
///
/// # Errors
/// If an answer is invalid, the folder is not empty or cannot be written, or the clone of Windlass
/// is gone. The error says what to do.
pub(crate) fn run(options: &Options) -> Result<()> {
    let name = options.path.file_name().map(|name| name.to_string_lossy());
    let name = &*name.with_context(|| {
        let path = options.path.display();
        format!("{path} is not a name: name the folder to make, such as shop-operator")
    })?;
    names::check_package(name)?;
    ensure!(
        is_free(&options.path),
        "{} exists already, and is not an empty folder: choose another name, or move it away",
        options.path.display()
    );
    let clone = clone_of(options.windlass.as_deref())?;
    let Options { group, kind, owns, .. } = options;
    let input = Input { group: group.clone(), kind: kind.clone(), owns: owns.clone() };
    let stdin = io::stdin();
    let answers = if stdin.is_terminal() {
        let next_line = || stdin.lock().lines().next();
        Answers::asked(name, input, next_line, &mut io::stdout())?
    } else {
        Answers::with_defaults(name, input, &mut io::stdout())?
    };
    let clone_text = clone_text(&clone)?;
    write(&options.path, &answers, &clone, &clone_text)?;
    let is_formatted = format(&options.path);
    init_git(&options.path);
    say(&answers.summary(&options.path, is_formatted));
    Ok(())
}

/// Returns whether the path does not exist or is an empty folder.
fn is_free(path: &Path) -> bool {
    !path.exists() || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Returns the clone to depend on.
fn clone_of(given: Option<&Path>) -> Result<PathBuf> {
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3);
    let clone = match given {
        Some(given) => std::path::absolute(given)?,
        None => built_from.context("this program must be built in a clone")?.to_owned(),
    };
    ensure!(
        clone.join("crates/windlass/Cargo.toml").is_file(),
        "{} is not a clone of Windlass: name one with --windlass FOLDER",
        clone.display()
    );
    Ok(clone)
}

/// Returns the path of the clone for files, in which it is between double quotes.
fn clone_text(clone: &Path) -> Result<String> {
    let text = clone.to_str().map(|text| text.replace('\\', "/"));
    let text = text.filter(|text| !text.contains(['"', '\n', '$', '`']));
    text.with_context(|| {
        let path = clone.display();
        format!("the path {path:?} cannot stand in a Cargo.toml: move the clone of Windlass")
    })
}

fn write(folder: &Path, answers: &Answers, clone: &Path, clone_text: &str) -> Result<()> {
    let Answers { package, group, kind, owns } = answers;
    let names = Names::new(package, group, kind).owns(owns).windlass(clone_text);
    let write = |path: &str, text: &str| -> io::Result<()> {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, text)
    };
    let files = render::render(&[Part::Operator, Part::Kind], owns, &names);
    check_distinct(&files)?;
    for (path, text) in files {
        write(&path, &text).with_context(|| format!("cannot write {path}"))?;
    }
    // The versions that Windlass is tested with. cargo removes unused ones.
    if let Ok(lock) = fs::read_to_string(clone.join("Cargo.lock")) {
        write("Cargo.lock", &lock).context("cannot write Cargo.lock")?;
    }
    Ok(())
}

/// Checks that no file of the kind has the path of another file.
///
/// # Errors
/// Returns an error that names a duplicate path.
fn check_distinct(files: &[(String, String)]) -> Result<()> {
    let mut paths = BTreeSet::new();
    for (path, _) in files {
        ensure!(paths.insert(path), "two files would be {path}: choose another kind");
    }
    Ok(())
}

/// Formats the code: with other names, some lines break elsewhere. Returns whether `cargo fmt`
/// succeeded.
pub(crate) fn format(folder: &Path) -> bool {
    let mut command = Command::new(cargo());
    command.arg("fmt").current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Makes the folder a git repository, as `cargo new` does: unless it is inside another repository,
/// or git is not installed.
fn init_git(folder: &Path) {
    let is_outside = std::path::absolute(folder)
        .is_ok_and(|folder| !folder.ancestors().any(|one| one.join(".git").exists()));
    if is_outside {
        let mut command = Command::new("git");
        command.args(["init", "--quiet"]).current_dir(folder);
        // A git hook sets it to the repository of the hook.
        command.env_remove("GIT_DIR").stdout(Stdio::null()).stderr(Stdio::null());
        drop(command.status());
    }
}

/// Prints to the standard output. Errors are ignored: behind `| head -1` nobody may read it.
pub(crate) fn say(text: &str) {
    drop(write!(io::stdout(), "{text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_without_a_name_is_refused() {
        for path in [".", "..", "/"] {
            let (group, kind, owns) = (None, None, None);
            let options = Options { path: path.into(), group, kind, owns, windlass: None };
            let error = run(&options).expect_err(path).to_string();
            assert_eq!(
                error,
                format!("{path} is not a name: name the folder to make, such as shop-operator")
            );
        }
    }

    #[test]
    fn no_file_is_written_over_another() {
        let files = |kind: &str| {
            let names = Names::new("shop-operator", "example.com", kind);
            render::render(&[Part::Operator, Part::Kind], &["services"], &names)
        };
        check_distinct(&files("Shop")).expect("all paths differ");
        let error = check_distinct(&files("Lib")).expect_err("src/lib.rs is there").to_string();
        assert_eq!(error, "two files would be src/lib.rs: choose another kind");
    }
}
