//! The image of the website operator, without Docker: runs the build command of its Dockerfile, and
//! checks the result.
//!
//! The binary must be static, and must run as the user of the image in a root folder that contains
//! nothing else. Changing the root needs root rights; other users need `sudo` without a password.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::process::{CommandLine, workspace_root};

/// The user of the image.
const USER: &str = "65532:65532";

/// The name of the package, and of the binary.
const PROGRAM: &str = "website-operator";

/// Not musl, which has an allocator that is slow with threads and needs another toolchain.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The folder that becomes the root, relative to the workspace.
const ROOT: &str = "target/image-root";

/// The expected definition, relative to the workspace.
const DEFINITION: &str = "examples/website-operator/deploy/crd.yaml";

/// Builds the binary and runs it.
///
/// # Errors
/// If it cannot be built, is not static, or does not run.
pub(crate) fn run() -> Result<()> {
    build().run()?;
    let workspace = workspace_root()?;
    let binary = workspace.join("target").join(TARGET).join("release").join(PROGRAM);
    ensure_static(&binary)?;
    let root = workspace.join(ROOT);
    fill(&root, &binary).with_context(|| format!("{ROOT} cannot be filled"))?;
    println!("    {}", in_root(&["--version"])?.capture()?.trim());
    let printed = in_root(&["crd"])?.capture()?;
    let committed = fs::read_to_string(workspace.join(DEFINITION)).context(DEFINITION)?;
    ensure!(printed == committed, "`{PROGRAM} crd` does not print {DEFINITION}: commit it again");
    fs::remove_dir_all(&root).with_context(|| format!("{ROOT} cannot be removed"))
}

/// Returns the build command of the Dockerfile.
pub(crate) fn build() -> CommandLine {
    let how = ["build", "--release", "--locked", "--no-default-features"];
    let what = ["--package", PROGRAM, "--target", TARGET];
    CommandLine::new("cargo", &[how, what].concat())
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
}

/// A static binary names no interpreter. The name is a path, which would be in the binary.
fn ensure_static(binary: &Path) -> Result<()> {
    let binary = binary.to_str().context("the path of the binary is not text")?;
    let headers = CommandLine::new("readelf", &["--program-headers", binary]).capture()?;
    ensure!(!headers.contains("INTERP"), "{PROGRAM} is not static:\n{headers}");
    Ok(())
}

/// Fills a root folder with the binary alone.
fn fill(root: &Path, binary: &Path) -> Result<()> {
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    fs::create_dir_all(root)?;
    fs::copy(binary, root.join(PROGRAM))?;
    Ok(())
}

/// Returns a command that runs the program in its root, as its user.
fn in_root(arguments: &[&str]) -> Result<CommandLine> {
    let (user, program) = (format!("--userspec={USER}"), format!("/{PROGRAM}"));
    let chroot = ["chroot", &user, ROOT, &program];
    let is_root = CommandLine::new("id", &["-u"]).capture()?.trim() == "0";
    let sudo: &[&str] = if is_root { &[] } else { &["sudo", "-n"] };
    let line = [sudo, &chroot, arguments].concat();
    Ok(CommandLine::new(line[0], &line[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dockerfile_has_the_same_build_command() {
        let path = "../examples/website-operator/Dockerfile";
        let dockerfile = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let dockerfile = fs::read_to_string(dockerfile).expect("the Dockerfile");
        let line = format!("RUN {}", build());
        assert!(dockerfile.lines().any(|one| one == line), "no line {line:?}");
        assert!(dockerfile.contains(&format!("USER {USER}")));
    }
}
