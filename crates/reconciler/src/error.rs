//! The error of a reconciler, and what it means for the next run.
//!
//! `?` makes an [`Error`] of any error, also of `anyhow`'s. Its chain of causes says what it means:
//! a conflict, an overloaded server, missing rights. A reconciler that knows better says so with
//! [`Error::terminal`] and [`Error::retry_after`].
//!
//! `anyhow` hides the type of the outermost error when it becomes a box, but not the types of its
//! causes. So the class of an error of kube's is also found by what that error holds.
//!
//! Its message contains no secrets: see [`safe_message`].

mod owner_deleted;
mod stale_read;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use windlass_indexer::DecodeError;
use windlass_informer::client::{error_chain, safe_message, status_of};
use windlass_informer::{NotLeader, RequestError};

pub use owner_deleted::OwnerDeleted;
pub use stale_read::StaleRead;

/// Why a run failed.
///
/// Everything that converts to a boxed error converts to it with `?`: every error, `anyhow::Error`,
/// a text. So it cannot implement [`std::error::Error`] itself.
///
/// ```
/// use windlass_reconciler::{Class, Error};
///
/// fn replicas(text: &str) -> Result<u32, Error> {
///     Ok(text.parse()?)
/// }
/// let error = replicas("many").unwrap_err();
/// assert_eq!(error.class(), Class::Other);
/// // No retry helps until somebody edits the object.
/// assert_eq!(error.terminal().class(), Class::Terminal);
/// ```
pub struct Error {
    source: Box<dyn StdError + Send + Sync>,
    overridden: Option<Override>,
}

/// What the caller decided; it replaces what the causes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Override {
    Terminal,
    Undecodable,
    RetryAfter(Duration),
}

/// The longest delay that is accepted from a server. More is a mistake.
const SERVER_DELAY_MAX: Duration = Duration::from_hours(1);

/// Up to which delay repeated failures double the server's delay.
const SERVER_GROWTH_MAX: Duration = Duration::from_mins(1);

/// How long a key waits after a write that only the leader may make. The controller is stopped
/// meanwhile, so that nothing is sent again and again.
const NOT_LEADER_DELAY: Duration = Duration::from_secs(1);

/// How long a key waits at most after a stale read, before it waits for the cache. An event of the
/// object comes earlier; without a cache of the object, this is how often it is read.
const STALE_READ_DELAY: Duration = Duration::from_secs(1);

/// The class of an error. It is counted and logged, and decides about the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Class {
    /// Somebody else has written meanwhile, or created the object first: 409. The next run reads it
    /// again.
    Conflict,
    /// The server is overloaded: 429.
    Throttled,
    /// The controller has no right to do this, or its credentials are invalid: 403, 401. It is
    /// retried, since rights can be granted.
    Forbidden,
    /// The server did not answer, or failed itself: 5xx, a broken connection, a timeout.
    Transient,
    /// The reconciled object cannot be decoded as its type. It is not retried before its next
    /// version. If another object cannot be decoded, that is [`Other`](Self::Other): nothing wakes
    /// the key when that object is fixed.
    Undecodable,
    /// The reconciler said that no retry helps. The next change of the object leads to the next
    /// run.
    Terminal,
    /// This replica does not lead, so the write was not sent. Not an error of the object: the key
    /// stays in the queue, in case this replica leads again.
    NotLeader,
    /// An owner is being deleted, so that [nothing was made for it](crate::OwnerDeleted). Not a
    /// failure: the run ends as [`Outcome::OwnerDeleted`](crate::Outcome::OwnerDeleted), whatever
    /// else was decided about the error, and the key runs when something changes.
    OwnerDeleted,
    /// What the run has read is out of date, and it would have deleted something because of that:
    /// see [`StaleRead`]. Not an error of the object: the key runs again when the cache has caught
    /// up.
    StaleRead,
    /// Everything else.
    Other,
}

/// A delay before the next run that replaces the limiter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// The reconciler asked for it, with [`Error::retry_after`].
    Exact(Duration),
    /// The server asked for it. The delay doubles with each failure in a row, up to a minute or to
    /// what the server asks for: an overloaded server always asks for one second.
    AtLeast(Duration),
}

impl Delay {
    /// The delay after a failure that followed on `failures` others in a row.
    pub(crate) fn after(self, failures: u32) -> Duration {
        match self {
            Self::Exact(delay) => delay,
            Self::AtLeast(delay) => {
                let delay = delay.min(SERVER_DELAY_MAX);
                delay.saturating_mul(1 << failures.min(16)).min(delay.max(SERVER_GROWTH_MAX))
            }
        }
    }
}

impl Error {
    /// An error that is only a message.
    pub fn msg(message: impl Into<String>) -> Self {
        message.into().into()
    }

    /// The reconciled object cannot be decoded.
    pub(crate) fn undecodable(error: DecodeError) -> Self {
        Self { overridden: Some(Override::Undecodable), ..error.into() }
    }

