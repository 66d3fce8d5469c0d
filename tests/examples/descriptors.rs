//! Compiles the published `.proto` files of Kubernetes into `src/protobuf/descriptors.bin`, which
//! the conformance suite uses to write and read protobuf.
//!
//! The embedded server has its own table, generated from the same files in another way: a mistake
//! in one of the two appears as a difference. Run
//! `cargo run -p windlass-tests --example descriptors` after `cargo xtask kube` moves to another
//! release. It needs Go, which finds the files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use protox::Compiler;
use protox::file::{File, FileResolver};

/// The packages of the messages in the cases; their imports are included.
const PACKAGES: [&str; 17] = [
    "k8s.io/api/apps/v1",
    "k8s.io/api/authentication/v1",
    "k8s.io/api/authorization/v1",
    "k8s.io/api/autoscaling/v1",
    "k8s.io/api/autoscaling/v2",
    "k8s.io/api/batch/v1",
    "k8s.io/api/coordination/v1",
    "k8s.io/api/core/v1",
    "k8s.io/api/discovery/v1",
    "k8s.io/api/events/v1",
    "k8s.io/api/networking/v1",
    "k8s.io/api/policy/v1",
    "k8s.io/api/rbac/v1",
    "k8s.io/api/scheduling/v1",
    "k8s.io/api/storage/v1",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
    "k8s.io/apimachinery/pkg/apis/meta/v1",
];

/// Finds files in the modules from which the control plane is built.
struct Modules {
    /// The modules with their folders.
    folders: Vec<(&'static str, PathBuf)>,
}

impl Modules {
    fn find() -> Result<Self> {
        let modules = ["k8s.io/api", "k8s.io/apiextensions-apiserver", "k8s.io/apimachinery"];
        let folders = modules.into_iter().map(|module| Ok((module, folder(module)?)));
        Ok(Self { folders: folders.collect::<Result<_>>()? })
    }
}

impl FileResolver for Modules {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        for (module, folder) in &self.folders {
            if let Some(rest) = name.strip_prefix(module).and_then(|rest| rest.strip_prefix('/')) {
                let source = std::fs::read_to_string(folder.join(rest));
                let source = source.map_err(protox::Error::new)?;
                return File::from_source(name, &source);
            }
        }
        Err(protox::Error::file_not_found(name))
    }
}

fn main() -> Result<()> {
    let mut compiler = Compiler::with_file_resolver(Modules::find()?);
    compiler.include_imports(true).include_source_info(false);
    compiler.open_files(PACKAGES.map(|package| format!("{package}/generated.proto")))?;
    let bytes = compiler.encode_file_descriptor_set();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/protobuf/descriptors.bin");
    std::fs::write(&path, &bytes).with_context(|| format!("{} is not written", path.display()))?;
    println!("==> {}: {} bytes", path.display(), bytes.len());
    Ok(())
}

/// Returns the folder of a module, in the release that `cargo xtask kube` builds.
fn folder(module: &str) -> Result<PathBuf> {
    let pins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/kube/control-plane");
    let mut go = Command::new("go");
    go.args(["list", "-m", "-f", "{{.Dir}}", module]).current_dir(pins);
    let output = go.output().context("go is not there")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().into())
}
