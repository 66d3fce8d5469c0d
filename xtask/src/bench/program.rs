//! The programs of a suite: where they are, how they are built, and one run of one of them.

use anyhow::{Context, Result};
use cargo_metadata::MetadataCommand;
use cargo_metadata::camino::Utf8PathBuf;

use super::line::{self, Measured, Metric, Who};
use crate::process::{CommandLine, Stopwatch, workspace_root};

/// Cargo's target folder, wherever that is.
///
/// # Errors
/// If cargo does not tell.
pub(super) fn target_folder() -> Result<Utf8PathBuf> {
    let metadata = MetadataCommand::new()
        .current_dir(workspace_root()?)
        .no_deps()
        .exec()
        .context("`cargo metadata` failed, so the target folder is not known")?;
    Ok(metadata.target_directory)
}

/// Runs the command that builds one side, under a heading.
///
/// # Errors
/// If it does not build.
pub(super) fn build(side: &str, command: &CommandLine) -> Result<()> {
    println!("==> build {side}: {command}");
    let watch = Stopwatch::start();
    command.run()?;
    println!("    built in {:.1} s", watch.elapsed().as_secs_f64());
    Ok(())
}

/// Runs one process and reads what it printed.
///
/// # Errors
/// If it fails or prints something else than the `required` metrics of what was `asked`; the error has the
/// command that repeats it.
pub(super) fn read(
    command: &CommandLine,
    asked: (&str, &str, Who),
    required: &[Metric],
) -> Result<Measured> {
    let (_, case, who) = asked;
    let outcome = command.capture().and_then(|output| line::parse(&output, asked, required));
    outcome.with_context(|| {
        format!("{who} gave no result for {case}; repeat it alone with: {command}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: [Metric; 4] = [Metric::Throughput, Metric::CpuS, Metric::WallS, Metric::PeakMb];

    /// What comes of a process that behaves like this script.
    fn outcome(script: &str) -> Result<Measured> {
        let command = CommandLine::new("sh", &["-c", script]);
        read(&command, ("queue", "backlog", Who::Windlass), &METRICS)
    }

    #[test]
    fn lines_of_a_process_are_read() {
        let script = r#"for metric in throughput cpu_s wall_s peak_mb; do
            echo '{"suite":"queue","case":"backlog","who":"windlass","metric":"'$metric'","value":2}'
        done"#;
        let measured = outcome(script).expect("a process that does as it should");
        assert_eq!(measured.into_iter().collect::<Vec<_>>(), METRICS.map(|metric| (metric, 2.0)));
    }

    #[test]
    fn failing_process_is_shown_with_the_command_that_repeats_it() {
        let error = outcome("echo stuck >&2; exit 1").expect_err("the script must fail");
        assert_eq!(
            error.to_string(),
            "windlass gave no result for backlog; repeat it alone with: \
             sh -c 'echo stuck >&2; exit 1'"
        );
        assert_eq!(error.root_cause().to_string(), "stuck");
    }

    #[test]
    fn rubbish_is_shown_with_the_command_that_repeats_it() {
        let error = outcome("echo rubbish").expect_err("the script must be refused");
        assert!(error.to_string().ends_with("repeat it alone with: sh -c 'echo rubbish'"));
        assert!(format!("{error:#}").contains("this line is not a metric: rubbish"), "{error:#}");
    }
}
