//! The likeliest mistakes of people who use Windlass, and what the compiler says about them: it has
//! to fit on a screen, and to name what to do.
//!
//! A mistake is a file in `tests/mistakes`, with the compiler's errors in a file `.txt` beside it.
//! The compiler is run with the libraries that this program was linked with, so nothing is built
//! for it.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The crates that the mistakes use. Only this library is given to the compiler by its path: of the
/// others there may be several builds, and it knows which of them it was built with.
#[doc(hidden)]
pub use {k8s_openapi, serde, windlass};

/// How the compiler names what the mistakes reach through this module.
const PREFIX: &str = "windlass_tests::mistakes::";

/// The folder of this package.
const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// How many lines fit on a screen.
const SCREEN: usize = 50;

/// A mistake.
#[derive(Debug)]
pub struct Mistake {
    /// Its file.
    path: PathBuf,
}

/// Returns all mistakes, sorted.
///
/// # Errors
/// If the folder cannot be read.
pub fn all() -> Result<Vec<Mistake>> {
    let folder = Path::new(PACKAGE).join("mistakes");
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let paths = entries.into_iter().map(|entry| entry.path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension() == Some("rs".as_ref())).collect();
    paths.sort();
    Ok(paths.into_iter().map(|path| Mistake { path }).collect())
}

impl Mistake {
    /// Returns the file with the recorded errors.
    #[must_use]
    pub fn recording(&self) -> PathBuf {
        self.path.with_extension("txt")
    }

    /// Compiles it, and returns the errors: their messages, and the labels in its file with line
    /// and column. Places in other files are left out, because they change with any edit there.
    ///
    /// # Errors
    /// If there is no error, or if the errors do not fit on a screen.
    pub fn explanation(&self) -> Result<String> {
        let output = self.compile()?;
        let messages = str::from_utf8(&output.stderr)?.lines().map(serde_json::from_str);
        let mut messages = messages.collect::<Result<Vec<Value>, _>>()?;
        // The others are about the number of errors.
        messages.retain(|message| self.places(message).next().is_some());
        ensure!(!messages.is_empty(), "{} compiles: {output:?}", self.path.display());
        let rendered = messages.iter().filter_map(|message| message["rendered"].as_str());
        let length = rendered.flat_map(str::lines).count();
        ensure!(length <= SCREEN, "{}: {length} lines", self.path.display());
        let mut shown = String::new();
        for message in &messages {
            self.show(message, &mut shown);
            for note in message["children"].as_array().into_iter().flatten() {
                self.show(note, &mut shown);
            }
        }
        Ok(shown.replace(PREFIX, "").replace(PACKAGE, "tests"))
    }

    fn compile(&self) -> Result<Output> {
        let library = library()?;
        let folder = library.parent().context("a library must be in a folder")?;
        let mut compiler = Command::new("rustc")
            .args(["--edition=2024", "--crate-name=mistake", "--emit=metadata=-", "-Aunused"])
            // Without `--verbose`, long types are written to files.
            .args(["--error-format=json", "--verbose", "-"])
            .arg(format!("-Ldependency={}", folder.display()))
            .arg(format!("--extern=windlass_tests={}", library.display()))
            .current_dir(Path::new(PACKAGE).join(".."))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("rustc must start")?;
        let (imports, path) = ("{k8s_openapi, serde, windlass}", self.path.display());
        let source = format!("use {PREFIX}{imports};\ninclude!(\"{path}\");\n");
        let mut input = compiler.stdin.take().context("the input must be a pipe")?;
        input.write_all(source.as_bytes())?;
        drop(input);
        Ok(compiler.wait_with_output()?)
    }

    /// Adds a message, and its labels in the file of this mistake.
    fn show(&self, message: &Value, shown: &mut String) {
        let code = message["code"]["code"].as_str().map(|code| format!("[{code}]"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (level, code) = (text(&message["level"]), code.unwrap_or_default());
        let _ = writeln!(shown, "{level}{code}: {}", text(&message["message"]));
        for span in self.places(message) {
            let label = [&span["label"], &span["suggested_replacement"]];
            let label = label.into_iter().find_map(Value::as_str).unwrap_or_default();
            let place = format!("{}:{} {label}", span["line_start"], span["column_start"]);
            let _ = writeln!(shown, "  {}", place.trim_end());
        }
    }

    /// Returns the places of a message that are in this file.
    fn places<'a>(&self, message: &'a Value) -> impl Iterator<Item = &'a Value> {
        let spans = message["spans"].as_array().into_iter().flatten();
        spans.filter(|span| span["file_name"].as_str().map(Path::new) == Some(&self.path))
    }
}

/// Returns this library, as it was built last: cargo builds it again before it runs this program if
/// anything has changed.
fn library() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.ancestors().map(|it| it.join("deps")).find(|it| it.is_dir());
    let folder = folder.context("the program must be in a target folder")?;
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_prefix("libwindlass_tests-").is_some_and(|rest| rest.ends_with("rlib"))
    };
    let entries = fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
    let paths = entries.into_iter().map(|entry| entry.path()).filter(is_library);
    let built = |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).ok();
    paths
        .max_by_key(built)
        .with_context(|| format!("no library of this crate in {}", folder.display()))
}
