//! The runs that are under way.
//!
//! As many entries as there are workers at most, so a scan at the time of asking is cheap, and a run costs
//! next to nothing: its entry is written field by field where it stands.

use crate::Priority;
use crate::causes::Causes;
use crate::clock::Stamp;
use crate::observer::Elapsed;
use crate::slots::SlotId;
use crate::sync::Arc;

/// The number of a run; free again when the run is done.
pub(crate) type RunId = u32;

#[derive(Debug)]
pub(crate) struct Run<C> {
    pub(crate) slot: SlotId,
    pub(crate) started: Stamp,
    pub(crate) priority: Priority,
    pub(crate) causes: Option<Arc<Causes<C>>>,
    /// If not, the entry is free, and the rest means nothing.
    is_under_way: bool,
}

#[derive(Debug)]
pub(crate) struct Running<C> {
    runs: Vec<Run<C>>,
    free: Vec<RunId>,
}

impl<C> Running<C> {
    pub(crate) fn new() -> Self {
        Self { runs: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn start(
        &mut self,
        slot: SlotId,
        started: Stamp,
        priority: Priority,
        causes: Option<Arc<Causes<C>>>,
    ) -> RunId {
        let id = self.free.pop().unwrap_or_else(|| self.make_room());
        let run = &mut self.runs[id as usize];
        run.slot = slot;
        run.started = started;
        run.priority = priority;
        run.causes = causes;
        run.is_under_way = true;
        id
    }

    #[cold]
    fn make_room(&mut self) -> RunId {
        let id = RunId::try_from(self.runs.len()).expect("fewer than 2^32 leases must be out");
        self.runs.push(Run {
            slot: 0,
            started: Stamp::default(),
            priority: Priority::Normal,
            causes: None,
            is_under_way: false,
        });
        id
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: RunId) -> &mut Run<C> {
        let run = &mut self.runs[id as usize];
        assert!(run.is_under_way, "a run must be under way until it ends");
        run
    }

    /// Ends a run; returns its slot, when it was started, and its causes, which are the user's to drop.
    #[inline]
    pub(crate) fn end(&mut self, id: RunId) -> (SlotId, Stamp, Option<Arc<Causes<C>>>) {
        let run = self.get_mut(id);
        run.is_under_way = false;
        let ended = (run.slot, run.started, run.causes.take());
        self.free.push(id);
        ended
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Run<C>> {
        self.runs.iter().filter(|run| run.is_under_way)
    }

    pub(crate) fn elapsed(&self, now: Stamp) -> Elapsed {
        self.iter().fold(Elapsed::default(), |elapsed, run| {
            let ran = now.since(run.started);
            Elapsed { total: elapsed.total + ran, longest: elapsed.longest.max(ran) }
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len() - self.free.len()
    }
}
