//! What a reconciler wants next.

use std::time::Duration;

use windlass_workqueue::Priority;

/// What follows a successful run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing, until something changes.
    Done,
    /// Another run after this time, even if nothing changes. The run counts as a success, and the
    /// next one is not rate limited. Its priority is decided by the
    /// [policy](crate::ControllerBuilder::priority) of the controller.
    RequeueAfter(Duration),
    /// Like [`RequeueAfter`](Self::RequeueAfter), with a priority of its own. For a retry, see
    /// [`Error::priority`](crate::Error::priority).
    ///
    /// ```
    /// # use std::time::Duration;
    /// use windlass_reconciler::Action;
    /// use windlass_workqueue::Priority;
    ///
    /// // Look again in a minute, but only when nothing else is to be done.
    /// let action = Action::RequeueWith(Duration::from_mins(1), Priority::Low);
    /// # drop(action);
    /// ```
    RequeueWith(Duration, Priority),
}

impl Action {
    /// The priority that the run asks for.
    pub(crate) fn priority(self) -> Option<Priority> {
        match self {
            Self::RequeueWith(_, priority) => Some(priority),
            Self::Done | Self::RequeueAfter(_) => None,
        }
    }
}
