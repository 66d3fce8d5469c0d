//! The record of a run that has ended. The journal, the counts, the log, the hook for errors and
//! the subscribers all read this one.

use std::any::Any;
use std::time::Duration;

use tokio::time::Instant;

use crate::action::Action;
use crate::cause::Cause;
use crate::error::{Class, Error};
use crate::recorder::Occurrence;
use crate::run_id::RunId;
use crate::write::Write;

/// A run that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run {
    /// Its id, which its log lines have as `reconcile_id`.
    pub id: RunId,
    /// When it began.
    pub started: Instant,
    /// How long the key was ready before that.
    pub queued: Duration,
    /// How long it took.
    pub took: Duration,
    /// Which attempt it was.
    pub attempt: u32,
    /// Why it ran.
    pub causes: Vec<Cause>,
    /// How many causes were left out of these.
    pub causes_omitted: u64,
    /// Whether a cache [may have lacked](crate::RunContext::cache_behind) what the last run of the
    /// key had written.
    pub cache_behind: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// After which time a failed run is retried. `None` if there is no retry: the run succeeded,
    /// the error is terminal, the key was given up, or the controller is shutting down.
    pub retry_in: Option<Duration>,
    /// Whether it was the last of the [attempts](crate::ControllerBuilder::max_attempts) that a key
    /// has. It runs again when something changes.
    pub gave_up: bool,
    /// What it wrote, as far as the server has answered: the first eight writes and the last eight.
    pub writes: Vec<Write>,
    /// How many writes between them were left out.
    pub writes_omitted: u64,
    /// The first [events](crate::RunContext::event) that it published, at most
    /// [`EVENTS_PER_RUN`](crate::EVENTS_PER_RUN).
    pub events: Vec<Occurrence>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The run succeeded.
    Done,
    /// The run succeeded and asked for another run after this time.
    RequeueAfter(Duration),
    /// The object is [paused](crate::ControllerBuilder::paused_by). The key runs again when it is
    /// not.
    Paused,
    /// The run failed. [`Run::retry_in`](crate::Run::retry_in) says when the key is retried.
    Failed {
        /// The class of the error.
        class: Class,
        /// The message of the error.
        message: String,
    },
    /// The run failed, and the key is not retried before something changes.
    Terminal {
        /// The class of the error.
        class: Class,
        /// The message of the error.
        message: String,
    },
    /// The reconciler panicked. The key is retried as after a failure.
    Panicked {
        /// The message of the panic.
        message: String,
    },
    /// The run took too long and was cancelled. The key is retried as after a failure.
    TimedOut,
}

impl Outcome {
    /// The outcome of a run that succeeded.
    pub(crate) fn of(action: Action) -> Self {
        match action {
            Action::Done => Self::Done,
            Action::RequeueAfter(delay) | Action::RequeueWith(delay, _) => {
                Self::RequeueAfter(delay)
            }
        }
    }

    /// The outcome of a run that returned an error.
    ///
    /// Formatting an error is user code, which may panic. So the caller must catch panics of this
    /// function, too.
    pub(crate) fn of_error(error: &Error) -> Self {
        let (class, message) = (error.class(), error.to_string());
        match class {
            Class::Terminal | Class::Undecodable => Self::Terminal { class, message },
            _ => Self::Failed { class, message },
        }
    }

    /// Whether the run did not do what it should.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Done | Self::RequeueAfter(_) | Self::Paused)
    }

    /// What went wrong, if something did.
    pub(crate) fn failure(&self) -> Option<String> {
        match self {
            Self::Done | Self::RequeueAfter(_) | Self::Paused => None,
            Self::Failed { message, .. } | Self::Terminal { message, .. } => Some(message.clone()),
            Self::Panicked { message } => Some(format!("the reconciler panicked: {message}")),
            Self::TimedOut => Some("the reconciler took too long, and was cancelled".to_owned()),
        }
    }

    /// The outcome of a run that panicked.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::Panicked { message: text.unwrap_or("the panic has no message").to_owned() }
    }

    /// The same, with the message cut to at most `max` bytes.
    pub(crate) fn shortened(&self, max: usize) -> Self {
        let mut outcome = self.clone();
        if let Self::Failed { message, .. }
        | Self::Terminal { message, .. }
        | Self::Panicked { message } = &mut outcome
            && message.len() > max
        {
            message.truncate(message.floor_char_boundary(max));
            message.push('…');
            message.shrink_to_fit();
        }
        outcome
    }
}
