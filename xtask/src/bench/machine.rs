//! The machine that a result is from: without it, a number means nothing to another person.

use std::fs;
use std::thread;

use anyhow::Result;

use crate::process::CommandLine;

/// The processor and how many threads it runs at once, like `Intel(R) Xeon(R) Processor, 2 cores`.
pub(super) fn processor() -> String {
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
pub(super) fn rustc() -> Result<String> {
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
