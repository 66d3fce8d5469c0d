//! The name of a case, taken apart.

use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

/// How often the dup case adds each of its keys.
pub(crate) const PASSES: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Case {
    /// A steady rate of adds, and runs that wait, as for answers of a server.
    Paced,
    /// All is added at once, while a few workers compute.
    Storm,
    /// All is added, then one worker takes it out.
    Backlog,
    /// The same, with ten adds of each key.
    Dup,
    /// Every key once, with a delay.
    Delay,
    /// Nothing but adds and empty runs, at the same time.
    Contention { workers: usize },
    /// No queue at all: what interning the keys costs.
    Intern,
}

impl Case {
    /// How many different keys make `adds` adds.
    pub(crate) fn distinct_keys(self, adds: usize) -> Result<usize> {
        ensure!(adds > 0, "--keys 0: want a positive number");
        if self != Self::Dup {
            return Ok(adds);
        }
        ensure!(
            adds.is_multiple_of(PASSES),
            "--keys {adds}: the dup case wants a multiple of {PASSES}"
        );
        Ok(adds / PASSES)
    }
}

impl FromStr for Case {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let unknown = || {
            format!(
                "unknown case {name:?}: want paced, storm, backlog, dup, delay, contention-wW or intern"
            )
        };
        Ok(match (name, name.strip_prefix("contention-w")) {
            ("paced", _) => Self::Paced,
            ("storm", _) => Self::Storm,
            ("backlog", _) => Self::Backlog,
            ("dup", _) => Self::Dup,
            ("delay", _) => Self::Delay,
            ("intern", _) => Self::Intern,
            (_, Some(workers)) => {
                let workers = workers.parse().with_context(unknown)?;
                ensure!(workers > 0, unknown());
                Self::Contention { workers }
            }
            _ => bail!(unknown()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        for (name, expected) in [
            ("paced", Case::Paced),
            ("delay", Case::Delay),
            ("contention-w4", Case::Contention { workers: 4 }),
        ] {
            assert_eq!(name.parse::<Case>().expect(name), expected);
        }
        for name in ["", "contention", "contention-w0", "contention-wx", "backlog-w1"] {
            assert!(name.parse::<Case>().is_err(), "{name}");
        }
    }
}
