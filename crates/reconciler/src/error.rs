//! What a reconciler fails with, and what that means for the next run.
//!
//! An [`Error`] is made of any error by `?`. What it means is told by its chain of causes: a conflict, a server
//! that wants to be left alone, missing rights. Who knows better says so, by [`Error::terminal`] and
//! [`Error::retry_after`].

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use windlass_indexer::DecodeError;

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

/// What the reconciler itself says about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Terminal,
    RetryAfter(Duration),
}

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
    /// The object cannot be decoded as its type. It is not retried before its next version.
    Undecodable,
    /// The reconciler said that no retry helps. The next change of the object is the next try.
    Terminal,
    /// Everything else.
    Other,
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

    pub(crate) fn undecodable(error: DecodeError) -> Self {
        error.into()
    }

    /// No retry helps: the object has to change first.
    #[must_use]
    pub fn terminal(self) -> Self {
        Self { said: Some(Said::Terminal), ..self }
    }

    /// The next run is to come after `delay`, whatever the limiter says. It still counts as a failure.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        Self { said: Some(Said::RetryAfter(delay)), ..self }
    }

    /// What kind of failure it is.
    pub fn class(&self) -> Class {
        if self.said == Some(Said::Terminal) {
            return Class::Terminal;
        }
        chain(&*self.source).find_map(class_of).unwrap_or(Class::Other)
    }

    /// How long the next run is to wait at least, if the reconciler or the server said so.
    pub fn delay(&self) -> Option<Duration> {
        match self.said {
            Some(Said::RetryAfter(delay)) => Some(delay),
            Some(Said::Terminal) => None,
            None => chain(&*self.source).find_map(server_delay),
        }
    }

    /// What it was made of.
    pub fn source(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }
}

/// An error and its causes.
fn chain<'a>(
    error: &'a (dyn StdError + Send + Sync + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let first: &(dyn StdError + 'static) = error;
    std::iter::successors(Some(first), |error| (*error).source())
}

fn class_of(error: &(dyn StdError + 'static)) -> Option<Class> {
    if error.is::<DecodeError>() {
        return Some(Class::Undecodable);
    }
    if error.is::<tokio::time::error::Elapsed>() {
        return Some(Class::Transient);
    }
    match error.downcast_ref::<kube::Error>()? {
        kube::Error::Api(status) => Some(match status.code {
            409 => Class::Conflict,
            429 => Class::Throttled,
            401 | 403 => Class::Forbidden,
            500.. => Class::Transient,
            _ => Class::Other,
        }),
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
            Some(Class::Transient)
        }
        _ => None,
    }
}

fn server_delay(error: &(dyn StdError + 'static)) -> Option<Duration> {
    let kube::Error::Api(status) = error.downcast_ref::<kube::Error>()? else { return None };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

/// What an error says, for a log line. kube's shows all that the server answered; its message is meant for people.
fn told(error: &(dyn StdError + 'static)) -> String {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) if !status.message.is_empty() => {
            format!("{} ({})", status.message, status.code)
        }
        _ => error.to_string(),
    }
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
    /// The error and its causes, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = String::new();
        for error in chain(&*self.source) {
            let text = told(error);
            // Many errors repeat their cause.
            if said.contains(&text) {
                continue;
            }
            if !said.is_empty() {
                said.push_str(": ");
            }
            said.push_str(&text);
        }
        f.write_str(&said)
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
