//! What a controller would do to a cluster, without doing it.
//!
//! ```text
//!  caches sync ─▶ queue is shut down ─▶ workers run every key once ─▶ Plan
//!                                            │ write
//!                  RunContext::client ─▶ PlanRecorder: reads the object, sends the write as a
//!                                        server-side dry run, checks that nothing was stored,
//!                                        notes the difference (plan/client)
//! ```
//!
//! The server does everything that it would do for the real write: defaulting, validation,
//! admission. It only stores nothing. So nothing changes, no event wakes another run, and one pass
//! over the objects is the whole plan.
//!
//! That holds for servers that know dry runs. One that ignores them is noticed by its answer. Then
//! the plan stops, and names the object.

mod client;
mod difference;
mod dry_run;
mod metadata;
mod request;
mod text;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use windlass_indexer::ObjectKey;

pub use client::PlanRecorder;
pub use dry_run::DryRunIgnored;

use crate::history::run_record::Outcome;

/// What a controller does in [plan mode](crate::Controller::plan).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlan {
    /// It runs, and its writes are dry runs. For reconcilers that change nothing but through their
    /// [`RunContext`](crate::RunContext), or that ask [`RunContext::is_plan`] before they change
    /// something elsewhere.
    ///
    /// [`RunContext::is_plan`]: crate::RunContext::is_plan
    Run,
    /// It does not run, and the plan says so.
    Skip,
}

/// What a controller would do: its runs, in the order of their keys.
///
/// [`Display`](std::fmt::Display) is for people, [`Serialize`] for programs.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Plan {
    /// The name of the controller.
    pub controller: String,
    /// Whether the controller was left out, because it is [`InPlan::Skip`].
    pub is_skipped: bool,
    /// Its runs that would write something, or that failed, in the order of their keys.
    pub runs: Vec<PlannedRun>,
    /// How many runs there were in all.
    pub runs_total: usize,
}

/// A run of a plan.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PlannedRun {
    /// The object that was reconciled.
    pub key: ObjectKey,
    /// What it would write, in the order of the writes.
    pub writes: Vec<PlannedWrite>,
    /// Why it failed, if it did. Then it might have written more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A write of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PlannedWrite {
    /// The group; empty for the core group.
    pub group: String,
    /// The resource, as in `deployments`.
    pub resource: String,
    /// The subresource, as in `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// The object; `None` if the server generates its name, and for a whole collection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<ObjectKey>,
    /// What would happen to it.
    #[serde(flatten)]
    pub effect: Effect,
}

/// What a write of a plan would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "effect")]
#[non_exhaustive]
pub enum Effect {
    /// The object would be created.
    Create,
    /// The object would be changed in these fields.
    Change {
        /// What would be different, in the order of the fields' names.
        fields: Vec<FieldChange>,
    },
    /// The object would be deleted, or be marked for deletion.
    Delete,
    /// All objects of a collection would be deleted.
    DeleteCollection,
    /// The write would be made. What it changes is not known.
    Unknown {
        /// Why it is not known.
        reason: String,
    },
}

/// A field that would be different.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FieldChange {
    /// Where it is, as in `spec.template.spec.containers[web].image`.
    pub path: String,
    /// Its value now; `None` if there is none. The content of a Secret is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// Its value then; `None` if there would be none. The content of a Secret is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// A plan that is being made.
pub(crate) struct OpenPlan {
    /// What the recorders of the runs are parts of.
    pub(crate) recorder: PlanRecorder,
    pub(crate) plan: Mutex<Plan>,
}

impl Plan {
    /// The plan of a controller that is [`InPlan::Skip`].
    pub(crate) fn skipped(controller: &str) -> Self {
        Self { controller: controller.to_owned(), is_skipped: true, ..Self::default() }
    }

    /// Notes a run that has ended.
    pub(crate) fn note(&mut self, key: &ObjectKey, writes: &PlanRecorder, outcome: &Outcome) {
        let (writes, error) = (writes.take(), outcome.failure());
        self.runs_total += 1;
        if error.is_some() || !writes.is_empty() {
            self.runs.push(PlannedRun { key: key.clone(), writes, error });
        }
    }

    /// The plan of a controller, once all runs have ended.
    pub(crate) fn finish(mut self, controller: &str) -> Self {
        self.runs.sort_by(|one, other| one.key.cmp(&other.key));
        Self { controller: controller.to_owned(), ..self }
    }

    /// Everything that it would write, in order.
    pub fn writes(&self) -> impl Iterator<Item = &PlannedWrite> {
        self.runs.iter().flat_map(|run| &run.writes)
    }

    /// Whether it would write nothing, and no run failed.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many runs failed. What they would have written after that is not known.
    pub fn failed(&self) -> usize {
        self.runs.iter().filter(|run| run.error.is_some()).count()
    }
}
