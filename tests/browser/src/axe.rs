//! Accessibility checks by axe-core.

use anyhow::{Context as _, Result};

use crate::page::Page;

/// The variable with the folder of axe-core as installed by npm. `cargo xtask browser` sets it.
const FOLDER: &str = "WINDLASS_AXE";

/// Returns the accessibility violations of the page: rules of axe-core, and the elements that break
/// them.
///
/// # Errors
/// If axe-core is missing.
pub async fn violations(page: &Page) -> Result<Vec<String>> {
    let folder = std::env::var(FOLDER)
        .with_context(|| format!("{FOLDER} is not set; use `cargo xtask browser`"))?;
    let file = format!("{folder}/node_modules/axe-core/axe.min.js");
    let source = std::fs::read_to_string(&file).context(file)?;
    // `true` replaces the script's own value, which may have any type.
    let _: bool = page.evaluate(&format!("{source}\n;true")).await?;
    page.evaluate(
        "axe.run().then(found => found.violations.map(broken => \
         broken.id + ': ' + broken.nodes.map(node => node.html + ' ' + node.failureSummary).join('; ')))",
    )
    .await
}
