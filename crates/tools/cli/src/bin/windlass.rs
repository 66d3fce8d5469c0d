//! `windlass`: the same program as `cargo windlass`.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_cli::main()
}
