//! A program of a benchmark, from its runtime to its exit code.

use std::process::ExitCode;

use anyhow::Result;

/// Runs a program to its end, with all cores; an error is shown under its name.
pub fn program(name: &str, work: impl Future<Output = Result<()>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(work));
    // Not returned, because that would show a backtrace as well where those are switched on.
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
