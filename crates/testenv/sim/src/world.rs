//! The simulated world: processes, the API server, and what is on its way between them.
//!
//! One loop moves it. Every process runs until the next event, or until it sends something; what it
//! sends becomes an event, some milliseconds later; the earliest event happens:
//!
//! ```text
//!  process ─request─▶ Arrive ─▶ server ─┬─answer─▶ Answer ─▶ process
//!                                       └─line───▶ Line ───▶ process
//! ```
//!
//! Invariants: time never goes back. The lines of a watch keep their order. What a crashed process
//! had sent before still arrives; nothing that it would have sent later does.

mod faults;
mod processes;

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use futures::channel::oneshot;
use http::{Request, Response};
use windlass::manager::Manager;

use crate::boundary::{Answer, Broken, Lines, Sent, streamed, whole};
use crate::call::Call;
use crate::fault::{Failure, Fault, Until};
use crate::latency::Latencies;
use crate::operator::{ProcessHandle, Running};
use crate::process::Time;
use crate::record::Record;
use crate::server::{Served, Server};
use crate::stale::stale_read;
use crate::view::ClusterView;

/// For how long nothing may change while a fault lasts that ends with a step.
const QUIET_IN_FAULT: Time = 20_000;

/// How long a step waits for the world to be at rest while such a fault lasts.
const IN_FAULT_MAX: Time = 120_000;

/// How many changes one step may cause.
const CHANGES_MAX: usize = 300;

/// How long it takes until a process that has crashed runs again.
const RESTART_AFTER: Time = 1_000;

/// The same for one that has ended by itself: the first back-off of a kubelet.
const BACK_OFF: Time = 10_000;

/// How far a process may go ahead of the server, which sends only bookmarks meanwhile.
const ALONE: Time = 2_000;

/// How far a process may go ahead of others that have been idle for as long.
const TOGETHER: Time = 128;

/// An invariant of the user: an error says what is wrong.
pub(crate) type Check = Rc<dyn Fn(&ClusterView<'_>) -> Result<(), String>>;

/// Makes the operator of a process.
pub(crate) type MakeOperator = Rc<dyn Fn(&ProcessHandle) -> Manager>;

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) record: Record,
    now: Time,
    seed: u64,
    slots: Vec<Slot>,
    queue: BTreeMap<(Time, u64, u64), Event>,
    /// How many events there were: the last resort for their order.
    events: u64,
    flights: BTreeMap<u64, Flight>,
    requests: u64,
    latencies: Latencies,
    /// The faults that have not struck yet.
    faults: Vec<Fault>,
    active: Vec<Active>,
    checks: Vec<(String, Check)>,
    revision: u64,
    step: usize,
    /// How far the processes may go ahead at once.
    window: Time,
    /// When the world last changed, or a process was started.
    last_change: Time,
}

/// A place for a process, which may crash and be started again.
struct Slot {
    name: String,
    make: MakeOperator,
    incarnation: u32,
    running: Option<Running>,
}

/// A request that is under way, or a watch that is open.
struct Flight {
    slot: usize,
    call: Call,
    /// What it is called in latencies.
    label: String,
    order: u64,
    request: Option<Request<Bytes>>,
    answer: Option<oneshot::Sender<Answer>>,
    lines: Option<Lines>,
    /// When the last thing on this connection arrives.
    last: Time,
    /// Which write of the operator it is.
    write: Option<usize>,
    /// What is held back by a stale view.
    held: Vec<Served>,
}

enum Event {
    Start { slot: usize },
    Arrive { id: u64 },
    Answer { id: u64, answer: Result<Response<Option<Bytes>>, Broken> },
    Line { id: u64, line: Bytes },
    End { id: u64 },
    Release { fault: Fault },
}

/// A fault that lasts.
struct Active {
    fault: Fault,
    since: Time,
    since_step: usize,
    /// The revision that a stale server shows.
    revision: u64,
}

