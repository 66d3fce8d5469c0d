//! How a controller is told to stop.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Tells controllers to stop, and until when the runs under way may go on.
///
/// ```text
///   runs begin and end │ no run begins, those under way may end │ those left are cancelled
///                    begin                                   deadline
/// ```
///
/// A `CancellationToken` converts to one without a deadline: runs may take as long as they need.
/// Clones are the same shutdown.
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
    deadline: watch::Sender<Option<Instant>>,
}

/// Longer grace periods are cut to this: a time that far ahead cannot be represented everywhere.
const GRACE_PERIOD_MAX: Duration = Duration::from_hours(24 * 365);

impl Shutdown {
    /// A shutdown that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the shutdown. The runs under way are cancelled after the grace period. A second call
    /// can only make the deadline earlier.
    pub fn begin(&self, grace_period: Duration) {
        let deadline = Instant::now() + grace_period.min(GRACE_PERIOD_MAX);
        self.deadline.send_if_modified(|known| {
            let is_earlier = known.is_none_or(|known| deadline < known);
            if is_earlier {
                *known = Some(deadline);
            }
            is_earlier
        });
        self.begun.cancel();
    }

    /// Whether the shutdown has begun.
    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// When the runs that are left are cancelled. `None` before the shutdown has begun, and if it
    /// has no deadline.
    pub fn deadline(&self) -> Option<Instant> {
        *self.deadline.borrow()
    }

    /// A token that is cancelled when the shutdown begins. Select on it in long waits.
    pub fn token(&self) -> &CancellationToken {
        &self.begun
    }

    /// Waits until the deadline. Never returns if it has none.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn wait_for_deadline(&self) {
        let mut changes = self.deadline.subscribe();
        loop {
            let deadline = *changes.borrow_and_update();
            let reached = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = reached => return,
                // Fails never: this value holds a sender.
                _ = changes.changed() => {}
            }
        }
    }
}

impl From<CancellationToken> for Shutdown {
    fn from(begun: CancellationToken) -> Self {
        Self { begun, deadline: watch::Sender::default() }
    }
}
