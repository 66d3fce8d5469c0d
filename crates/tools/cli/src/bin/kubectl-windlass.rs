//! `kubectl windlass`: kubectl calls the program of this name.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass_cli::kubectl_main()
}
