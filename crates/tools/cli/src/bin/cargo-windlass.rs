//! `cargo windlass`: cargo calls the program of this name.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_cli::cargo_main()
}
