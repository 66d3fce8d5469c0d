//! The targets of the embedded API server.
//!
//! The bounds are what the project set itself before it had a server, so they are not to be tuned to what the
//! server happens to reach.

use super::super::line::Who;
use super::super::results::Measure;
use super::super::targets::{Target, Wanted};

/// How many objects the targets are meant for: with few, nobody needs to be fast.
pub(super) const OBJECTS: u32 = 100_000;

/// Milliseconds from nothing to the first answered list.
const START_MS: f64 = 20.0;

/// Time and CPU of a list, beside the real server's.
const LIST: f64 = 1.0;

/// All targets, in the order in which they are shown.
pub(super) fn all() -> Vec<Target> {
    let start = Target {
        measure: Measure::FirstStart,
        case: "start",
        who: Who::InProcess,
        against: None,
        wanted: Some(Wanted::AtMost(START_MS)),
    };
    let list = Target {
        measure: Measure::Wall,
        case: "list",
        who: Who::Embedded,
        against: Some(Who::Real),
        wanted: Some(Wanted::AtMost(LIST)),
    };
    let mut targets = vec![
        start,
        Target { measure: Measure::MedianStart, ..start },
        Target { measure: Measure::LongestStart, ..start },
        Target { measure: Measure::MedianStart, who: Who::Embedded, wanted: None, ..start },
        list,
        Target { measure: Measure::CpuPerKey, ..list },
        Target { measure: Measure::Peak, wanted: None, ..list },
    ];
    // For information: how the same goes in pages, and what it costs to tell many.
    for case in ["list-paged", "fanout-w1", "fanout-w100", "fanout-w1000"] {
        let wall = Target { case, wanted: None, ..list };
        targets.extend([wall, Target { measure: Measure::CpuPerKey, ..wall }]);
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_bounded_by_the_real_server_and_starts_by_the_clock() {
        let wanted: Vec<_> = all().into_iter().filter(|target| target.wanted.is_some()).collect();
        let shown: Vec<_> =
            wanted.iter().map(|target| (target.case, target.measure, target.against)).collect();
        assert_eq!(
            shown,
            [
                ("start", Measure::FirstStart, None),
                ("start", Measure::MedianStart, None),
                ("start", Measure::LongestStart, None),
                ("list", Measure::Wall, Some(Who::Real)),
                ("list", Measure::CpuPerKey, Some(Who::Real)),
            ]
        );
    }
}