impl World {
    pub(crate) fn new(
        seed: u64,
        longest_latency: Time,
        faults: Vec<Fault>,
        record: Record,
    ) -> Self {
        let server = Server::start(seed);
        let revision = server.api().revision();
        Self {
            server,
            record,
            now: 0,
            seed,
            slots: Vec::new(),
            queue: BTreeMap::new(),
            events: 0,
            flights: BTreeMap::new(),
            requests: 0,
            latencies: Latencies::new(seed, longest_latency),
            faults,
            active: Vec::new(),
            checks: Vec::new(),
            revision,
            step: 0,
            window: 1,
            last_change: 0,
        }
    }

    /// Changes the server before anything runs.
    pub(crate) fn prepare(&mut self, prepare: impl FnOnce(&Server)) {
        prepare(&self.server);
        self.revision = self.server.api().revision();
    }

    pub(crate) fn add_check(&mut self, name: &str, check: &Check) {
        self.checks.push((name.to_owned(), Rc::clone(check)));
    }

    /// Adds a process, which starts at once.
    pub(crate) fn add_process(&mut self, name: &str, make: &MakeOperator) {
        let slot =
            Slot { name: name.to_owned(), make: Rc::clone(make), incarnation: 0, running: None };
        self.slots.push(slot);
        self.start(self.slots.len() - 1);
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Whether a fault that lasts has struck and is not over.
    pub(crate) fn has_active_faults(&self) -> bool {
        !self.active.is_empty()
    }

    /// The faults that have not struck.
    pub(crate) fn unused_faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Lets time pass until nothing has changed for `quiet` milliseconds and no process has
    /// anything to do. An error says what is not at rest after `limit`.
    ///
    /// While a fault lasts until a step is done, less is enough: the world may never be at rest.
    pub(crate) fn settle(&mut self, quiet: Time, limit: Time) -> Result<(), String> {
        let (end, before) = (self.now + limit, self.record.changes.len());
        loop {
            if self.record.changes.len() - before > CHANGES_MAX {
                let kind = self.record.changes.last().map(|change| change.kind.as_str());
                let kind = kind.unwrap_or_default();
                return Err(format!("{CHANGES_MAX} changes, and it goes on, now of {kind}"));
            }
            let until = |active: &Active| active.fault.until();
            let in_step = |one: &&Active| matches!(until(one), Some(Until::Steps(_)));
            let since = self.active.iter().filter(in_step).map(|active| active.since).min();
            let quiet = if since.is_some() { quiet.min(QUIET_IN_FAULT) } else { quiet };
            let is_quiet = self.now >= self.last_change + quiet
                && !self.active.iter().any(|one| matches!(until(one), Some(Until::After(_))));
            let is_over = since.is_some_and(|since| self.now >= since + IN_FAULT_MAX);
            if is_over || is_quiet && self.obstacle().is_none() {
                return Ok(());
            }
            if self.now >= end {
                let obstacle = self.obstacle();
                return Err(obstacle.unwrap_or_else(|| "it changes all the time".to_owned()));
            }
            let rest = self.last_change + quiet;
            self.turn(rest.max(self.now + 1_000).min(end));
        }
    }

    /// Begins a step.
    pub(crate) fn begin_step(&mut self, step: usize) {
        self.step = step;
    }

    /// Ends the faults that last until this step is done.
    pub(crate) fn end_step(&mut self, is_last: bool) {
        let is_over = |active: &Active| match active.fault.until() {
            Some(Until::Steps(steps)) => is_last || self.step >= active.since_step + steps,
            Some(Until::After(_)) | None => false,
        };
        let over: Vec<Fault> = self
            .active
            .iter()
            .filter(|active| is_over(active))
            .map(|one| one.fault.clone())
            .collect();
        for fault in over {
            self.release(&fault);
        }
    }

    /// Sends a request for somebody who is no process, and has the answer at once.
    pub(crate) fn ask(&mut self, by: &str, request: Request<Bytes>) -> Response<Bytes> {
        let call = Call::of(&request);
        let answer = self.server.ask(request);
        self.record.tell(self.now, || format!("{by}: {call} → {}", answer.status().as_u16()));
        self.note_change(&call);
        // The lines of watches leave now, and not when the server runs next.
        let served = self.server.run(self.now);
        self.note_served(served);
        answer
    }

    /// What is not at rest.
    fn obstacle(&self) -> Option<String> {
        for (index, slot) in self.slots.iter().enumerate() {
            let Some(running) = &slot.running else {
                if self.is_down(index) {
                    continue;
                }
                return Some(format!("{} does not run", slot.name));
            };
            if let Some(obstacle) = running.obstacle() {
                return Some(format!("{}: {obstacle}", slot.name));
            }
        }
        let write = self.flights.values().find(|flight| flight.call.writes());
        write
            .filter(|flight| !flight.call.is_background())
            .map(|flight| format!("{} is under way", flight.call))
    }

    fn next_event(&self) -> Time {
        self.queue.first_key_value().map_or(Time::MAX, |(key, _)| key.0)
    }

    /// Runs everybody until the next event, or `deadline`, and lets one event happen.
    fn turn(&mut self, deadline: Time) {
        let mut until = self.next_event().min(deadline).min(self.now + self.window);
        let mut has_sent = false;
        for slot in 0..self.slots.len() {
            until = until.min(self.next_event());
            has_sent |= self.run_slot(slot, until);
        }
        // Last, because it sends nothing by itself but bookmarks and ends of watches.
        let served = self.server.run(until.min(self.next_event()));
        has_sent |= !served.is_empty();
        self.note_served(served);
        if has_sent {
            self.window = 1;
            return;
        }
        let is_alone = self.slots.len() == 1;
        self.window = if is_alone { ALONE } else { (2 * self.window).min(TOGETHER) };
        self.now = self.now.max(until);
        if let Some(first) = self.queue.first_entry()
            && first.key().0 <= self.now
        {
            let event = first.remove();
            self.happen(event);
            self.window = 1;
        }
    }

    /// Runs one process. Returns whether it has sent something, or ended.
    fn run_slot(&mut self, index: usize, until: Time) -> bool {
        let Some(running) = &self.slots[index].running else { return false };
        let has_sent = running.run(until);
        let at = running.now().max(self.now);
        let mut sent: Vec<(Call, Sent)> = Vec::new();
        if has_sent {
            sent.extend(
                running.take_sent().into_iter().map(|sent| (Call::of(&sent.request), sent)),
            );
        }
        // Whichever task tokio has polled first.
        sent.sort_by_cached_key(|(call, sent)| (call.to_string(), sent.request.uri().to_string()));
        for (call, sent) in sent {
            if self.slots[index].running.is_none() {
                break;
            }
            self.depart(index, call, sent, at);
        }
        let ended = self.slots[index].running.as_ref().and_then(Running::ended);
        if let Some(ended) = ended {
            self.note_end(index, &ended);
            return true;
        }
        has_sent
    }

    /// A request leaves a process.
    fn depart(&mut self, slot: usize, call: Call, sent: Sent, at: Time) {
        let write = (slot == 0 && call.writes() && !call.is_background())
            .then(|| self.record.note_write(&call));
        if let Some(write) = write
            && self.strikes(&Fault::CrashBefore { write })
        {
            self.record.tell(at, || format!("FAULT: crash before the write: {call}"));
            self.crash(slot, RESTART_AFTER);
            return;
        }
        if slot == 0 && call.verb == "watch" {
            self.record.note_watched(&call.kind);
        }
        let incarnation = self.slots[slot].incarnation;
        // Names of events are random.
        let target = if call.is_background() { call.kind.clone() } else { call.to_string() };
        let label = format!("{slot}.{incarnation} {} {target}", call.verb);
        let (latency, order) = self.latencies.of_request(&label);
        self.requests += 1;
        let (id, last) = (self.requests, at.max(self.now) + latency);
        let flight = Flight {
            slot,
            call,
            label,
            order,
            request: Some(sent.request),
            answer: Some(sent.answer),
            lines: None,
            last,
            write,
            held: Vec::new(),
        };
        self.flights.insert(id, flight);
        self.push(last, order, Event::Arrive { id });
    }

    fn push(&mut self, at: Time, order: u64, event: Event) {
        self.events += 1;
        self.queue.insert((at.max(self.now), order, self.events), event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start { slot } => self.start(slot),
            Event::Arrive { id } => self.arrive(id),
            Event::Answer { id, answer } => self.answer(id, answer),
            Event::Line { id, line } => self.line(id, line),
            Event::End { id } => drop(self.flights.remove(&id)),
            Event::Release { fault } => self.release(&fault),
        }
    }

    /// A request arrives at the server.
    fn arrive(&mut self, id: u64) {
        let Some(flight) = self.flights.get_mut(&id) else { return };
        let Some(request) = flight.request.take() else { return };
        let (slot, call, write) = (flight.slot, flight.call.clone(), flight.write);
        let failure = write.and_then(|write| self.failure_of(write));
        if let Some(failure) = failure.filter(|failure| *failure != Failure::AnswerLost) {
            self.record.tell(self.now, || format!("FAULT: {call}: {failure}"));
            return self.send_answer(id, failure.answer());
        }
        if slot == 0 {
            if let Some(cut) = self.unseen(&call) {
                self.record.tell(self.now, || format!("FAULT: {call} is refused: {cut}"));
                return self.send_answer(id, Failure::Refused(503).answer());
            }
            if crate::stale::may_be_stale(&call, &request) {
                self.record.note_read_past(&call.kind);
            }
            let shown = self.active.iter().find(|one| one.fault.shows_past_of(&call.kind));
            if let Some(revision) = shown.map(|active| active.revision)
                && let Some(answer) = stale_read(&self.server, &call, &request, revision)
            {
                self.record
                    .tell(self.now, || format!("{}: {call} from the past", self.slots[slot].name));
                return self.send_answer(id, Ok(answer.map(Some)));
            }
        }
        self.server.handle(id, request, call.verb == "watch");
        let served = self.server.run(self.now);
        let code = served.iter().find_map(|served| match served {
            Served::Answer { id: answered, head, .. } if *answered == id => Some(head.status),
            _ => None,
        });
        let by = self.slots[slot].name.clone();
        self.tell_call(&call, || {
            let code =
                code.map_or_else(|| "no answer yet".to_owned(), |code| code.as_u16().to_string());
            format!("{by}: {call} → {code}")
        });
        let has_changed = self.note_change(&call);
        if slot == 0 && has_changed {
            self.record.note_effect(&call, code);
        }
        if failure == Some(Failure::AnswerLost) {
            self.record.tell(self.now, || format!("FAULT: the answer to {call} is lost"));
            self.send_answer(id, Err(Broken));
        }
        self.note_served(served);
        if let Some(write) = write
            && self.strikes(&Fault::CrashAfter { write })
        {
            self.record.tell(self.now, || format!("FAULT: crash after the write: {call}"));
            self.crash(slot, RESTART_AFTER);
        }
    }

    fn tell_call(&mut self, call: &Call, what: impl FnOnce() -> String) {
        if call.is_told() {
            self.record.tell(self.now, what);
        }
    }

    /// Notes what the server has sent.
    fn note_served(&mut self, served: Vec<Served>) {
        for served in served {
            let id = match &served {
                Served::Answer { id, .. } | Served::Line { id, .. } | Served::End { id } => *id,
            };
            let Some(flight) = self.flights.get_mut(&id) else { continue };
            let is_answer = matches!(served, Served::Answer { .. });
            let kind = &flight.call.kind;
            let is_held = flight.slot == 0
                && !is_answer
                && self.active.iter().any(|active| active.fault.is_stale_of(kind));
            if is_held {
                flight.held.push(served);
            } else {
                self.send(served, id);
            }
        }
    }

    /// Sends something back to a process.
    fn send(&mut self, served: Served, id: u64) {
        let Some(flight) = self.flights.get_mut(&id) else { return };
        let (latency, _) = match &served {
            Served::Answer { .. } => self.latencies.of_request(&format!("{} answer", flight.label)),
            _ => self.latencies.of_line(&format!("{} line", flight.label)),
        };
        let at = (self.server.now().max(self.now) + latency).max(flight.last);
        let order = flight.order;
        flight.last = at;
        match served {
            Served::Answer { id, head, body } => {
                if flight.answer.is_none() {
                    return;
                }
                let answer = Ok(Response::from_parts(head, body));
                self.push(at, order, Event::Answer { id, answer });
            }
            Served::Line { id, line } => self.push(at, order, Event::Line { id, line }),
            Served::End { id } => self.push(at, order, Event::End { id }),
        }
    }

    fn send_answer(&mut self, id: u64, answer: Result<Response<Option<Bytes>>, Broken>) {
        let Some(flight) = self.flights.get(&id) else { return };
        // What the server answers comes later, and then nobody waits for it.
        self.push(self.now + 1, flight.order, Event::Answer { id, answer });
    }

    /// An answer arrives at a process.
    fn answer(&mut self, id: u64, answer: Result<Response<Option<Bytes>>, Broken>) {
        let Some(flight) = self.flights.get_mut(&id) else { return };
        let Some(waiting) = flight.answer.take() else { return };
        let answer = match answer {
            Err(broken) => Err(broken),
            Ok(answer) => {
                let (head, body) = answer.into_parts();
                Ok(if let Some(body) = body {
                    Response::from_parts(head, whole(body))
                } else {
                    let (lines, body) = streamed();
                    flight.lines = Some(lines);
                    Response::from_parts(head, body)
                })
            }
        };
        let is_over = flight.lines.is_none();
        let is_heard = waiting.send(answer).is_ok();
        if is_over || !is_heard {
            self.flights.remove(&id);
            self.server.close(id);
        }
    }

    /// A line of a watch arrives at a process.
    fn line(&mut self, id: u64, line: Bytes) {
        let Some(flight) = self.flights.get(&id) else { return };
        let Some(lines) = &flight.lines else { return };
        if self.record.tells() {
            for told in crate::record::tell_lines(&line) {
                let (name, kind) = (&self.slots[flight.slot].name, &flight.call.kind);
                self.record.tell(self.now, || format!("{name} is told of {kind}: {told}"));
            }
        }
        if lines.unbounded_send(Ok(line)).is_err() {
            self.flights.remove(&id);
            self.server.close(id);
        }
    }

    // Changes.

    /// Looks whether a request has changed something. If so, the invariants are checked, and the
    /// faults of this change strike.
    fn note_change(&mut self, call: &Call) -> bool {
        let revision = self.server.api().revision();
        if revision == self.revision {
            return false;
        }
        let before = std::mem::replace(&mut self.revision, revision);
        if call.is_background() {
            return true;
        }
        self.last_change = self.now;
        let change = self.record.note_change(call);
        self.check();
        while let Some(index) = self.faults.iter().position(|fault| fault.change() == Some(change))
        {
            let fault = self.faults.remove(index);
            self.begin(&fault, before);
        }
        true
    }

    fn check(&mut self) {
        let view = ClusterView::new(&self.server);
        let mut broken = Vec::new();
        for (name, check) in &self.checks {
            if let Err(error) = check(&view) {
                broken.push(format!("{name}: {error}"));
            }
        }
        for broken in broken {
            self.record.note_violation(self.now, format!("the invariant {broken}"));
        }
    }
}
