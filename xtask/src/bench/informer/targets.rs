//! The targets of the informers.
//!
//! The bounds are what the project set itself before it had informers, so they are not to be tuned to what
//! they happen to reach.

use super::super::line::Who;
use super::super::results::Measure;
use super::super::targets::{Target, Wanted};

/// How many pods the targets are meant for: with few, what a process needs anyway weighs more.
pub(super) const PODS: u32 = 50_000;

/// CPU for a first list, beside client-go's.
const SYNC_CPU: f64 = 0.45;

/// Resident and peak memory, beside client-go's.
const MEMORY: f64 = 0.5;

/// Resident and peak memory, beside kube-runtime's.
const MEMORY_RUST: f64 = 0.25;

/// CPU for a first list whose handler reads every pod, beside client-go's.
const READ_CPU: f64 = 1.0;

/// Resident memory with a slim type, beside client-go's.
const SLIM: f64 = 0.06;

/// CPU for an update, beside that of the best peer.
const EVENT_CPU: f64 = 0.5;

/// The peak of a second list, as a multiple of what was resident before it.
const RELIST_PEAK: f64 = 1.2;

/// All targets, in the order in which they are shown.
pub(super) fn all() -> Vec<Target> {
    let at_most = |bound| Some(Wanted::AtMost(bound));
    let sync = Target {
        measure: Measure::CpuPerKey,
        case: "sync",
        who: Who::Windlass,
        against: Some(Who::ClientGo),
        wanted: at_most(SYNC_CPU),
    };
    let mut targets = vec![sync];
    for measure in [Measure::Resident, Measure::Peak] {
        let memory = Target { measure, wanted: at_most(MEMORY), ..sync };
        let against = Some(Who::KubeRuntime);
        targets.extend([memory, Target { against, wanted: at_most(MEMORY_RUST), ..memory }]);
    }
    let resident = Target { measure: Measure::Resident, wanted: None, ..sync };
    targets.extend([
        Target { who: Who::WindlassSlim, wanted: at_most(SLIM), ..resident },
        Target { who: Who::WindlassResident, ..resident },
        Target { who: Who::WindlassResident, against: Some(Who::KubeRuntime), ..resident },
    ]);
    let read = Target { case: "sync-read", wanted: at_most(READ_CPU), ..sync };
    targets.extend([read, Target { who: Who::WindlassResident, wanted: None, ..read }]);
    // The better peer is the one beside whom the ratio is higher: held beside all is held beside it.
    for against in [Who::ClientGo, Who::ControllerRuntime, Who::KubeRuntime] {
        let (measure, against) = (Measure::CpuPerEvent, Some(against));
        targets.push(Target {
            measure,
            case: "burst",
            against,
            wanted: at_most(EVENT_CPU),
            ..sync
        });
    }
    let relist = Target {
        measure: Measure::PeakToResident,
        case: "relist",
        against: None,
        wanted: at_most(RELIST_PEAK),
        ..sync
    };
    targets.push(relist);
    let others = [
        Who::WindlassResident,
        Who::WindlassSlim,
        Who::ClientGo,
        Who::ControllerRuntime,
        Who::KubeRuntime,
    ];
    targets.extend(others.map(|who| Target { who, wanted: None, ..relist }));
    targets
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
                "sync CPU <= 0.45 client-go",
                "sync resident memory <= 0.50 client-go",
                "sync resident memory <= 0.25 kube-runtime",
                "sync peak memory <= 0.50 client-go",
                "sync peak memory <= 0.25 kube-runtime",
                "sync resident memory <= 0.06 client-go",
                "sync-read CPU <= 1.00 client-go",
                "burst CPU per event <= 0.50 client-go",
                "burst CPU per event <= 0.50 controller-runtime",
                "burst CPU per event <= 0.50 kube-runtime",
                "relist peak / resident <= 1.20 itself",
            ]
        );
    }
}
