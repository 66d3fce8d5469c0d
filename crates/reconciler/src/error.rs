//! What a reconciler fails with, and what that means for the next run.
//!
//! An [`Error`] is made of any error by `?`. What it means is told by its chain of causes: a conflict, a server
//! that wants to be left alone, missing rights. Who knows better says so, by [`Error::terminal`] and
//! [`Error::retry_after`].
//!
//! What it shows is fit for a log: see [`safe_message`].

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use windlass_indexer::DecodeError;
use windlass_informer::{error_chain, safe_message, status_of};

/// Why a run failed.
///
/// It takes any error by `?`, and so does not implement [`std::error::Error`] itself.
///
/// ```
/// use windlass_reconciler::{Class, Error};
///
/// fn replicas(text: &str) -> Result<u32, Error> {
///     Ok(text.parse()?)
/// }
/// let error = replicas("many").unwrap_err();
/// assert_eq!(error.class(), Class::Other);
/// // No retry can help until somebody edits the object.
/// assert_eq!(error.terminal().class(), Class::Terminal);
/// ```
pub struct Error {
    source: Box<dyn StdError + Send + Sync>,
    said: Option<Said>,
}

/// What is said about an error by who knows more than its causes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Terminal,
    Undecodable,
    RetryAfter(Duration),
}

/// The longest that a server can ask for. More is a mistake.
const SERVER_DELAY_MAX: Duration = Duration::from_hours(1);

/// How far a server's delay grows.
const SERVER_GROWTH_MAX: Duration = Duration::from_mins(1);

/// What kind of failure it is: counted, shown, and what the next run depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Class {
    /// Somebody else has written meanwhile, or made the object first: 409. The next run reads anew.
    Conflict,
    /// The server wants to be left alone: 429.
    Throttled,
    /// The controller may not do this, or is not known: 403, 401. It is retried, since rights can be given.
    Forbidden,
    /// The server did not answer, or had trouble itself: 5xx, a broken connection, a timeout.
    Transient,
    /// The object that is reconciled cannot be decoded as its type. It is not retried before its next version. Another
    /// object that cannot is [`Other`](Self::Other): nothing wakes the key when that one is mended.
    Undecodable,
    /// The reconciler said that no retry helps. The next change of the object is the next try.
    Terminal,
    /// Everything else.
    Other,
}

/// How long to wait before the next run, whatever the limiter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// The reconciler said so, by [`Error::retry_after`].
    Exact(Duration),
    /// The server said so. The wait doubles with each failure in a row, up to a minute or to what the
    /// server said: a server that sheds load says one second, however long it does.
    AtLeast(Duration),
}

impl Delay {
    /// The wait after a failure, of which there were `failures` in a row before.
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
    /// An error that is only a sentence.
    pub fn msg(message: impl Into<String>) -> Self {
        Self { source: Box::new(Message(message.into())), said: None }
    }

    /// From an error whose type is not known, as `anyhow`'s: `Error::boxed(error.into())`.
    pub fn boxed(source: Box<dyn StdError + Send + Sync>) -> Self {
        Self { source, said: None }
    }

    /// The object that is reconciled cannot be decoded.
    pub(crate) fn undecodable(error: DecodeError) -> Self {
        Self { source: Box::new(error), said: Some(Said::Undecodable) }
    }

    /// No retry helps: the object has to change first.
    #[must_use]
    pub fn terminal(self) -> Self {
        Self { said: Some(Said::Terminal), ..self }
    }

    /// The next run comes after `delay`. The limiter is not asked, so the retry takes no slot from
    /// others. It still counts as a failure.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        Self { said: Some(Said::RetryAfter(delay)), ..self }
    }

    /// What kind of failure it is.
    pub fn class(&self) -> Class {
        match self.said {
            Some(Said::Terminal) => Class::Terminal,
            Some(Said::Undecodable) => Class::Undecodable,
            Some(Said::RetryAfter(_)) | None => {
                error_chain(&*self.source).find_map(class_of).unwrap_or(Class::Other)
            }
        }
    }

    /// When the next run comes, if the reconciler or the server said so.
    pub fn delay(&self) -> Option<Delay> {
        match self.said {
            Some(Said::RetryAfter(delay)) => Some(Delay::Exact(delay)),
            Some(Said::Terminal | Said::Undecodable) => None,
            None => error_chain(&*self.source).find_map(server_delay).map(Delay::AtLeast),
        }
    }

    /// What it was made of.
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
        || error.is::<tokio::time::error::Elapsed>()
        || is_held_by(kube::Error::HyperError, error)
        || error.downcast_ref().is_some_and(is_of_connection);
    is_transient.then_some(Class::Transient)
}

/// Whether an error is of the type that a variant of kube's holds. So no crate has to be named that kube uses within.
fn is_held_by<T: StdError + 'static>(
    _variant: fn(T) -> kube::Error,
    error: &(dyn StdError + 'static),
) -> bool {
    error.is::<T>()
}

/// Whether it is the trouble of a connection, and not of a file.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkDown, NetworkUnreachable, NotConnected, TimedOut, UnexpectedEof,
    };
    matches!(
        error.kind(),
        BrokenPipe
            | ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | NetworkDown
            | NetworkUnreachable
            | NotConnected
            | TimedOut
            | UnexpectedEof
    )
}

fn server_delay(error: &(dyn StdError + 'static)) -> Option<Duration> {
    let seconds = status_of(error)?.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

/// A sentence.
#[derive(Debug)]
struct Message(String);

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Message {}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self { source: Box::new(error), said: None }
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
            Self::Other => "other",
        })
    }
}
