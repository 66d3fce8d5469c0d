//! The targets of the controllers.
//!
//! The bounds are what the project set itself before it had controllers, so they are not to be tuned to what
//! they happen to reach.

use super::super::line::Who;
use super::super::results::Measure;
use super::super::targets::{Target, Wanted};

/// How many objects the targets are meant for: with few, what a process needs anyway weighs more.
pub(super) const OBJECTS: u32 = 50_000;

/// CPU of a storm, and of a change, beside the better peer's.
const CPU: f64 = 0.5;

/// Peak memory, beside the better peer's.
const PEAK: f64 = 0.6;

/// The latency that 99 % of the changes do not exceed, beside the better peer's. It is judged where everybody watches
/// the same changes: one after the other, they differ by what the server and the machine were doing meanwhile.
const LATENCY: f64 = 1.0;

/// All targets, in the order in which they are shown.
pub(super) fn all() -> Vec<Target> {
    let wanted = [
        ("storm", Measure::CpuPerKey, Some(CPU)),
        ("storm", Measure::Peak, Some(PEAK)),
        ("storm", Measure::Wall, None),
        ("changes", Measure::CpuPerEvent, Some(CPU)),
        ("changes", Measure::Peak, Some(PEAK)),
        ("changes", Measure::P99, None),
        ("side-by-side", Measure::P99, Some(LATENCY)),
    ];
    // The better peer is the one beside whom the ratio is higher: held beside both is held beside it.
    let beside = |(case, measure, bound): (_, _, Option<f64>)| {
        [Who::ControllerRuntime, Who::KubeRuntime].map(|peer| Target {
            measure,
            case,
            who: Who::Windlass,
            against: Some(peer),
            wanted: bound.map(Wanted::AtMost),
        })
    };
    wanted.into_iter().flat_map(beside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_project() {
        let wanted = all().into_iter().filter(|target| target.wanted.is_some());
        let shown: Vec<_> = wanted
            .map(|target| {
                let bound = target.wanted.map(|wanted| wanted.to_string()).unwrap_or_default();
                let against = target.against.map_or("itself", Who::name);
                format!("{} {} {bound} {against}", target.case, target.measure.name())
            })
            .collect();
        assert_eq!(
            shown,
            [
                "storm CPU <= 0.50 controller-runtime",
                "storm CPU <= 0.50 kube-runtime",
                "storm peak memory <= 0.60 controller-runtime",
                "storm peak memory <= 0.60 kube-runtime",
                "changes CPU per event <= 0.50 controller-runtime",
                "changes CPU per event <= 0.50 kube-runtime",
                "changes peak memory <= 0.60 controller-runtime",
                "changes peak memory <= 0.60 kube-runtime",
                "side-by-side p99 latency <= 1.00 controller-runtime",
                "side-by-side p99 latency <= 1.00 kube-runtime",
            ]
        );
    }
}
