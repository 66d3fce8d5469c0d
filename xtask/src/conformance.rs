//! The conformance suite: compares the servers with the recordings, or records them again.
//!
//! The recordings in `tests/recordings` are the answers of the real server. They are made only by
//! this command, never by hand, so that a difference between the servers is a fact, not an opinion.

use anyhow::Result;
use clap::Args;

use crate::process::CommandLine;
use crate::test;

/// What to do with the suite; by default it runs on both servers and compares.
#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Ask the real server, and write its answers into tests/recordings.
    #[arg(long)]
    record: bool,
    /// Only cases whose name or area contains this.
    #[arg(value_name = "CASE")]
    case: Option<String>,
}

/// Runs the suite.
///
/// # Errors
/// If a server does not answer as recorded, or if the control plane's binaries are neither found
/// nor built.
pub(crate) fn run(options: &Options) -> Result<()> {
    test::ensure_binaries()?;
    let command = options.command();
    println!("==> {command}");
    command.run()?;
    if options.record {
        println!("==> recorded; look at the changes with: git diff tests/recordings");
    }
    Ok(())
}

impl Options {
    fn command(&self) -> CommandLine {
        let mut arguments = vec!["test", "--package", "windlass-tests", "--test", "conformance"];
        arguments.push("--");
        if self.record {
            // The embedded tests would compare with a recording that is being written.
            arguments.extend([self.case.as_deref().unwrap_or("real::"), "--skip", "embedded::"]);
        } else {
            arguments.extend(self.case.as_deref());
        }
        let command =
            CommandLine::new("cargo", &arguments).env(test::REAL_TIER.0, test::REAL_TIER.1);
        if self.record { command.env("WINDLASS_CONFORMANCE", "record") } else { command }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(record: bool, case: Option<&str>) -> String {
        Options { record, case: case.map(str::to_owned) }.command().to_string()
    }

    #[test]
    fn suite_runs_on_both_servers_by_default() {
        assert_eq!(
            shown(false, None),
            "WINDLASS_TEST_REAL=1 cargo test --package windlass-tests --test conformance --"
        );
    }

    #[test]
    fn recording_asks_the_real_server_only() {
        let all = shown(true, None);
        assert!(all.contains("WINDLASS_CONFORMANCE=record"), "{all}");
        assert!(all.ends_with("-- real:: --skip embedded::"), "{all}");
        let one = shown(true, Some("some_case"));
        assert!(one.ends_with("-- some_case --skip embedded::"), "{one}");
    }
}
