//! A process that is started once and serves many runs, over its standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

/// The process. It ends when its standard input is closed, so also when this program ends.
#[derive(Debug)]
pub(super) struct Helper {
    child: Child,
    /// `Some` until the drop.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Helper {
    /// Starts the process.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(program: &str, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{program} could not be started"))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("the output must be piped")?);
        Ok(Self { child, input, output })
    }

    /// Writes a line to the process.
    ///
    /// # Errors
    /// If the process has ended.
    pub(super) fn send(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("the input must be open")?;
        writeln!(input, "{line}").context("the process has ended (see above)")
    }

    /// Waits for a line from the process.
    ///
    /// # Errors
    /// If the process has ended. It printed the reason to its standard error.
    pub(super) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the process has ended with {} (see above)", self.child.wait()?);
        }
        Ok(line)
    }
}

/// Closes the input, and waits until the process has ended.
impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_both_ways() {
        let mut helper = Helper::start("sh", &["-c", "read -r a; echo \"$a, too\""]).expect("sh");
        helper.send("hello").expect("it reads");
        assert_eq!(helper.line().expect("an answer"), "hello, too\n");
    }

    #[test]
    fn end_of_the_process_is_noticed() {
        let mut helper = Helper::start("sh", &["-c", "exit 3"]).expect("sh");
        let error = helper.line().expect_err("it says nothing");
        assert!(error.to_string().contains("exit status: 3"), "{error:#}");
    }
}
