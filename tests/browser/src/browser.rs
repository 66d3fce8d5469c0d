//! A headless Chromium.

use anyhow::{Context as _, Result, anyhow};
use chromiumoxide::browser::{Browser as Chromium, BrowserConfig};
use futures::StreamExt as _;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::page::Page;

/// A running browser. It ends when this is dropped.
#[derive(Debug)]
pub struct Browser {
    chromium: Chromium,
    /// Handles the browser's messages; nothing works without it.
    reader: JoinHandle<()>,
    _profile: TempDir,
}

impl Browser {
    /// Starts Chromium with an empty profile.
    ///
    /// # Errors
    /// If Chromium is not installed.
    pub async fn start() -> Result<Self> {
        let profile = tempfile::tempdir().context("there must be a folder for the profile")?;
        let config = BrowserConfig::builder()
            .new_headless_mode()
            // The sandbox needs rights that containers do not have. The pages are our own.
            .no_sandbox()
            .user_data_dir(profile.path())
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"])
            .build()
            .map_err(|error| anyhow!("{error}; on Debian: apt-get install chromium"))?;
        let (chromium, mut messages) =
            Chromium::launch(config).await.context("Chromium does not start")?;
        let reader = tokio::spawn(async move { while messages.next().await.is_some() {} });
        Ok(Self { chromium, reader, _profile: profile })
    }

    /// Opens a page.
    ///
    /// # Errors
    /// If the page cannot be loaded.
    pub async fn open(&self, url: &str) -> Result<Page> {
        let page = self.chromium.new_page("about:blank").await?;
        Page::load(page, url).await
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
