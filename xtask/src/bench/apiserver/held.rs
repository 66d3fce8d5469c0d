//! A filled server that is held by a process of ours, for the runs that need one.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::super::line::Who;

/// A server that lives as long as this does.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) who: Who,
    pub(super) access: Access,
    child: Child,
    /// The process holds its server until this is closed, also by our end.
    input: Option<ChildStdin>,
}

/// How to reach and to measure a server.
#[derive(Debug, Deserialize)]
pub(super) struct Access {
    kubeconfig: String,
    pids: Vec<u32>,
}

impl Held {
    /// Starts and fills a server; its progress is shown by the process itself.
    ///
    /// # Errors
    /// If it does not start or cannot be filled.
    pub(super) fn start(program: &str, who: Who, objects: u32) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["serve", "--who", who.name(), "--objects", &objects.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{program} could not be started"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the output was piped")?;
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        let access = read.context("its output cannot be read").and_then(|_| Access::parse(&line));
        match access {
            Ok(access) => Ok(Self { who, access, child, input }),
            Err(error) => {
                drop(input);
                let status = child.wait()?;
                Err(error.context(format!("the {who} server is not there ({status}, see above)")))
            }
        }
    }
}

/// Closes the pipe, upon which the process ends its server and then itself.
impl Drop for Held {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

impl Access {
    fn parse(line: &str) -> Result<Self> {
        if line.is_empty() {
            bail!("it ended before it was ready");
        }
        serde_json::from_str(line).with_context(|| format!("this is no access: {line}"))
    }

    /// The arguments of a run on this server.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--kubeconfig".to_owned(), self.kubeconfig.clone()];
        for pid in &self.pids {
            arguments.extend(["--pid".to_owned(), pid.to_string()]);
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_becomes_arguments() {
        let access = Access::parse(r#"{"kubeconfig":"/k","pids":[7,8]}"#).expect("an access");
        assert_eq!(access.arguments(), ["--kubeconfig", "/k", "--pid", "7", "--pid", "8"]);
        assert!(Access::parse("").is_err());
        assert!(Access::parse("rubbish").is_err());
    }
}
