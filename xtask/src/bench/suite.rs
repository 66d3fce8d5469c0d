//! A suite as data: what is run, how it is displayed, and which bounds apply.
//!
//! Cases, contestants and metrics have the names that the programs in `bench/` use.

use anyhow::{Result, ensure};

use super::programs::Programs;

/// A suite.
#[derive(Debug)]
pub(super) struct Suite {
    /// The name of the subcommand, and of the suite in the JSON lines.
    pub(super) name: &'static str,
    /// The unit of a run's size, which is also the name of the option for it.
    pub(super) unit: &'static str,
    /// The size for which the bounds are defined. In small runs, fixed costs weigh more.
    pub(super) size: u32,
    /// The default number of rounds.
    pub(super) rounds: u32,
    /// The contestant that the ratios in the tables refer to.
    pub(super) base: &'static str,
    pub(super) sections: &'static [Section],
    pub(super) bounds: &'static [Bound],
    /// Returns how many keys, objects or events a contestant handles in a case, given the size of
    /// the run.
    pub(super) items: fn(case: &str, who: &str, size: u32) -> u32,
    /// The packages that cargo builds for it.
    pub(super) packages: &'static [&'static str],
    /// Starts the driver that runs the contestants, given the size of the run.
    pub(super) start: fn(Programs, u32) -> Result<Box<dyn Driver>>,
}

/// Cases that run together and share a table. All rounds of a section run before the next section.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) cases: &'static [&'static str],
    pub(super) whos: &'static [&'static str],
    /// Whether the contestants of a case run at the same time instead of one after the other.
    pub(super) at_once: bool,
    pub(super) columns: &'static [Column],
    /// An explanation below the table.
    pub(super) note: &'static str,
}

/// A column of medians.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) metric: &'static str,
    /// The displayed value is the metric divided by this.
    pub(super) unit: f64,
    pub(super) decimals: usize,
    /// Whether the next column shows the ratio to the base.
    pub(super) has_ratio: bool,
}

/// A bound on a metric.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) case: &'static str,
    pub(super) who: &'static str,
    pub(super) metric: &'static str,
    /// The peers to compare with: the ratio to the best of them counts. If empty, the value itself.
    pub(super) peers: &'static [&'static str],
    /// The most that the value or the ratio may be.
    pub(super) limit: f64,
}

/// Runs contestants.
pub(super) trait Driver {
    /// Runs a case, and returns the JSON lines of the metrics. There are several contestants only
    /// in a section that runs them at the same time.
    ///
    /// # Errors
    /// If a contestant fails.
    fn run(&mut self, case: &str, whos: &[&str]) -> Result<String>;
}

/// The chosen part of a section.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) section: &'static Section,
    pub(super) cases: Vec<&'static str>,
    pub(super) whos: Vec<&'static str>,
}

impl Suite {
    /// Returns the cases whose names contain one of `parts`, for the contestants in `names`. An
    /// empty list selects all.
    ///
    /// # Errors
    /// If a part or a name matches nothing, or if nothing is left to run.
    pub(super) fn choose(&self, parts: &[String], names: &[String]) -> Result<Vec<Chosen>> {
        for part in parts {
            let mut cases = self.sections.iter().flat_map(|section| section.cases);
            ensure!(
                cases.any(|case| case.contains(part)),
                "--case {part}: no case contains this; the cases are {}",
                self.sections.iter().map(|s| s.cases.join(", ")).collect::<Vec<_>>().join(", ")
            );
        }
        for name in names {
            let mut whos = self.sections.iter().flat_map(|section| section.whos);
            ensure!(
                whos.any(|who| who == name),
                "--who {name}: unknown; the contestants are {}",
                self.sections[0].whos.join(", ")
            );
        }
        let chosen: Vec<Chosen> =
            self.sections.iter().filter_map(|section| section.choose(parts, names)).collect();
        ensure!(!chosen.is_empty(), "--case and --who leave nothing to run");
        Ok(chosen)
    }
}

impl Section {
    fn choose(&'static self, parts: &[String], names: &[String]) -> Option<Chosen> {
        let has_part = |case: &&str| parts.is_empty() || parts.iter().any(|p| case.contains(p));
        let has_name = |who: &&str| names.is_empty() || names.iter().any(|name| name == who);
        let cases: Vec<_> = self.cases.iter().copied().filter(has_part).collect();
        let whos: Vec<_> = self.whos.iter().copied().filter(has_name).collect();
        // With fewer contestants beside it, a contestant would run under a different load.
        let is_incomplete = self.at_once && whos.len() < self.whos.len();
        if cases.is_empty() || whos.is_empty() || is_incomplete {
            return None;
        }
        Some(Chosen { section: self, cases, whos })
    }
}

impl Column {
    pub(super) const fn new(
        heading: &'static str,
        metric: &'static str,
        unit: f64,
        decimals: usize,
    ) -> Self {
        Self { heading, metric, unit, decimals, has_ratio: false }
    }

    pub(super) const fn with_ratio(self) -> Self {
        Self { has_ratio: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{apiserver, controller, informer, queue};
    use super::*;

    fn choose(suite: &Suite, parts: &[&str], names: &[&str]) -> Result<Vec<String>> {
        let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let chosen = suite.choose(&owned(parts), &owned(names))?;
        let shown = |chosen: Chosen| {
            let pairs = chosen.cases.into_iter().flat_map(move |case| {
                chosen.whos.clone().into_iter().map(move |who| format!("{case} {who}"))
            });
            pairs.collect::<Vec<_>>()
        };
        Ok(chosen.into_iter().flat_map(shown).collect())
    }

    #[test]
    fn every_bound_is_about_contestants_of_its_case() {
        for suite in [&queue::SUITE, &informer::SUITE, &controller::SUITE, &apiserver::SUITE] {
            for bound in suite.bounds {
                let section = suite.sections.iter().find(|s| s.cases.contains(&bound.case));
                let section = section.expect("the case of a bound must exist");
                for who in [bound.who].iter().chain(bound.peers) {
                    assert!(section.whos.contains(who), "{bound:?}");
                }
            }
        }
    }

    #[test]
    fn cases_and_contestants_are_chosen() {
        let all = choose(&controller::SUITE, &[], &[]).expect("everything");
        assert_eq!(all.len(), 4 + 4 + 3);
        let some = choose(&queue::SUITE, &["w4"], &["windlass", "client-go"]).expect("some");
        assert_eq!(some, ["contention-w4 client-go", "contention-w4 windlass"]);
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let error = choose(&controller::SUITE, &["stop"], &[]).expect_err("no such case");
        let expected =
            "--case stop: no case contains this; the cases are storm, changes, side-by-side";
        assert_eq!(error.to_string(), expected);
        let error = choose(&controller::SUITE, &[], &["client-rs"]).expect_err("no such name");
        assert!(error.to_string().starts_with("--who client-rs: unknown;"), "{error:#}");
    }

    #[test]
    fn contestants_that_run_at_once_are_all_there_or_none() {
        let some = choose(&controller::SUITE, &[], &["windlass"]).expect("the other cases");
        assert_eq!(some, ["storm windlass", "changes windlass"]);
        let error = choose(&controller::SUITE, &["side"], &["windlass"]).expect_err("nothing left");
        assert!(error.to_string().contains("nothing to run"), "{error:#}");
    }
}