    /// Makes the error terminal: no retry helps, the object has to change first.
    #[must_use]
    pub fn terminal(self) -> Self {
        Self { overridden: Some(Override::Terminal), ..self }
    }

    /// Retries after `delay`. The limiter is not asked, so the retry takes no slot from others. It
    /// still counts as a failure.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        Self { overridden: Some(Override::RetryAfter(delay)), ..self }
    }

    /// The class of the error.
    pub fn class(&self) -> Class {
        if OwnerDeleted::of(self).is_some() {
            return Class::OwnerDeleted;
        }
        match self.overridden {
            Some(Override::Terminal) => Class::Terminal,
            Some(Override::Undecodable) => Class::Undecodable,
            // Before the others: around it is an error of kube's that would be transient.
            _ if error_chain(&*self.source).any(<dyn StdError>::is::<NotLeader>) => {
                Class::NotLeader
            }
            _ if error_chain(&*self.source).any(<dyn StdError>::is::<StaleRead>) => {
                Class::StaleRead
            }
            Some(Override::RetryAfter(_)) | None => {
                error_chain(&*self.source).find_map(class_of).unwrap_or(Class::Other)
            }
        }
    }

    /// The delay before the next run, if the reconciler or the server asked for one.
    pub fn delay(&self) -> Option<Delay> {
        match self.overridden {
            _ if OwnerDeleted::of(self).is_some() => None,
            Some(Override::RetryAfter(delay)) => Some(Delay::Exact(delay)),
            Some(Override::Terminal | Override::Undecodable) => None,
            None if self.class() == Class::NotLeader => Some(Delay::Exact(NOT_LEADER_DELAY)),
            None if self.class() == Class::StaleRead => Some(Delay::Exact(STALE_READ_DELAY)),
            None => error_chain(&*self.source).find_map(server_delay).map(Delay::AtLeast),
        }
    }

    /// The error that it was made of, by value.
    pub(crate) fn into_source(self) -> Box<dyn StdError + Send + Sync> {
        self.source
    }

    /// The error that it was made of.
    pub fn source(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }
}

fn class_of(error: &(dyn StdError + 'static)) -> Option<Class> {
    if let Some(status) = status_of(error) {
        return Some(match status.code {
            409 => Class::Conflict,
            429 => Class::Throttled,
            401 | 403 => Class::Forbidden,
            500.. => Class::Transient,
            _ => Class::Other,
        });
    }
    let is_of_kube = matches!(
        error.downcast_ref(),
        Some(kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_))
    );
    let is_transient = is_of_kube
        // What kube's error holds, if `anyhow` hides that one.
        || error.is::<RequestError>()
        || error.is::<tokio::time::error::Elapsed>()
        || is_held_by(kube::Error::HyperError, error)
        || error.downcast_ref().is_some_and(|error: &io::Error| OF_CONNECTIONS.contains(&error.kind()));
    is_transient.then_some(Class::Transient)
}

/// Whether an error has the type that a variant of kube's error holds. So a crate that kube uses
/// internally need not be named.
fn is_held_by<T: StdError + 'static>(
    _variant: fn(T) -> kube::Error,
    error: &(dyn StdError + 'static),
) -> bool {
    error.is::<T>()
}

/// The kinds of errors of a connection, and not of a file.
const OF_CONNECTIONS: [io::ErrorKind; 10] = [
    io::ErrorKind::BrokenPipe,
    io::ErrorKind::ConnectionAborted,
    io::ErrorKind::ConnectionRefused,
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::HostUnreachable,
    io::ErrorKind::NetworkDown,
    io::ErrorKind::NetworkUnreachable,
    io::ErrorKind::NotConnected,
    io::ErrorKind::TimedOut,
    io::ErrorKind::UnexpectedEof,
];

fn server_delay(error: &(dyn StdError + 'static)) -> Option<Duration> {
    let seconds = status_of(error)?.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Error {
    fn from(error: E) -> Self {
        Self { source: error.into(), overridden: None }
    }
}

impl fmt::Display for Error {
    /// The error and its causes, in one line, without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&safe_message(&*self.source))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.class())
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Conflict => "conflict",
            Self::Throttled => "throttled",
            Self::Forbidden => "forbidden",
            Self::Transient => "transient",
            Self::Undecodable => "undecodable",
            Self::Terminal => "terminal",
            Self::NotLeader => "not leader",
            Self::OwnerDeleted => "owner deleted",
            Self::StaleRead => "stale read",
            Self::Other => "other",
        })
    }
}

/// Whether an error is an answer of the server with this code.
pub(crate) fn has_code(error: &(dyn std::error::Error + 'static), code: u16) -> bool {
    status_of(error).is_some_and(|status| status.code == code)
}

/// Some things, separated by commas, for messages and log lines.
pub(crate) fn list(items: impl IntoIterator<Item: fmt::Display>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}
