//! Changes to the files of an operator: prepared in memory, then written all or not at all.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use super::operator::Operator;
use crate::diff::{self, Hunk};
use crate::new::format;
use crate::package::cargo;

/// New and changed files, by path.
pub(super) struct Changes<'a> {
    operator: &'a Operator,
    files: BTreeMap<String, File>,
}

struct File {
    /// The text on disk before the change; `None` if the file is new.
    old: Option<String>,
    /// The new text. Its lines end with `\n`, whatever the line endings of `old`.
    new: String,
}

/// A report of the changes, for printing.
#[derive(Debug)]
pub(super) struct Written {
    made: Vec<String>,
    changed: Vec<(String, Vec<Hunk>)>,
    /// Why the code is not formatted; `None` if it is.
    unformatted: Option<&'static str>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(operator: &'a Operator) -> Self {
        Self { operator, files: BTreeMap::new() }
    }

    /// Plans a new file.
    ///
    /// # Errors
    /// If the file already exists.
    pub(super) fn create(&mut self, path: &str, text: String) -> Result<()> {
        ensure!(
            !self.operator.has(path) && !self.files.contains_key(path),
            "{path} exists already: if it is not needed any more, move it away, and try again"
        );
        self.files.insert(path.to_owned(), File { old: None, new: text });
        Ok(())
    }

    /// Returns the text of a file as it will be written.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn text(&mut self, path: &str) -> Result<&mut String> {
        if !self.files.contains_key(path) {
            let old = self.operator.read(path)?;
            let new = old.replace("\r\n", "\n");
            self.files.insert(path.to_owned(), File { old: Some(old), new });
        }
        let file = self.files.get_mut(path).expect("it must be there by now");
        Ok(&mut file.new)
    }

    /// Appends to a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn append(&mut self, path: &str, text: &str) -> Result<()> {
        let whole = self.text(path)?;
        if !whole.ends_with('\n') {
            whole.push('\n');
        }
        whole.push_str(text);
        Ok(())
    }

    /// Adds a line before the first one that begins with `place`, indented as that one.
    ///
    /// # Errors
    /// If there is no such place.
    pub(super) fn before(&mut self, path: &str, place: &str, line: &str) -> Result<()> {
        self.edit_line(path, place, line, |found| format!("{line}\n{found}"))
    }

    /// Adds a line after the first one that begins with `place`, indented as that one.
    ///
    /// # Errors
    /// If there is no such place.
    pub(super) fn after(&mut self, path: &str, place: &str, line: &str) -> Result<()> {
        self.edit_line(path, place, line, |found| format!("{found}\n{line}"))
    }

    /// Replaces `old` by `new` in the first line that begins with `old`.
    ///
    /// # Errors
    /// Returns an error if there is no such line.
    pub(super) fn replace(&mut self, path: &str, old: &str, new: &str) -> Result<()> {
        self.edit_line(path, old, new, |found| found.replacen(old, new, 1))
    }

    /// Replaces the last line that is `old`, whatever its indentation.
    ///
    /// # Errors
    /// Returns an error if there is no such line.
    pub(super) fn replace_last(&mut self, path: &str, old: &str, new: &str) -> Result<()> {
        let text = self.text(path)?;
        let Some(found) = text.lines().rev().position(|line| line.trim() == old) else {
            bail!(
                "{path} has no line `{old}`, which would become `{new}`: write one where it should \
                 be, and try again"
            );
        };
        let found = text.lines().count() - 1 - found;
        let lines = text.lines().enumerate().map(|(index, line)| {
            if index == found { line.replacen(old, new, 1) } else { line.to_owned() }
        });
        *text = lines.collect::<Vec<_>>().join("\n") + "\n";
        Ok(())
    }

    /// Declares a module after the last declared one.
    ///
    /// # Errors
    /// If the file declares no module.
    pub(super) fn module(&mut self, path: &str, line: &str) -> Result<()> {
        let text = self.text(path)?;
        let is_module = |line: &&str| {
            (line.starts_with("pub mod ") || line.starts_with("mod ")) && line.ends_with(';')
        };
        let Some(last) = text.lines().rfind(is_module).map(str::to_owned) else {
            bail!("{path} declares no module, so there is no place for `{line}`: write it there");
        };
        ensure!(
            !text.lines().any(|it| it == line),
            "{path} has the line `{line}` already: remove it, and try again"
        );
        self.after(path, &last, line)
    }

    /// Replaces the first line that begins with `place` by the lines that `change` returns.
    /// `change` gets the line without its indentation, which is added to the returned lines. The
    /// error names `what`.
    ///
    /// # Errors
    /// Returns an error if there is no such line.
    fn edit_line(
        &mut self,
        path: &str,
        place: &str,
        what: &str,
        change: impl FnOnce(&str) -> String,
    ) -> Result<()> {
        let text = self.text(path)?;
        let found = text.lines().position(|line| line.trim_start().starts_with(place));
        let Some(found) = found else {
            bail!(
                "{path} has no line that begins with `{place}`, where `{what}` belongs: write one \
                 where it should be, and try again"
            );
        };
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let line = lines[found].trim_start();
        let indent = " ".repeat(lines[found].len() - line.len());
        let changed = change(line);
        let changed = changed
            .lines()
            .map(|line| if line.is_empty() { String::new() } else { format!("{indent}{line}") });
        lines.splice(found..=found, changed.collect::<Vec<_>>());
        *text = lines.join("\n") + "\n";
        Ok(())
    }

    /// Writes everything, and formats the code if it was formatted before. If a file cannot be
    /// written, all files are restored.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write(self) -> Result<Written> {
        let folder = &self.operator.folder;
        let was_formatted = is_formatted(folder);
        let mut written = Vec::new();
        for (path, file) in &self.files {
            if let Err(error) = write(folder, path, &file.on_disk()) {
                for path in written.into_iter().chain([path]) {
                    self.put_back(path);
                }
                return Err(error).with_context(|| format!("cannot write {path}"));
            }
            written.push(path);
        }
        let unformatted = if was_formatted {
            (!format(folder)).then_some("`cargo fmt` fails, so the code is not formatted")
        } else if has_rustfmt(folder) {
            Some("The code was not formatted before, so it is not now: cargo fmt")
        } else {
            Some(
                "rustfmt is missing, so the code is not formatted: rustup component add rustfmt && \
                 cargo fmt",
            )
        };
        let mut report = Written { made: Vec::new(), changed: Vec::new(), unformatted };
        for (path, file) in self.files {
            match file.old {
                None => report.made.push(path),
                Some(old) => {
                    let new = fs::read_to_string(folder.join(&path)).unwrap_or(file.new);
                    report.changed.push((path, diff::hunks(&old, &new)));
                }
            }
        }
        Ok(report)
    }

    /// Restores a file, as far as that is possible.
    fn put_back(&self, path: &str) {
        let on_disk = self.operator.folder.join(path);
        drop(match &self.files[path].old {
            Some(old) => fs::write(on_disk, old),
            None => fs::remove_file(on_disk),
        });
    }
}

