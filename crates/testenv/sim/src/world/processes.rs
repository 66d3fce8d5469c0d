//! Processes as they start, crash and end.

use super::{BACK_OFF, Event, Flight, World};
use crate::latency::mix;
use crate::operator::{ProcessHandle, Running};
use crate::process::Time;

impl World {
    pub(super) fn start(&mut self, index: usize) {
        if self.slots[index].running.is_some() || self.is_down(index) {
            return;
        }
        let slot = &mut self.slots[index];
        slot.incarnation += 1;
        let label = format!("{}.{}", slot.name, slot.incarnation);
        let seed = mix(self.seed, label.as_bytes());
        let handle = ProcessHandle::new(slot.incarnation, seed);
        slot.running = Some(Running::start(self.now, &handle, &slot.make));
        self.last_change = self.now;
        let (name, incarnation) = (&slot.name, slot.incarnation);
        self.record.tell(self.now, || format!("{name} starts (process {incarnation})"));
    }

    pub(super) fn crash(&mut self, index: usize, restart_after: Time) {
        self.note_runs(index);
        let slot = &mut self.slots[index];
        slot.running = None;
        self.last_change = self.now;
        let of_it = |flight: &Flight| flight.slot == index && flight.request.is_none();
        let gone: Vec<u64> =
            self.flights.iter().filter(|(_, flight)| of_it(flight)).map(|(id, _)| *id).collect();
        for id in gone {
            self.flights.remove(&id);
            self.server.close(id);
        }
        self.push(self.now + restart_after, 0, Event::Start { slot: index });
    }

    /// A process has ended by itself.
    pub(super) fn note_end(&mut self, index: usize, ended: &Result<(), String>) {
        let name = self.slots[index].name.clone();
        let what = match ended {
            Ok(()) => "ended".to_owned(),
            Err(error) => format!("ended with an error: {error}"),
        };
        self.record.tell(self.now, || format!("{name} {what}"));
        self.record.note_ended(&name, &what);
        self.crash(index, BACK_OFF);
    }

    /// Adds the runs of all processes to the story.
    pub(crate) fn note_all_runs(&mut self) {
        for index in 0..self.slots.len() {
            self.note_runs(index);
        }
    }

    pub(super) fn note_runs(&mut self, index: usize) {
        let slot = &self.slots[index];
        if let Some(running) = &slot.running {
            running.note_runs(&slot.name, &mut self.record);
        }
    }
}
