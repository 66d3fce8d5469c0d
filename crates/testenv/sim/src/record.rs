//! What happened in a simulated run: what is judged, and, if it is wanted, the whole story.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use crate::call::{Call, is_background};
use crate::process::Time;

/// A change of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: String,
}

/// The record of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    tells: bool,
    story: Vec<(Time, String)>,
    /// The writes that the operator sent.
    pub(crate) writes: Vec<Call>,
    pub(crate) changes: Vec<Change>,
    /// Every kind of which there may be objects, and the path of all of them.
    pub(crate) kinds: BTreeMap<String, String>,
    /// The kinds that the operator watches.
    pub(crate) watched: BTreeSet<String>,
    /// The kinds of which it reads what may come from the past.
    pub(crate) read_past: BTreeSet<String>,
    /// How many objects of each kind the operator created and deleted.
    pub(crate) created: BTreeMap<String, usize>,
    pub(crate) deleted: BTreeMap<String, usize>,
    pub(crate) violations: Vec<(Time, String)>,
    /// Processes that have ended by themselves.
    pub(crate) ended: Vec<String>,
}

impl Record {
    /// `tells`: whether the story is kept.
    pub(crate) fn new(tells: bool) -> Self {
        Self { tells, ..Self::default() }
    }

    pub(crate) fn tells(&self) -> bool {
        self.tells
    }

    /// Adds to the story.
    pub(crate) fn tell(&mut self, at: Time, what: impl FnOnce() -> String) {
        if self.tells {
            self.story.push((at, what()));
        }
    }

    /// The story, in order.
    pub(crate) fn story(&self) -> Vec<String> {
        let mut story = self.story.clone();
        story.sort_by_key(|(at, _)| *at);
        let told =
            |(at, what): (Time, String)| format!("{:>7}.{:03} s  {what}", at / 1_000, at % 1_000);
        story.into_iter().map(told).collect()
    }

    /// Returns the number of the write.
    pub(crate) fn note_write(&mut self, call: &Call) -> usize {
        self.writes.push(call.clone());
        self.writes.len() - 1
    }

    pub(crate) fn note_watched(&mut self, kind: &str) {
        if !is_background(kind) && !self.watched.contains(kind) {
            self.watched.insert(kind.to_owned());
        }
    }

    pub(crate) fn note_read_past(&mut self, kind: &str) {
        if !self.read_past.contains(kind) {
            self.read_past.insert(kind.to_owned());
        }
    }

    /// Returns the number of the change.
    pub(crate) fn note_change(&mut self, call: &Call) -> usize {
        self.changes.push(Change { kind: call.kind.clone() });
        let of_kind = || call.collection.clone();
        self.kinds.entry(call.kind.clone()).or_insert_with(of_kind);
        self.changes.len() - 1
    }

    /// Notes what a write of the operator has done.
    pub(crate) fn note_effect(&mut self, call: &Call, code: Option<StatusCode>) {
        if call.is_background() || !call.subresource.is_empty() {
            return;
        }
        let counts = match call.verb {
            "delete" | "deletecollection" => &mut self.deleted,
            _ if code == Some(StatusCode::CREATED) => &mut self.created,
            _ => return,
        };
        *counts.entry(call.kind.clone()).or_default() += 1;
    }

    pub(crate) fn note_violation(&mut self, at: Time, what: String) {
        self.tell(at, || format!("VIOLATION: {what}"));
        self.violations.push((at, what));
    }

    pub(crate) fn note_ended(&mut self, name: &str, what: &str) {
        self.ended.push(format!("{name} {what}"));
    }
}

/// Returns one text for each event of a watch that is about an object.
pub(crate) fn tell_lines(lines: &Bytes) -> Vec<String> {
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .filter_map(|line| {
            let event: Value = serde_json::from_slice(line).ok()?;
            let kind = event["type"].as_str()?;
            let metadata = &event["object"]["metadata"];
            let name = metadata["name"].as_str()?;
            let version = metadata["resourceVersion"].as_str().unwrap_or("?");
            Some(match metadata["namespace"].as_str() {
                Some(namespace) => format!("{kind} {namespace}/{name} at {version}"),
                None => format!("{kind} {name} at {version}"),
            })
        })
        .collect()
}
