//! The real control plane for tests, built with Go from the module proxy into the cache folder.
//!
//! `crates/testenv/testserver` runs a real kube-apiserver with etcd if it finds one; this command
//! builds one on a machine that has only Go. [`binary`] defines what is built and how, [`release`]
//! which versions. This file has the flow: check what is missing, build it, put it in place.
//!
//! A program is built under a temporary name, and renamed once it answers with its version. So a
//! program with its final name works, and an interrupted run continues where it was.

mod binary;
mod progress;
mod release;

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::cache;
use crate::process::{CommandLine, Stopwatch};
use binary::Binary;
pub(crate) use release::OLDER_MINORS;
use release::Release;

/// Which programs to build; all of them by default.
#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Build this program alone; may be given several times.
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',')]
    only: Vec<Binary>,
    /// Print the folder that they are in, or would be, and build nothing.
    #[arg(long, conflicts_with = "only")]
    path: bool,
    /// Build an older minor version of Kubernetes, like 1.35, with the same etcd; ours by default.
    #[arg(long, value_name = "MINOR")]
    version: Option<String>,
}

/// Builds what is missing, or prints where it would be.
///
/// # Errors
/// If Go is missing or too old, if a program does not build, or if the folder cannot be written.
pub(crate) fn run(options: &Options) -> Result<()> {
    let release = Release::read(options.version.as_deref())?;
    let folder = cache::folder()?.join(release.folder_name());
    if options.path {
        println!("{}", folder.display());
        return Ok(());
    }
    let missing: Vec<Binary> =
        options.binaries().filter(|binary| !is_present(*binary, &release, &folder)).collect();
    if !missing.is_empty() {
        build_all(&missing, &release, &folder)?;
    }
    let names: Vec<_> = options.binaries().map(Binary::name).collect();
    println!("==> {} in {}", names.join(", "), folder.display());
    Ok(())
}

/// Returns the folder for the programs of an older minor version, which may not exist yet.
///
/// # Errors
/// If the version or the cache folder is unknown.
pub(crate) fn older_folder(minor: &str) -> Result<String> {
    let folder = cache::folder()?.join(Release::read(Some(minor))?.folder_name());
    text(&folder).map(str::to_owned)
}

impl Options {
    /// Returns the chosen programs in the order of [`Binary`], whatever the order of the options.
    fn binaries(&self) -> impl Iterator<Item = Binary> {
        Binary::value_variants()
            .iter()
            .copied()
            .filter(|binary| self.only.is_empty() || self.only.contains(binary))
            // One kubectl is enough: its tests compare our server with one of the same version.
            .filter(|binary| self.version.is_none() || *binary != Binary::Kubectl)
    }
}

fn is_present(binary: Binary, release: &Release, folder: &Path) -> bool {
    let is_present = check(binary, release, &folder.join(binary.name())).is_ok();
    if is_present {
        println!("    {} is there already", binary.name());
    }
    is_present
}

fn build_all(missing: &[Binary], release: &Release, folder: &Path) -> Result<()> {
    for binary in missing {
        // Both modules are checked before the first build, so that a missing toolchain is reported
        // at once.
        binary.check_toolchain(release)?;
    }
    fs::create_dir_all(folder)
        .with_context(|| format!("{} could not be created", folder.display()))?;
    for (index, &binary) in missing.iter().enumerate() {
        println!(
            "==> {}/{} building {}, {} on two cores if nothing is cached",
            index + 1,
            missing.len(),
            binary.name(),
            binary.expected_duration()
        );
        let watch = Stopwatch::start();
        build(binary, release, folder).with_context(|| {
            let flag = release.flag();
            format!("build it alone with: cargo xtask kube{flag} --only {}", binary.name())
        })?;
        println!("    {} took {:.0} s", binary.name(), watch.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Builds one program under a temporary name, and renames it once it answers with its version.
fn build(binary: Binary, release: &Release, folder: &Path) -> Result<()> {
    // Two concurrent runs waste time, but must not write into the same file.
    let unfinished = Unfinished(folder.join(format!(".{}.{}", binary.name(), process::id())));
    let command = binary.build(release, text(&unfinished.0)?);
    println!("    {command}");
    progress::shown(binary.name(), || command.run())?;
    check(binary, release, &unfinished.0)?;
    let path = folder.join(binary.name());
    fs::rename(&unfinished.0, &path)
        .with_context(|| format!("{} could not be put in its place", path.display()))
}

/// A file that is removed on drop, unless it was renamed.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Mostly it was renamed; and a file that cannot be removed is only a file in a cache.
        let _ = fs::remove_file(&self.0);
    }
}

/// Checks that the program at `path` runs and has the expected version.
fn check(binary: Binary, release: &Release, path: &Path) -> Result<()> {
    let output = CommandLine::new(text(path)?, binary.version_arguments()).capture()?;
    let first = output.lines().next().unwrap_or_default();
    let wanted = binary.version_line(release);
    ensure!(first == wanted, "{} says `{first}` instead of `{wanted}`", path.display());
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: Vec<Binary>) -> Vec<&'static str> {
        Options { only, ..Options::default() }.binaries().map(Binary::name).collect()
    }

    #[test]
    fn all_programs_are_built_by_default_and_the_quick_one_first() {
        assert_eq!(
            names(Vec::new()),
            ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"]
        );
    }

    #[test]
    fn only_the_asked_programs_are_built() {
        assert_eq!(names(vec![Binary::KubeApiserver, Binary::Etcd]), ["etcd", "kube-apiserver"]);
    }

    #[test]
    fn program_of_another_version_does_not_count() {
        let release = Release::read(None).expect("the modules must be there");
        // `echo --version` prints its own version or repeats the argument: neither is etcd's
        // answer.
        let error = check(Binary::Etcd, &release, Path::new("echo")).expect_err("echo is not etcd");
        assert!(error.to_string().contains("instead of `etcd Version: "), "{error:#}");
    }
}
