//! Draws the pictures in `docs/dashboard`, which the README and the guide show. The tests draw
//! every view in all sizes and colour schemes, into their `target/pictures`.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;
use windlass_browser_tests::{Browser, Operator, SIZES, Scheme, VIEWS};

/// The views that a page of the documentation shows.
const SHOWN: [&str; 3] = ["overview", "key", "story"];

#[tokio::main]
async fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dashboard");
    std::fs::create_dir_all(&folder)?;
    let operator = Operator::start("website-operator", &["--dashboard", "127.0.0.1:0"])?;
    let browser = Browser::start().await?;
    let page = browser.open(operator.url()).await?;
    // The plots show a minute.
    sleep(Duration::from_secs(60)).await;
    let (size, scheme) = (SIZES[0], Scheme::Light);
    page.look(size, scheme).await?;
    for view in VIEWS.iter().filter(|view| SHOWN.contains(&view.name)) {
        view.open(&page).await?;
        let file = view.file(&folder, size, scheme);
        page.picture(&file).await?;
        println!("{}", file.display());
    }
    Ok(())
}
