//! What may go wrong in a simulated run, and where. Each fault is one that a real cluster shows:
//!
//! | fault | where it comes from |
//! |---|---|
//! | crash | a node fails, the kernel kills the process, a rollout |
//! | lost answer, request not sent | a connection breaks, an API server restarts |
//! | 409 | somebody else wrote the object in between |
//! | 429, 500, 503 | an API server is overloaded, waits for etcd, or starts |
//! | stale watch | the watch cache of an API server lags behind etcd |
//! | reads from the past | a read with `resourceVersion=0` reaches such an API server, a watch another |
//! | unseen changes | an API server cannot serve a watch for a while, and its history is compacted |
//! | down | the process is not there while others go on |
//!
//! A fault is text, too (`crash-after@3`), which is how a failure is replayed.

use std::fmt;
use std::str::FromStr;

use crate::process::Time;

/// A fault, and where it strikes.
///
/// Writes are counted from 0, in the order in which the operator sends them. Changes are counted
/// from 0, in the order in which the server makes them, whoever asked for them. Neither counts
/// events and Leases.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The process crashes when it is about to send this write.
    CrashBefore {
        /// Which write.
        write: usize,
    },
    /// The process crashes when this write is done, and before it has the answer.
    CrashAfter {
        /// Which write.
        write: usize,
    },
    /// This write fails.
    Write {
        /// Which write.
        write: usize,
        /// How it fails.
        failure: Failure,
    },
    /// The lines of the watches of a kind are held from this change on, also after reconnects.
    Stale {
        /// The kind: `configmaps`, `deployments.apps`.
        kind: String,
        /// The first change that is not seen.
        change: usize,
        /// When they arrive.
        until: Until,
    },
    /// Reads of a kind with `resourceVersion=0` show what was before this change.
    Past {
        /// The kind: `configmaps`, `deployments.apps`.
        kind: String,
        /// The first change that is not seen.
        change: usize,
        /// When it is.
        until: Until,
    },
    /// The watches of a kind are cut at this change, before it was seen, and cannot be opened again
    /// for a while. Then the history is gone: what happened meanwhile is never seen, only its
    /// result.
    Unseen {
        /// The kind.
        kind: String,
        /// The first change that is not seen.
        change: usize,
        /// When the kind can be watched again.
        until: Until,
    },
    /// The process crashes at this change, and does not come back for a while.
    Down {
        /// Which change.
        change: usize,
        /// When it comes back.
        until: Until,
    },
}

/// How a write fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// It is done, and its answer is lost.
    AnswerLost,
    /// The connection breaks before the server has it.
    NotSent,
    /// The server refuses it with this status code, and does nothing.
    Refused(u16),
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Until {
    /// So many milliseconds of simulated time.
    After(Time),
    /// Until so many further steps are done; until the last one is done, if there are fewer.
    Steps(usize),
}

impl Fault {
    /// The name of the exploration that it belongs to.
    pub(crate) fn exploration(&self) -> &'static str {
        match self {
            Self::CrashBefore { .. } | Self::CrashAfter { .. } => "crash",
            Self::Write { .. } => "failed and lost writes",
            Self::Stale { .. } => "stale view",
            Self::Past { .. } => "reads from the past",
            Self::Unseen { .. } => "unobserved changes",
            Self::Down { .. } => "downtime",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrashBefore { write } => write!(f, "crash-before@{write}"),
            Self::CrashAfter { write } => write!(f, "crash-after@{write}"),
            Self::Write { write, failure: Failure::AnswerLost } => write!(f, "lost@{write}"),
            Self::Write { write, failure: Failure::NotSent } => write!(f, "unsent@{write}"),
            Self::Write { write, failure: Failure::Refused(code) } => write!(f, "{code}@{write}"),
            Self::Stale { kind, change, until } => write!(f, "stale@{change}:{kind}:{until}"),
            Self::Past { kind, change, until } => write!(f, "past@{change}:{kind}:{until}"),
            Self::Unseen { kind, change, until } => write!(f, "unseen@{change}:{kind}:{until}"),
            Self::Down { change, until } => write!(f, "down@{change}::{until}"),
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(time) => write!(f, "{time}ms"),
            Self::Steps(steps) => write!(f, "{steps}steps"),
        }
    }
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number =
            |digits: &str| digits.parse::<Time>().map_err(|_| format!("{text:?} is no duration"));
        if let Some(steps) = text.strip_suffix("steps") {
            return Ok(Self::Steps(number(steps)?.try_into().unwrap_or(usize::MAX)));
        }
        Ok(Self::After(number(text.strip_suffix("ms").unwrap_or(text))?))
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no fault: expected something like crash-after@3");
        let (what, at) = text.split_once('@').ok_or_else(wrong)?;
        let mut parts = at.split(':');
        let number = parts.next().and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
        let (kind, until) = (parts.next().unwrap_or_default().to_owned(), parts.next());
        let until = || until.ok_or_else(wrong)?.parse::<Until>();
        let write = |failure| Self::Write { write: number, failure };
        Ok(match what {
            "crash-before" => Self::CrashBefore { write: number },
            "crash-after" => Self::CrashAfter { write: number },
            "lost" => write(Failure::AnswerLost),
            "unsent" => write(Failure::NotSent),
            "stale" => Self::Stale { kind, change: number, until: until()? },
            "past" => Self::Past { kind, change: number, until: until()? },
            "unseen" => Self::Unseen { kind, change: number, until: until()? },
            "down" => Self::Down { change: number, until: until()? },
            code => write(Failure::Refused(code.parse().map_err(|_| wrong())?)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_read_as_it_is_written() {
        let kind = || "deployments.apps".to_owned();
        let until = Until::Steps(1);
        let faults = [
            Fault::CrashBefore { write: 0 },
            Fault::CrashAfter { write: 12 },
            Fault::Write { write: 3, failure: Failure::AnswerLost },
            Fault::Write { write: 3, failure: Failure::NotSent },
            Fault::Write { write: 3, failure: Failure::Refused(503) },
            Fault::Stale { kind: kind(), change: 4, until: Until::After(12_000) },
            Fault::Past { kind: kind(), change: 4, until },
            Fault::Unseen { kind: kind(), change: 4, until },
            Fault::Down { change: 4, until },
        ];
        for fault in faults {
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
        for wrong in ["", "crash", "crash-after@x", "stale@1:pods", "teapot@1"] {
            assert!(wrong.parse::<Fault>().is_err(), "{wrong:?}");
        }
    }
}
