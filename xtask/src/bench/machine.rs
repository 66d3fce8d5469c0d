//! The machine that a result is from: without it, a number means nothing to another person.

use std::fs;
use std::thread;

use anyhow::Result;

use super::go::Module;
use super::rounds;
use crate::process::CommandLine;

/// What a reader has to know of a run: the machine, the tools, the size and the rounds. Asking for it also finds out
/// whether Go is there, if a side of the suite needs it.
///
/// # Errors
/// If a toolchain is missing or too old.
pub(super) fn line(go: Option<Module>, size: &str, rounds: u32) -> Result<String> {
    let mut parts = vec![processor()];
    if let Some(module) = go {
        parts.push(module.toolchain()?);
    }
    parts.extend([rustc()?, size.to_owned(), rounds::spoken(rounds)]);
    Ok(parts.join("; "))
}

/// The processor and how many threads it runs at once, like `Intel(R) Xeon(R) Processor, 2 cores`.
fn processor() -> String {
    // Other systems than Linux lack the file; the rest of the line is worth printing all the same.
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model_name(&information).unwrap_or("unknown CPU");
    match thread::available_parallelism().map(usize::from) {
        Ok(1) => format!("{model}, 1 core"),
        Ok(cores) => format!("{model}, {cores} cores"),
        Err(_) => format!("{model}, unknown number of cores"),
    }
}

/// The compiler that builds our side, like `rustc 1.95.0`.
///
/// # Errors
/// If there is no compiler.
fn rustc() -> Result<String> {
    let output = CommandLine::new("rustc", &["--version"]).capture()?;
    Ok(output.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

fn model_name(information: &str) -> Option<&str> {
    let line = information.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_is_the_first_processors() {
        let information = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n";
        assert_eq!(model_name(information), Some("Some CPU @ 2 GHz"));
        assert_eq!(model_name("processor\t: 0\n"), None);
    }
}
