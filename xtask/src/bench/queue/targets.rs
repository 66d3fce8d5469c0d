//! The targets of the work queue.
//!
//! The bounds are what the project set itself before it had a queue, so they are not to be tuned to what
//! the queue happens to reach.

use super::super::line::Who;
use super::super::results::Measure;
use super::super::targets::{Target, Wanted};

/// How many keys the targets are meant for: with few, starting up weighs more than the queue.
pub(super) const KEYS: u32 = 1_000_000;

/// Everything is added, then drained.
const BACKLOG: f64 = 4.0;

/// Producers and workers run at once, with `Arc<str>` keys.
const AT_ONCE_ARCSTR: f64 = 2.0;

/// Producers and workers run at once, with interned keys.
const AT_ONCE_INTERNED: f64 = 3.0;

/// CPU for keys that wait for their time.
const DELAY_CPU: f64 = 0.25;

/// Memory for keys that wait for their time.
const DELAY_PEAK: f64 = 0.5;

/// Priority, fairness and causes on, beside client-go, which has none of them.
const FULL: f64 = 1.3;

/// Priority, fairness and causes on, beside controller-runtime, which has priority.
const FULL_PRIORITY: f64 = 8.0;

/// The cases in which producers and workers run at once, for 1 and 4 of each.
const AT_ONCE: [&str; 8] = [
    "distinct-w1",
    "distinct-w4",
    "dup-w1",
    "dup-w4",
    "distinct-w1-p4",
    "distinct-w4-p4",
    "dup-w1-p4",
    "dup-w4-p4",
];

/// All targets, in the order in which they are shown.
pub(super) fn all() -> Vec<Target> {
    let mut targets = vec![
        throughput("backlog", Who::Windlass, Some(Wanted::AtLeast(BACKLOG))),
        throughput("backlog", Who::WindlassArcstr, None),
    ];
    for case in AT_ONCE {
        targets.extend([
            throughput(case, Who::WindlassArcstr, Some(Wanted::AtLeast(AT_ONCE_ARCSTR))),
            throughput(case, Who::Windlass, Some(Wanted::AtLeast(AT_ONCE_INTERNED))),
        ]);
    }
    let delay = throughput("delay", Who::Windlass, None);
    targets.extend([
        Target { measure: Measure::CpuPerKey, wanted: Some(Wanted::AtMost(DELAY_CPU)), ..delay },
        Target { measure: Measure::Peak, wanted: Some(Wanted::AtMost(DELAY_PEAK)), ..delay },
    ]);
    for case in ["distinct-w1", "distinct-w4"] {
        let full = throughput(case, Who::WindlassFull, Some(Wanted::AtLeast(FULL)));
        let against = Some(Who::ControllerRuntime);
        let wanted = Some(Wanted::AtLeast(FULL_PRIORITY));
        targets.extend([full, Target { against, wanted, ..full }]);
    }
    targets
}

fn throughput(case: &'static str, who: Who, wanted: Option<Wanted>) -> Target {
    Target { measure: Measure::Throughput, case, who, against: Some(Who::ClientGo), wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interned_keys_have_the_higher_bound_in_every_case() {
        let bound = |case, who| {
            all().into_iter().find(|target| (target.case, target.who) == (case, who))?.wanted
        };
        for case in AT_ONCE {
            assert_eq!(bound(case, Who::WindlassArcstr), Some(Wanted::AtLeast(2.0)), "{case}");
            assert_eq!(bound(case, Who::Windlass), Some(Wanted::AtLeast(3.0)), "{case}");
        }
    }

    #[test]
    fn delayed_keys_are_bounded_from_above() {
        let delay: Vec<_> = all().into_iter().filter(|target| target.case == "delay").collect();
        let bounds: Vec<_> = delay.iter().map(|target| (target.measure, target.wanted)).collect();
        assert_eq!(
            bounds,
            [
                (Measure::CpuPerKey, Some(Wanted::AtMost(0.25))),
                (Measure::Peak, Some(Wanted::AtMost(0.5))),
            ]
        );
    }

    #[test]
    fn full_queue_is_compared_with_both_peers() {
        let full: Vec<_> =
            all().into_iter().filter(|target| target.who == Who::WindlassFull).collect();
        let against: Vec<_> = full.iter().map(|target| (target.case, target.against)).collect();
        assert_eq!(
            against,
            [
                ("distinct-w1", Some(Who::ClientGo)),
                ("distinct-w1", Some(Who::ControllerRuntime)),
                ("distinct-w4", Some(Who::ClientGo)),
                ("distinct-w4", Some(Who::ControllerRuntime)),
            ]
        );
    }
}
