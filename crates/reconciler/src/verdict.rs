//! How a call of the reconciler ended, with nothing of the user's left in it.
//!
//! Showing an error, and dropping it, is code of the user's, which may panic. So it is done here, where panics are
//! caught, and not where the key is settled.

use std::any::Any;
use std::time::Duration;

use crate::Action;
use crate::error::{Class, Delay, Error};

#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    Done,
    RequeueAfter(Duration),
    Failed {
        class: Class,
        message: String,
        /// When the next run comes, if the error says so.
        delay: Option<Delay>,
    },
    /// With what the panic said.
    Panicked(String),
    TimedOut,
}

impl Verdict {
    pub(crate) fn of(returned: Result<Action, Error>) -> Self {
        match returned {
            Ok(Action::Done) => Self::Done,
            Ok(Action::RequeueAfter(delay)) => Self::RequeueAfter(delay),
            Err(error) => {
                let (class, message, delay) = (error.class(), error.to_string(), error.delay());
                Self::Failed { class, message, delay }
            }
        }
    }

    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::Panicked(text.unwrap_or("something that is no text").to_owned())
    }
}
