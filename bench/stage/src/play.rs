//! A contestant that is written in Rust: it does as the stage says.

use std::path::Path;
use std::pin::Pin;

use anyhow::{Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::JoinSet;

use crate::trim;

/// What is measured, as it begins: it goes on until it fails.
pub type Start = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Does what each line of the input says, until there are no more: `start` makes what is measured,
/// of the way to the server; `expect` makes it count so many changes that are stamped after a time.
///
/// # Errors
/// If there is no such server, if what is measured fails, or if the stage says something unknown.
pub async fn play(
    kubeconfig: &Path,
    start: impl Fn(kube::Config) -> Start,
    expect: impl Fn(usize, u64),
) -> Result<()> {
    let parsed = Kubeconfig::read_from(kubeconfig)?;
    let config =
        kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut started = JoinSet::new();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line?,
            Some(ended) = started.join_next() => return ended?,
        };
        let Some(line) = line else { return Ok(()) };
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["start"] => {
                started.spawn(start(config.clone()));
            }
            ["trim"] => {
                trim();
                println!("trimmed");
            }
            ["expect", count, since] => {
                expect(count.parse()?, since.parse()?);
                println!("expecting");
            }
            _ => bail!("unknown command {line:?}"),
        }
    }
}
