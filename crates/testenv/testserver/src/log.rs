//! Captures what a test logs.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Level};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Captures everything that the thread that created it logs, until it is dropped.
///
/// The tasks of a `#[tokio::test]` log on its thread as well, unless it asks for more threads.
///
/// ```
/// let log = windlass_testserver::Log::start();
/// tracing::info!(object = "shop/web", "created");
/// tracing::debug!("not shown");
/// assert_eq!(log.lines().len(), 1);
/// assert!(log.text().contains("created object=\"shop/web\""));
/// ```
#[derive(Debug)]
pub struct Log {
    written: Written,
    _guard: DefaultGuard,
    // `tracing` caches for each log statement whether any subscriber wants it. While only one
    // subscriber exists, `tracing` asks only the subscriber of the thread that reaches the
    // statement first. That may be the thread of another test without a subscriber, which turns the
    // statement off for this test, too. With a second subscriber alive, `tracing` asks all of them.
    _second: Dispatch,
}

impl Log {
    /// Collects the events of level `INFO` and above.
    #[must_use]
    pub fn start() -> Self {
        Self::start_at(Level::INFO)
    }

    /// Collects the events of this level and above.
    #[must_use]
    pub fn start_at(level: Level) -> Self {
        Self::collect(level, FmtSpan::NONE)
    }

    /// Collects the events of this level and above, and a line with all its fields for each span
    /// that begins or ends.
    #[must_use]
    pub fn with_spans(level: Level) -> Self {
        Self::collect(level, FmtSpan::NEW | FmtSpan::CLOSE)
    }

    fn collect(level: Level, spans: FmtSpan) -> Self {
        let written = Written::default();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(level)
            .with_span_events(spans)
            .with_writer(written.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        Self { written, _guard: guard, _second: Dispatch::new(NoSubscriber::new()) }
    }

    /// What was logged so far.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock()).into_owned()
    }

    /// The lines of [`Log::text`].
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines_with("")
    }

    /// The lines that contain `part`.
    #[must_use]
    pub fn lines_with(&self, part: &str) -> Vec<String> {
        self.text().lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }

    /// Waits for a line that contains `part`, and returns the first one. Cancel safe.
    pub async fn wait_for(&self, part: &str) -> String {
        loop {
            // Created before the check: it is notified of every line that is written from now on.
            let grown = self.written.grown.notified();
            if let Some(line) = self.lines_with(part).into_iter().next() {
                return line;
            }
            grown.await;
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Written {
    text: Arc<Mutex<Vec<u8>>>,
    /// Notified after each write, which is a whole line.
    grown: Arc<Notify>,
}

impl Written {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().extend_from_slice(bytes);
        self.grown.notify_waiters();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Written {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_ends_with_the_line_before_or_after_it_is_logged() {
        let log = Log::start();
        tracing::info!("early");
        assert!(log.wait_for("early").await.ends_with("early"));
        let log_late = async {
            tracing::info!("something else");
            tokio::task::yield_now().await;
            tracing::info!("late");
        };
        // `join!` polls the left future first, before anything is logged.
        let (line, ()) = tokio::join!(log.wait_for("late"), log_late);
        assert!(line.ends_with("late"), "{line}");
    }
}
