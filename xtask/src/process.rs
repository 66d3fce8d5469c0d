//! Runs commands: shown before they start, timed, and named when they fail.
//!
//! Every command runs in the root of the workspace unless told otherwise, and without standard
//! input, so that it behaves the same from any folder and where nobody can answer a question.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::{self, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

/// A command line that can be run, and shown in a form that can be pasted into a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// Relative to the workspace root; empty for the root itself.
    folder: String,
}

/// Measures how long a step takes in real time.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    started: Instant,
}

impl CommandLine {
    /// Creates a command line of `program` and its `arguments`.
    pub(crate) fn new(program: &str, arguments: &[&str]) -> Self {
        Self {
            program: program.to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: Vec::new(),
            folder: String::new(),
        }
    }

    /// Sets one environment variable for this command only.
    #[must_use]
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs the command in this folder of the workspace.
    #[must_use]
    pub(crate) fn in_folder(mut self, folder: &str) -> Self {
        folder.clone_into(&mut self.folder);
        self
    }

    /// Runs the command and waits for it; it uses our standard output and error.
    ///
    /// # Errors
    /// If the command cannot be started or does not succeed; the error shows the command line.
    pub(crate) fn run(&self) -> Result<()> {
        let status = self.prepared()?.status().with_context(|| self.not_started())?;
        if !status.success() {
            bail!("`{self}` ended with {status}");
        }
        Ok(())
    }

    /// Runs the command, waits for it and returns its standard output.
    ///
    /// # Errors
    /// If the command cannot be started, does not succeed or prints something that is not text; the
    /// error shows the command line and the standard error.
    pub(crate) fn capture(&self) -> Result<String> {
        let output = self.prepared()?.output().with_context(|| self.not_started())?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            let failure = format!("`{self}` ended with {}", output.status);
            return Err(match complaint.trim_end() {
                "" => anyhow!(failure),
                complaint => anyhow!("{complaint}").context(failure),
            });
        }
        String::from_utf8(output.stdout)
            .with_context(|| format!("`{self}` printed something that is not UTF-8"))
    }

    fn prepared(&self) -> Result<process::Command> {
        let mut command = process::Command::new(self.executable());
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(workspace_root()?.join(&self.folder))
            .stdin(Stdio::null());
        // Cargo's variables for this program. Build scripts that depend on them would run again,
        // and cause rebuilds.
        for (name, _) in env::vars_os() {
            if ["CARGO_PKG_", "CARGO_MANIFEST_"]
                .iter()
                .any(|of| name.as_encoded_bytes().starts_with(of.as_bytes()))
            {
                command.env_remove(name);
            }
        }
        Ok(command)
    }

    fn not_started(&self) -> String {
        format!("`{self}` could not be started: is `{}` in PATH?", self.program)
    }

    /// Inside `cargo xtask`, cargo passes its own path; using it keeps a `+toolchain` choice.
    fn executable(&self) -> OsString {
        match self.program.as_str() {
            "cargo" => env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
            other => other.into(),
        }
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.folder.is_empty() {
            write!(f, "cd {} && ", quoted(&self.folder))?;
        }
        for (name, value) in &self.environment {
            write!(f, "{name}={} ", quoted(value))?;
        }
        f.write_str(&quoted(&self.program))?;
        for argument in &self.arguments {
            write!(f, " {}", quoted(argument))?;
        }
        Ok(())
    }
}

impl Stopwatch {
    /// Starts measuring.
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a build takes is a fact of the real clock; nothing depends on it"
    )]
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// Returns the time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Returns the folder with the workspace's `Cargo.toml`.
///
/// Cargo passes it to the programs that it runs; a path that is fixed at compile time would be
/// wrong as soon as the folder moves.
///
/// # Errors
/// If the program was not started by cargo.
pub(crate) fn workspace_root() -> Result<PathBuf> {
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .context("CARGO_MANIFEST_DIR is not set: start this program as `cargo xtask …`")?;
    let root = manifest_dir.parent().context("xtask must lie directly in the workspace root")?;
    Ok(root.to_owned())
}

/// Quotes a word for a POSIX shell where needed, so that the output can be pasted.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_command_can_be_pasted_into_a_shell() {
        let command = CommandLine::new("cargo", &["doc", "--no-deps"]).env("FLAGS", "-D warnings");
        assert_eq!(command.to_string(), "FLAGS='-D warnings' cargo doc --no-deps");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn shown_command_goes_to_its_folder_first() {
        let command = CommandLine::new("go", &["build", "."]).in_folder("bench/queue-go");
        assert_eq!(command.to_string(), "cd bench/queue-go && go build .");
    }

    #[test]
    fn captured_output_is_returned() {
        let output = CommandLine::new("echo", &["one", "two"]).capture().expect("echo must work");
        assert_eq!(output, "one two\n");
    }

    #[test]
    fn complaint_of_a_captured_command_is_kept_as_the_cause() {
        let command = CommandLine::new("sh", &["-c", "echo too bad >&2; exit 3"]);
        let error = command.capture().expect_err("the script must fail");
        assert!(error.to_string().ends_with("ended with exit status: 3"), "{error:#}");
        assert_eq!(error.root_cause().to_string(), "too bad");
    }

    #[test]
    fn failing_command_is_named_in_the_error() {
        let error = CommandLine::new("false", &[]).run().expect_err("`false` must fail");
        assert_eq!(error.to_string(), "`false` ended with exit status: 1");
    }

    #[test]
    fn missing_program_is_named_in_the_error() {
        let command = CommandLine::new("no-such-program-here", &["--flag"]);
        let error = command.run().expect_err("a program that does not exist must fail");
        assert!(error.to_string().contains("is `no-such-program-here` in PATH?"), "{error:#}");
    }
}
