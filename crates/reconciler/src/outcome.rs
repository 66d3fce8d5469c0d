//! How a run ended.

use std::any::Any;
use std::time::Duration;

use crate::action::Action;
use crate::error::{Class, Delay, Error};

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

    /// The outcome of a run that returned an error, and the delay that the error asks for.
    ///
    /// Formatting an error is user code, which may panic. So the caller must catch panics of this
    /// function, too.
    pub(crate) fn of_error(error: &Error) -> (Self, Option<Delay>) {
        let (class, message) = (error.class(), error.to_string());
        match class {
            Class::Terminal | Class::Undecodable => (Self::Terminal { class, message }, None),
            _ => (Self::Failed { class, message }, error.delay()),
        }
    }

    /// Whether the run did not do what it should.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Done | Self::RequeueAfter(_) | Self::Paused)
    }

    /// The outcome of a run that panicked.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::Panicked { message: text.unwrap_or("the panic has no message").to_owned() }
    }

    /// Cuts the message to at most `max` bytes.
    pub(crate) fn shorten(&mut self, max: usize) {
        let (Self::Failed { message, .. }
        | Self::Terminal { message, .. }
        | Self::Panicked { message }) = self
        else {
            return;
        };
        if message.len() > max {
            message.truncate(message.floor_char_boundary(max));
            message.push('…');
            message.shrink_to_fit();
        }
    }
}
