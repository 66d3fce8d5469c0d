//! The name of a case, taken apart.

use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

/// How often the dup case adds each of its keys.
pub(crate) const PASSES: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) workers: usize,
    pub(crate) producers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// All is added, then one worker takes it out.
    Backlog,
    /// Producers and workers at once, every key once.
    Distinct,
    /// Producers and workers at once, ten passes over a tenth of the keys.
    Dup,
    /// Every key once, with a delay.
    Delay,
    /// No queue at all: what interning the keys costs.
    Intern,
}

impl Case {
    /// How many different keys make `adds` adds.
    pub(crate) fn distinct_keys(&self, adds: usize) -> Result<usize> {
        ensure!(adds > 0, "--keys 0: want a positive number");
        if self.kind != Kind::Dup {
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
                "unknown case {name:?}: want backlog, distinct-wW, dup-wW, delay (each with an optional -pP) or intern"
            )
        };
        let (base, producers) = match name.rsplit_once("-p") {
            Some((base, producers)) => (base, producers.parse().with_context(unknown)?),
            None => (name, 1),
        };
        let (kind, workers) = match base.split_once("-w") {
            None if base == "backlog" => (Kind::Backlog, 1),
            None if base == "delay" => (Kind::Delay, 1),
            None if base == "intern" => (Kind::Intern, 1),
            Some(("distinct", workers)) => (Kind::Distinct, workers.parse().with_context(unknown)?),
            Some(("dup", workers)) => (Kind::Dup, workers.parse().with_context(unknown)?),
            _ => bail!(unknown()),
        };
        ensure!(workers > 0 && producers > 0, unknown());
        Ok(Self { kind, workers, producers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let case = |kind, workers, producers| Case { kind, workers, producers };
        for (name, expected) in [
            ("backlog", case(Kind::Backlog, 1, 1)),
            ("backlog-p4", case(Kind::Backlog, 1, 4)),
            ("distinct-w64", case(Kind::Distinct, 64, 1)),
            ("dup-w4-p4", case(Kind::Dup, 4, 4)),
            ("delay-p4", case(Kind::Delay, 1, 4)),
        ] {
            assert_eq!(name.parse::<Case>().expect(name), expected);
        }
        for name in ["", "distinct", "distinct-w0", "dup-wx", "backlog-p0", "backlog-w1"] {
            assert!(name.parse::<Case>().is_err(), "{name}");
        }
    }
}
