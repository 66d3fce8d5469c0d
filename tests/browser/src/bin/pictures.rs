//! Draws the pictures in `docs/dashboard`: every view, wide and light, and narrow and dark.
//! The tests draw all four combinations, into their `target/pictures`.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;
use windlass_browser_tests::{Browser, Operator, SIZES, Scheme, VIEWS};

#[tokio::main]
async fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dashboard");
    std::fs::create_dir_all(&folder)?;
    let operator = Operator::start("website-operator", &["--dashboard", "127.0.0.1:0"])?;
    let browser = Browser::start().await?;
    let page = browser.open(operator.url()).await?;
    // The plots show a minute.
    sleep(Duration::from_secs(60)).await;
    for (size, scheme) in [(SIZES[0], Scheme::Light), (SIZES[1], Scheme::Dark)] {
        page.look(size, scheme).await?;
        for view in VIEWS {
            view.open(&page).await?;
            let file = view.file(&folder, size, scheme);
            page.picture(&file).await?;
            println!("{}", file.display());
        }
    }
    Ok(())
}
