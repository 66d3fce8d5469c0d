//! An open page: the actions of a person, and what the page shows.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chromiumoxide::Page as Tab;
use chromiumoxide::cdp::browser_protocol::emulation::{
    MediaFeature, SetDeviceMetricsOverrideParams, SetEmulatedMediaParams,
};
use chromiumoxide::cdp::browser_protocol::log::{EventEntryAdded, LogEntryLevel};
use chromiumoxide::cdp::browser_protocol::page::CaptureScreenshotFormat;
use chromiumoxide::cdp::js_protocol::runtime::{
    ConsoleApiCalledType, EventConsoleApiCalled, EventExceptionThrown,
};
use chromiumoxide::page::ScreenshotParams;
use futures::StreamExt as _;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

/// How long to wait for something to appear. Generous, because only a failing test waits for all of
/// it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the page is polled meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The preferred colour scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Dark text on a light page.
    Light,
    /// Light text on a dark page.
    Dark,
}

impl Scheme {
    /// Returns its name in CSS.
    pub fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// An open page.
#[derive(Debug)]
pub struct Page {
    tab: Tab,
    errors: Arc<Mutex<Vec<String>>>,
}

impl Page {
    pub(crate) async fn load(tab: Tab, url: &str) -> Result<Self> {
        let page = Self { tab, errors: Arc::default() };
        page.collect_errors().await?;
        page.tab.goto(url).await.with_context(|| format!("{url} cannot be opened"))?;
        Ok(page)
    }

    /// Records the errors in the console from now on.
    async fn collect_errors(&self) -> Result<()> {
        self.tab.enable_log().await?;
        self.tab.enable_runtime().await?;
        let mut calls = self.tab.event_listener::<EventConsoleApiCalled>().await?;
        let mut exceptions = self.tab.event_listener::<EventExceptionThrown>().await?;
        let mut entries = self.tab.event_listener::<EventEntryAdded>().await?;
        let errors = Arc::clone(&self.errors);
        tokio::spawn(async move {
            loop {
                let error = tokio::select! {
                    Some(call) = calls.next() => (call.r#type == ConsoleApiCalledType::Error)
                        .then(|| format!("{:?}", call.args)),
                    Some(thrown) = exceptions.next() => Some(format!("{:?}", thrown.exception_details)),
                    Some(entry) = entries.next() => (entry.entry.level == LogEntryLevel::Error)
                        .then(|| format!("{} {:?}", entry.entry.text, entry.entry.url)),
                    else => break,
                };
                errors.lock().expect("no panic").extend(error);
            }
        });
        Ok(())
    }

    /// Returns the errors in the console since the last call.
    pub fn take_errors(&self) -> Vec<String> {
        std::mem::take(&mut self.errors.lock().expect("no panic"))
    }

    /// Displays the page with this width and height, in these colours.
    ///
    /// # Errors
    /// If the browser has ended.
    pub async fn look(&self, (width, height): (i64, i64), scheme: Scheme) -> Result<()> {
        let size = SetDeviceMetricsOverrideParams::new(width, height, 1.0, width < 600);
        self.tab.execute(size).await?;
        let colours = MediaFeature::new("prefers-color-scheme", scheme.name());
        // Turns off animations, for stable pictures.
        let still = MediaFeature::new("prefers-reduced-motion", "reduce");
        let media = SetEmulatedMediaParams::builder().features([colours, still]).build();
        self.tab.execute(media).await?;
        Ok(())
    }

    /// Evaluates JavaScript; a promise is awaited.
    ///
    /// # Errors
    /// If it throws, or if the value has another type.
    pub async fn evaluate<T: DeserializeOwned>(&self, script: &str) -> Result<T> {
        let value = self.tab.evaluate(script).await.with_context(|| script.to_owned())?;
        value.into_value().with_context(|| script.to_owned())
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// If it is still false after a minute, with what the page shows then.
    pub async fn wait_until(&self, expression: &str) -> Result<()> {
        let waiting = async {
            while !matches!(self.evaluate::<bool>(&format!("!!({expression})")).await, Ok(true)) {
                sleep(LOOK_EVERY).await;
            }
        };
        if timeout(PATIENCE, waiting).await.is_err() {
            let shown: String = self.evaluate("document.body.innerText").await.unwrap_or_default();
            bail!(
                "never true: {expression}\nThe console: {:?}\nThe page:\n{shown}",
                self.take_errors()
            );
        }
        Ok(())
    }

    /// Waits until the page shows this text.
    ///
    /// # Errors
    /// As [`Page::wait_until`].
    pub async fn wait_for_text(&self, text: &str) -> Result<()> {
        let text = serde_json::to_string(text)?;
        self.wait_until(&format!("document.body.innerText.includes({text})")).await
    }

    /// Waits for an element, and clicks its middle as a person does.
    ///
    /// # Errors
    /// If there is no such element, or if it cannot be clicked.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let quoted = serde_json::to_string(selector)?;
        let clicking = async {
            loop {
                self.wait_until(&format!("document.querySelector({quoted})")).await?;
                // The page may redraw between finding an element and clicking it.
                if let Ok(element) = self.tab.find_element(selector).await
                    && element.click().await.is_ok()
                {
                    return anyhow::Ok(());
                }
                sleep(LOOK_EVERY).await;
            }
        };
        timeout(PATIENCE, clicking)
            .await
            .with_context(|| format!("{selector} cannot be clicked"))?
    }

    /// Types into an element.
    ///
    /// # Errors
    /// If there is no such element.
    pub async fn type_into(&self, selector: &str, text: &str) -> Result<()> {
        self.click(selector).await?;
        self.tab.find_element(selector).await?.type_str(text).await?;
        Ok(())
    }

    /// Presses a key, such as `Enter`, at the current focus.
    ///
    /// # Errors
    /// If there is no such key.
    pub async fn press(&self, key: &str) -> Result<()> {
        self.tab.find_element(":focus, body").await?.press_key(key).await?;
        Ok(())
    }

    /// Goes to another view of the same page, such as `#/runs`.
    ///
    /// # Errors
    /// If the browser has ended.
    pub async fn go(&self, route: &str) -> Result<()> {
        let route = serde_json::to_string(route)?;
        let _: String = self.evaluate(&format!("location.hash = {route}")).await?;
        Ok(())
    }

    /// Returns how many frames a second the page draws, averaged over this time.
    ///
    /// # Errors
    /// If the browser has ended.
    pub async fn frames_per_second(&self, during: Duration) -> Result<f64> {
        let script = "window.frames_drawn = 0; \
            const count = () => { window.frames_drawn += 1; requestAnimationFrame(count); }; \
            requestAnimationFrame(count)";
        let _: bool = self.evaluate(&format!("(() => {{ {script}; return true; }})()")).await?;
        sleep(during).await;
        let frames: f64 = self.evaluate("window.frames_drawn").await?;
        Ok(frames / during.as_secs_f64())
    }

    /// Closes the page.
    ///
    /// # Errors
    /// If the browser has ended.
    pub async fn close(self) -> Result<()> {
        self.tab.close().await?;
        Ok(())
    }

    /// Writes a screenshot of the visible part.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub async fn picture(&self, file: &Path) -> Result<()> {
        let parameters = ScreenshotParams::builder().format(CaptureScreenshotFormat::Png).build();
        self.tab
            .save_screenshot(parameters, file)
            .await
            .with_context(|| format!("{}", file.display()))?;
        Ok(())
    }
}
