//! Draws the pictures in `docs/dashboard`: every view, wide and narrow, light and dark.

use std::path::Path;

use anyhow::Result;
use windlass_browser_tests::{Browser, Operator, SCHEMES, SIZES, VIEWS};

#[tokio::main]
async fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dashboard");
    std::fs::create_dir_all(&folder)?;
    let operator = Operator::start("website-operator", &["--dashboard", "127.0.0.1:0"])?;
    let browser = Browser::start().await?;
    let page = browser.open(operator.url()).await?;
    for size in SIZES {
        for scheme in SCHEMES {
            page.look(size, scheme).await?;
            for view in VIEWS {
                view.open(&page).await?;
                let file = view.file(&folder, size, scheme);
                page.picture(&file).await?;
                println!("{}", file.display());
            }
        }
    }
    Ok(())
}
