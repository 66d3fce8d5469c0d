//! The driver of the informer and controller suites: a process that runs a filled kube-apiserver,
//! and measures contestants against it.

use anyhow::{Result, ensure};
use serde_json::json;

use super::helper::Helper;
use super::programs::Programs;
use super::suite::Driver;

/// The stage of a suite.
#[derive(Debug)]
pub(super) struct Stage {
    helper: Helper,
    programs: Programs,
}

impl Stage {
    /// Starts the process and waits until it has filled its server. It prints its own progress.
    ///
    /// Every object gets at most one change, so that no contestant can merge two.
    ///
    /// # Errors
    /// If the process does not start, or cannot fill the server.
    pub(super) fn start(programs: Programs, objects: u32, changes_max: u32) -> Result<Self> {
        println!("==> fill a kube-apiserver");
        let changes = changes_max.min(objects / 2).to_string();
        let arguments = ["--objects", &objects.to_string(), "--changes", &changes];
        let mut helper = Helper::start(&programs.rust("stage"), &arguments)?;
        let line = helper.line()?;
        ensure!(line.trim() == "ready", "the stage printed {line:?} instead of `ready`");
        Ok(Self { helper, programs })
    }
}

impl Driver for Stage {
    fn run(&mut self, case: &str, whos: &[&str]) -> Result<String> {
        let program = |who| self.programs.of(who, "contestant");
        let entrants: Vec<_> =
            whos.iter().map(|who| json!({"who": who, "program": program(who)})).collect();
        self.helper.send(&json!({"case": case, "entrants": entrants}).to_string())?;
        let mut text = String::new();
        loop {
            let line = self.helper.line()?;
            if line.trim().is_empty() {
                return Ok(text);
            }
            text += &line;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(script: &str) -> Stage {
        let helper = Helper::start("sh", &["-c", script]).expect("sh");
        Stage { helper, programs: Programs::imagined("informer") }
    }

    #[test]
    fn lines_up_to_an_empty_one_answer_a_request() {
        let mut stage = stage("read -r a; echo \"$a\"; echo; read -r b; echo two; echo");
        let request = stage.run("sync", &["kube-runtime"]).expect("an answer");
        assert!(request.starts_with(r#"{"case":"sync","entrants":[{"program":"/"#), "{request}");
        assert!(request.ends_with("\"who\":\"kube-runtime\"}]}\n"), "{request}");
        assert_eq!(stage.run("sync", &["kube-runtime"]).expect("another"), "two\n");
    }

    #[test]
    fn stage_that_ends_in_the_middle_is_an_error() {
        let mut stage = stage("read -r a; echo half");
        stage.run("sync", &["windlass"]).expect_err("it ended");
    }
}
