//! Makes recordings, for `cargo xtask record`: mostly of the answers of a real kube-apiserver.
//! Tests only compare.

use anyhow::Result;
use clap::Parser;
use kube::Client;
use windlass_tests::{cases, mistakes, observed, roles, runner};
use windlass_testserver::ControlPlane;

/// What to record, from a real kube-apiserver unless it says otherwise.
#[derive(Parser)]
enum Options {
    /// The cases of the conformance suite, into tests/recordings.
    Cases {
        /// Only cases whose name or area contains this.
        filter: Option<String>,
    },
    /// The roles that the server starts with.
    Roles,
    /// The files `observed.json` in crates/testenv/apiserver/src.
    Observed,
    /// What the compiler says about the mistakes in tests/mistakes; needs no server.
    Mistakes,
}

fn main() -> Result<()> {
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
            let roles = on_real_server(async |client| Ok(roles::read_from(client).await))?;
            std::fs::write(roles::recording(), roles)?;
        }
        Options::Observed => on_real_server(observed::record)?,
        Options::Mistakes => {
            for mistake in mistakes::all()? {
                std::fs::write(mistake.recording(), mistake.explanation()?)?;
            }
        }
    }
    Ok(())
}

/// Runs `record` with a client of the real server.
fn on_real_server<T>(record: impl AsyncFnOnce(Client) -> Result<T>) -> Result<T> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let cluster = ControlPlane::shared().await?;
        record(cluster.client()?).await
    })
}