impl File {
    /// Returns the new text with the original line endings.
    fn on_disk(&self) -> Cow<'_, str> {
        if self.old.as_ref().is_some_and(|old| old.contains("\r\n")) {
            self.new.replace('\n', "\r\n").into()
        } else {
            self.new.as_str().into()
        }
    }
}

fn write(folder: &Path, path: &str, text: &str) -> io::Result<()> {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap_or(folder))?;
    fs::write(path, text)
}

/// Whether the code is as rustfmt would write it. `false` if there is no rustfmt.
fn is_formatted(folder: &Path) -> bool {
    cargo_succeeds(folder, &["fmt", "--check"])
}

fn has_rustfmt(folder: &Path) -> bool {
    cargo_succeeds(folder, &["fmt", "--version"])
}

fn cargo_succeeds(folder: &Path, arguments: &[&str]) -> bool {
    let mut command = Command::new(cargo());
    command.args(arguments).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.made.is_empty() {
            writeln!(f, "Made:")?;
        }
        for path in &self.made {
            writeln!(f, "  {path}")?;
        }
        for (path, hunks) in &self.changed {
            writeln!(f, "Changed {path}:")?;
            for hunk in hunks {
                write!(f, "{hunk}")?;
            }
        }
        if let Some(note) = self.unformatted {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(files: &[(&str, &str)]) -> (tempfile::TempDir, Operator) {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            write(folder.path(), path, text).expect("it is written");
        }
        let (path, package) = (folder.path().to_owned(), "shop-operator".to_owned());
        (folder, Operator { folder: path, package })
    }

    #[test]
    fn lines_are_added_at_their_place_with_its_indentation() {
        let (_folder, operator) = operator(&[("a.rs", "mod a;\n\nfn f() {\n    // Here.\n}\n")]);
        let mut changes = Changes::new(&operator);
        changes.module("a.rs", "mod b;").expect("a module");
        changes.before("a.rs", "// Here", "before();").expect("a place");
        changes.after("a.rs", "// Here", "after();").expect("a place");
        changes.replace("a.rs", "fn f", "pub fn f").expect("a place");
        changes.replace_last("a.rs", "before();", "first();").expect("a place");
        assert_eq!(
            changes.text("a.rs").expect("a file"),
            "mod a;\nmod b;\n\npub fn f() {\n    first();\n    // Here.\n    after();\n}\n"
        );
    }

    #[test]
    fn missing_place_and_existing_file_are_refused_with_what_to_do() {
        let (_folder, operator) = operator(&[("a.rs", "fn f() {}\n")]);
        let mut changes = Changes::new(&operator);
        let error = changes.before("a.rs", "// Here", "b();").expect_err("no place").to_string();
        assert_eq!(
            error,
            "a.rs has no line that begins with `// Here`, where `b();` belongs: write one where it \
             should be, and try again"
        );
        let error = changes.replace("a.rs", "fn g", "fn h").expect_err("no place").to_string();
        assert!(error.contains("begins with `fn g`, where `fn h` belongs"), "{error}");
        let error = changes.replace_last("a.rs", "fn f()", "g").expect_err("it is longer");
        assert!(error.to_string().starts_with("a.rs has no line `fn f()`, which would become `g`"));
        let error = changes.module("a.rs", "mod b;").expect_err("no place").to_string();
        assert!(error.contains("no place for `mod b;`"), "{error}");
        let error = changes.create("a.rs", String::new()).expect_err("it exists").to_string();
        assert!(error.starts_with("a.rs exists already"), "{error}");
    }

    #[test]
    fn nothing_is_changed_if_one_file_cannot_be_written() {
        let (folder, operator) = operator(&[("a.txt", "old\n"), ("folder", "a file\n")]);
        let mut changes = Changes::new(&operator);
        changes.append("a.txt", "new\n").expect("a file");
        changes.create("b.txt", "b\n".to_owned()).expect("a new file");
        changes.create("folder/c.txt", "c\n".to_owned()).expect("a new file");
        let error = changes.write().expect_err("a file is no folder").to_string();
        assert_eq!(error, "cannot write folder/c.txt");
        assert_eq!(operator.read("a.txt").expect("a file"), "old\n");
        assert!(!folder.path().join("b.txt").exists());
    }

    #[test]
    fn lines_end_as_before() {
        let old = "mod a;\r\n\r\nfn f() {\r\n    // Here.\r\n}\r\n";
        let (_folder, operator) = operator(&[("a.rs", old), ("b.yaml", "a: b\r\n")]);
        let mut changes = Changes::new(&operator);
        changes.module("a.rs", "mod b;").expect("a module");
        changes.before("a.rs", "// Here", "before();").expect("a place");
        changes.append("b.yaml", "c: d\ne: f\n").expect("a file");
        changes.create("c.txt", "c\n".to_owned()).expect("a new file");
        let shown = changes.write().expect("it is written").to_string();
        assert!(shown.contains("Changed b.yaml:\n     2 + c: d\n     3 + e: f\n"), "{shown}");
        let new = "mod a;\r\nmod b;\r\n\r\nfn f() {\r\n    before();\r\n    // Here.\r\n}\r\n";
        assert_eq!(operator.read("a.rs").expect("a file"), new);
        assert_eq!(operator.read("b.yaml").expect("a file"), "a: b\r\nc: d\r\ne: f\r\n");
        assert_eq!(operator.read("c.txt").expect("a file"), "c\n");
    }
}
