//! Records what a real kube-apiserver answers, for `cargo xtask record`. Tests only compare.

use clap::Parser;
use windlass_tests::{cases, roles, runner};
use windlass_testserver::ControlPlane;

/// What to record from a real kube-apiserver.
#[derive(Parser)]
enum Options {
    /// The cases of the conformance suite, into tests/recordings.
    Cases {
        /// Only cases whose name or area contains this.
        filter: Option<String>,
    },
    /// The roles that the server starts with.
    Roles,
}

fn main() -> anyhow::Result<()> {
    match Options::parse() {
        Options::Cases { filter } => {
            let filter = filter.unwrap_or_default();
            let is_wanted = |text: &str| text.contains(&filter);
            for case in cases::ALL.iter().filter(|it| is_wanted(it.name) || is_wanted(it.area)) {
                println!("{}: {}", case.area, case.name);
                runner::record(case);
            }
        }
        Options::Roles => {
            let runtime = tokio::runtime::Runtime::new()?;
            let roles = runtime.block_on(async {
                let cluster = ControlPlane::shared().await?;
                anyhow::Ok(roles::read_from(cluster.client()?).await)
            })?;
            std::fs::write(roles::recording(), roles)?;
        }
    }
    Ok(())
}
