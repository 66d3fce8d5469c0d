//! Accessibility, as axe-core judges it.

use anyhow::{Context as _, Result};

use crate::page::Page;

/// Names the folder of axe-core, as npm installs it. `cargo xtask browser` sets it.
const FOLDER: &str = "WINDLASS_AXE";

/// What is hard to use in the page that is shown: rules of axe-core, and the elements that break
/// them.
///
/// # Errors
/// If axe-core is not there.
pub async fn violations(page: &Page) -> Result<Vec<String>> {
    let folder = std::env::var(FOLDER)
        .with_context(|| format!("{FOLDER} is not set; use `cargo xtask browser`"))?;
    let file = format!("{folder}/node_modules/axe-core/axe.min.js");
    let source = std::fs::read_to_string(&file).context(file)?;
    // Its last value may be anything.
    let _: bool = page.evaluate(&format!("{source}\n;true")).await?;
    page.evaluate(
        "axe.run().then(found => found.violations.map(broken => \
         broken.id + ': ' + broken.nodes.map(node => node.html + ' ' + node.failureSummary).join('; ')))",
    )
    .await
}
