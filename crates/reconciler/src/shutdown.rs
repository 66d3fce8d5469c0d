//! How a controller is told to stop.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Tells controllers to stop, and until when the runs under way may go on.
///
/// ```text
///   runs begin and end │ no run begins, those under way may end │ those that are left are cancelled
///                    begin                                   deadline
/// ```
///
/// A `CancellationToken` converts to one without a deadline: every run under way may end. Clones
/// are the same shutdown.
///
/// ```
/// use std::time::Duration;
/// use windlass_reconciler::Shutdown;
///
/// let shutdown = Shutdown::new();
/// assert!(!shutdown.has_begun());
/// shutdown.begin(Duration::from_secs(30));
/// assert!(shutdown.has_begun() && shutdown.deadline().is_some());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    begun: CancellationToken,
    deadline: Arc<OnceLock<Instant>>,
}

impl Shutdown {
    /// A shutdown that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins it. The runs under way are cancelled after the grace period. A second call changes
    /// nothing.
    pub fn begin(&self, grace_period: Duration) {
        self.deadline.get_or_init(|| Instant::now() + grace_period);
        self.begun.cancel();
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// When the runs that are left are cancelled. `None` before it has begun, and if it has no
    /// deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.get().copied()
    }

    /// Is cancelled when it begins. For whatever a run awaits for long.
    pub fn token(&self) -> &CancellationToken {
        &self.begun
    }

    /// Waits until the deadline. Never returns if it has none.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn wait_for_deadline(&self) {
        self.begun.cancelled().await;
        match self.deadline() {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }
}

impl From<CancellationToken> for Shutdown {
    fn from(begun: CancellationToken) -> Self {
        Self { begun, deadline: Arc::default() }
    }
}
