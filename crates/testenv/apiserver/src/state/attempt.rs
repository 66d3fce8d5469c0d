//! One attempt at a request. The request is attempted again until webhooks have answered all
//! questions.

use serde_json::Value;

use super::State;
use crate::clock::WallClock;
use crate::failure::Failure;
use crate::ids::Ids;
use crate::webhook::replay::{Question, Replay};

/// The parts of the state that an attempt replaces while it runs.
struct SavedState {
    ids: Ids,
    clock: WallClock,
}

impl State {
    /// Runs an attempt of a request, with the names, uids and time that all its attempts share.
    pub(crate) fn attempt<T>(
        &mut self,
        replay: &mut Option<Replay>,
        run: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let Some(mut replaying) = replay.take() else { return run(self) };
        let held = SavedState {
            ids: std::mem::replace(&mut self.ids, replaying.ids.clone()),
            clock: std::mem::replace(&mut self.clock, replaying.clock.clone()),
        };
        replaying.is_admitted = false;
        self.replay = Some(replaying);
        let result = run(self);
        *replay = self.replay.take();
        self.ids = held.ids;
        self.clock = held.clock;
        result
    }

    /// Returns the answer to a question if it is known; otherwise an error that ends this attempt.
    pub(crate) fn ask(&mut self, question: Question) -> Result<Option<Value>, Failure> {
        let replay = self.replay.as_mut().expect("only requests that are replayed must ask");
        replay.ask(question)
    }

    /// Returns whether this attempt has an open question.
    pub(crate) fn is_waiting(&self) -> bool {
        self.replay.as_ref().is_some_and(Replay::is_waiting)
    }
}
