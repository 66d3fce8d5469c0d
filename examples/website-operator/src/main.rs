//! The program.
use kube::CustomResourceExt as _;
fn main() -> anyhow::Result<()> {
    print!("{}", serde_saphyr::to_string(&website_operator::Website::crd())?);
    Ok(())
}
