//! The conformance suite: both servers, compared with the recordings in `tests/recordings`.

use anyhow::Result;
use clap::Args;

use crate::process::CommandLine;
use crate::test;

/// Which cases to run; all by default.
#[derive(Args, Debug, Default)]
pub(crate) struct Options {
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
    command.run()
}

impl Options {
    fn command(&self) -> CommandLine {
        let mut arguments = vec!["test", "--package", "windlass-tests", "--test", "conformance"];
        arguments.extend(["--", "--include-ignored"]);
        arguments.extend(self.case.as_deref());
        CommandLine::new("cargo", &arguments)
    }
}
