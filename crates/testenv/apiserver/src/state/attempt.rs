//! An attempt at a request that is replayed until webhooks have answered its questions.

use serde_json::Value;

use super::State;
use crate::clock::WallClock;
use crate::failure::Failure;
use crate::ids::Ids;
use crate::webhook::replay::{Question, Replay};

/// What the state had in place of what an attempt uses.
struct Held {
    ids: Ids,
    clock: WallClock,
}

impl State {
    /// Runs an attempt of a request, with what it shares with all its attempts.
    pub(crate) fn attempt<T>(
        &mut self,
        replay: &mut Option<Replay>,
        run: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let Some(mut replaying) = replay.take() else { return run(self) };
        let held = Held {
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

    /// The answer to a question, if it is known; or the end of this attempt.
    pub(crate) fn ask(&mut self, question: Question) -> Result<Option<Value>, Failure> {
        let replay = self.replay.as_mut().expect("only requests that are replayed must ask");
        replay.ask(question)
    }

    /// Whether this attempt has a question that is not answered.
    pub(crate) fn is_waiting(&self) -> bool {
        self.replay.as_ref().is_some_and(Replay::is_waiting)
    }
}
