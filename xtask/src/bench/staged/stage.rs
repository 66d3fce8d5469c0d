//! The process that holds the filled server and measures contestants on it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::super::line::Who;

/// The stage, for as long as this lives.
#[derive(Debug)]
pub(super) struct Stage {
    child: Child,
    /// The process goes on until this is closed, also by our end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Stage {
    /// Starts the process and waits until it has filled its server; it shows its progress by itself.
    ///
    /// # Errors
    /// If it does not start, or cannot fill the server.
    pub(super) fn start(program: &str, objects: u32, changes: u32) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["--objects", &objects.to_string(), "--changes", &changes.to_string()]);
        Self::spawn(&mut command)
    }

    /// Measures one run of contestants with their programs, and returns what the process printed for it.
    ///
    /// # Errors
    /// If the process fails; it has said why on its standard error.
    pub(super) fn measure<'p>(
        &mut self,
        case: &str,
        entrants: impl IntoIterator<Item = (Who, &'p str)>,
    ) -> Result<String> {
        let entrant = |(who, program)| json!({"who": who, "program": program});
        let entrants: Vec<_> = entrants.into_iter().map(entrant).collect();
        let request = json!({"case": case, "entrants": entrants});
        let input = self.input.as_mut().context("the stage must be open")?;
        writeln!(input, "{request}").context("the stage has ended (see above)")?;
        let mut text = String::new();
        loop {
            let line = self.line()?;
            if line.trim().is_empty() {
                return Ok(text);
            }
            text += &line;
        }
    }

    fn spawn(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{command:?} could not be started"))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("the output was piped")?);
        let mut stage = Self { child, input, output };
        let line = stage.line()?;
        ensure!(line.trim() == "ready", "the stage said {line:?} instead of being ready");
        Ok(stage)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).context("the stage cannot be read")?;
        if read == 0 {
            bail!("the stage has ended with {} (see above)", self.child.wait()?);
        }
        Ok(line)
    }
}

/// Closes the pipe, upon which the process ends its server and then itself.
impl Drop for Stage {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(stage: &mut Stage) -> Result<String> {
        stage.measure("sync-read", [(Who::KubeRuntime, "/p")])
    }

    fn stage(script: &str) -> Result<Stage> {
        Stage::spawn(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn lines_up_to_an_empty_one_answer_a_request() {
        let script = "echo ready; read -r a; echo \"$a\"; echo; read -r b; echo two; echo";
        let mut stage = stage(script).expect("a shell");
        let answer = measure(&mut stage).expect("an answer");
        assert_eq!(
            answer,
            "{\"case\":\"sync-read\",\"entrants\":[{\"program\":\"/p\",\"who\":\"kube-runtime\"}]}\n"
        );
        assert_eq!(measure(&mut stage).expect("another"), "two\n");
    }

    #[test]
    fn stage_that_ends_is_noticed() {
        let error = stage("exit 3").expect_err("it is never ready");
        assert!(error.to_string().contains("exit status: 3"), "{error:#}");
        let mut stage = stage("echo ready; read -r a; echo half").expect("a shell");
        measure(&mut stage).expect_err("it ends in the middle");
    }
}
