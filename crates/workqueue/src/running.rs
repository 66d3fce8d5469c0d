//! The runs that are under way.
//!
//! As many entries as there are workers at most, so a scan at the time of asking is cheap, and a run costs
//! next to nothing.

use crate::Priority;
use crate::causes::Causes;
use crate::clock::Stamp;
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
}

#[derive(Debug)]
pub(crate) struct Running<C> {
    runs: Vec<Option<Run<C>>>,
    free: Vec<RunId>,
}

impl<C> Running<C> {
    pub(crate) fn new() -> Self {
        Self { runs: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn start(&mut self, run: Run<C>) -> RunId {
        if let Some(id) = self.free.pop() {
            self.runs[id as usize] = Some(run);
            return id;
        }
        let id = RunId::try_from(self.runs.len()).expect("fewer than 2^32 leases must be out");
        self.runs.push(Some(run));
        id
    }

    pub(crate) fn get_mut(&mut self, id: RunId) -> &mut Run<C> {
        self.runs[id as usize].as_mut().expect("a run must be under way until it ends")
    }

    #[inline]
    pub(crate) fn end(&mut self, id: RunId) -> Run<C> {
        self.free.push(id);
        self.runs[id as usize].take().expect("a run must end once")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Run<C>> {
        self.runs.iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len() - self.free.len()
    }
}
