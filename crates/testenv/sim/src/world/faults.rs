//! Faults as they strike: which request fails, what is held back, cut or refused, and until when.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{Response, StatusCode};

use super::{Active, Event, RESTART_AFTER, World};
use crate::boundary::Broken;
use crate::call::Call;
use crate::fault::{Failure, Fault, Until};
use crate::server::Served;

impl World {
    pub(super) fn strikes(&mut self, fault: &Fault) -> bool {
        let index = self.faults.iter().position(|planned| planned == fault);
        index.map(|index| self.faults.remove(index)).is_some()
    }

    pub(super) fn failure_of(&mut self, write: usize) -> Option<Failure> {
        let of_it = |fault: &Fault| match fault {
            Fault::Write { write: planned, failure } if *planned == write => Some(*failure),
            _ => None,
        };
        let index = self.faults.iter().position(|fault| of_it(fault).is_some())?;
        of_it(&self.faults.remove(index))
    }

    pub(super) fn is_down(&self, slot: usize) -> bool {
        slot == 0 && self.active.iter().any(|active| matches!(active.fault, Fault::Down { .. }))
    }

    /// Whether a request is about what cannot be watched now.
    pub(super) fn unseen(&self, call: &Call) -> Option<&'static str> {
        let cut = self.active.iter().any(
            |active| matches!(&active.fault, Fault::Unseen { kind, .. } if *kind == call.kind),
        );
        (cut && matches!(call.verb, "watch" | "list")).then_some("its watch cache is not ready")
    }

    /// A fault that lasts begins.
    pub(super) fn begin(&mut self, fault: &Fault, revision: u64) {
        self.record.tell(self.now, || format!("FAULT: {}", fault.begins()));
        if let Some(Until::After(time)) = fault.until() {
            self.push(self.now + time, 0, Event::Release { fault: fault.clone() });
        }
        self.active.push(Active {
            fault: fault.clone(),
            since: self.now,
            since_step: self.step,
            revision,
        });
        match fault {
            Fault::Down { .. } => self.crash(0, RESTART_AFTER),
            Fault::Unseen { kind, .. } => self.cut(kind),
            _ => {}
        }
    }

    /// Cuts the watches of a kind.
    pub(super) fn cut(&mut self, kind: &str) {
        let open: BTreeSet<u64> = self
            .flights
            .iter()
            .filter(|(_, one)| one.slot == 0 && one.lines.is_some() && one.call.kind == kind)
            .map(|(id, _)| *id)
            .collect();
        for id in open {
            self.server.close(id);
            if let Some(lines) = self.flights.remove(&id).and_then(|flight| flight.lines) {
                // The process may have closed it, too.
                let _ = lines.unbounded_send(Err(Broken));
            }
        }
    }

    /// A fault ends.
    pub(super) fn release(&mut self, fault: &Fault) {
        let Some(index) = self.active.iter().position(|active| active.fault == *fault) else {
            return;
        };
        self.active.remove(index);
        self.last_change = self.now;
        self.record.tell(self.now, || format!("FAULT over: {}", fault.begins()));
        match fault {
            Fault::Down { .. } => self.push(self.now + RESTART_AFTER, 0, Event::Start { slot: 0 }),
            Fault::Unseen { .. } => self.server.api().compact(),
            Fault::Stale { kind, .. } => {
                let held: Vec<(u64, Vec<Served>)> = self
                    .flights
                    .iter_mut()
                    .filter(|(_, flight)| flight.call.kind == *kind)
                    .map(|(id, flight)| (*id, std::mem::take(&mut flight.held)))
                    .collect();
                for (id, held) in held {
                    for served in held {
                        self.send(served, id);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Fault {
    /// The change at which it begins.
    pub(super) fn change(&self) -> Option<usize> {
        match self {
            Self::Stale { change, .. }
            | Self::Past { change, .. }
            | Self::Unseen { change, .. }
            | Self::Down { change, .. } => Some(*change),
            _ => None,
        }
    }

    pub(super) fn until(&self) -> Option<Until> {
        match self {
            Self::Stale { until, .. }
            | Self::Past { until, .. }
            | Self::Unseen { until, .. }
            | Self::Down { until, .. } => Some(*until),
            _ => None,
        }
    }

    pub(super) fn is_stale_of(&self, of: &str) -> bool {
        matches!(self, Self::Stale { kind, .. } if kind == of)
    }

    /// Whether reads that may come from the past do so.
    pub(super) fn shows_past_of(&self, of: &str) -> bool {
        self.is_stale_of(of) || matches!(self, Self::Past { kind, .. } if kind == of)
    }

    pub(super) fn begins(&self) -> String {
        match self {
            Self::Stale { kind, .. } => format!("the operator's view of {kind} is stale"),
            Self::Past { kind, .. } => format!("the operator reads {kind} from the past"),
            Self::Unseen { kind, .. } => format!("the operator cannot watch {kind}"),
            Self::Down { .. } => "the operator is down".to_owned(),
            other => other.to_string(),
        }
    }
}

impl Failure {
    /// What the process gets instead of an answer of the server.
    pub(super) fn answer(self) -> Result<Response<Option<Bytes>>, Broken> {
        let Self::Refused(code) = self else { return Err(Broken) };
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let reason = match code {
            StatusCode::CONFLICT => "Conflict",
            StatusCode::FORBIDDEN => "Forbidden",
            StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
            _ => "InternalError",
        };
        let status = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "the simulation refuses this request", "reason": reason,
            "code": code.as_u16(),
        });
        let mut answer =
            Response::builder().status(code).header("content-type", "application/json");
        if code == StatusCode::TOO_MANY_REQUESTS {
            answer = answer.header("retry-after", "1");
        }
        let body = Some(Bytes::from(status.to_string()));
        Ok(answer.body(body).expect("a status must be an answer"))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AnswerLost => f.write_str("the answer is lost"),
            Self::NotSent => f.write_str("the connection breaks before the server has it"),
            Self::Refused(code) => write!(f, "the server refuses it with {code}"),
        }
    }
}
