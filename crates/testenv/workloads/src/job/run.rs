//! One run for one job: carries out what the pure modules decide.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt as _;
use windlass_reconciler::{Action, Error, RunContext};

use super::backoff::Backoff;
use super::condition::{self, SUSPENDED};
use super::count::{count_released, is_settled, non_zero, note};
use super::demand::{self, PodChange};
use super::pods::{is_tracked, new_pod, untrack};
use super::tally::{Tally, count, sort};
use super::verdict::{self, JobEnd, deadline_in, success};
use crate::clock::stored;
use crate::objects::{Job, JobStatus, Pod};
use crate::pod::is_ready;

/// A job in the middle of a run.
pub(super) struct Run<'a> {
    cx: &'a RunContext,
    /// The job as the server has it.
    job: Job,
    pods: Vec<Arc<Pod>>,
    backoff: Backoff,
    now: Timestamp,
    /// The status to write.
    status: JobStatus,
    /// When to run next.
    requeue_after: Option<Duration>,
}

/// The number of pods after the run has created and deleted some.
struct Counts {
    active: i32,
    ready: i32,
    terminating: i32,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        cx: &'a RunContext,
        job: &Job,
        mut pods: Vec<Arc<Pod>>,
        backoff: Backoff,
        now: Timestamp,
    ) -> Self {
        sort(job, &mut pods);
        Self {
            cx,
            job: job.clone(),
            pods,
            backoff,
            now,
            status: job.status.clone(),
            requeue_after: None,
        }
    }

    /// Creates and deletes pods, counts the finished ones, and writes the resulting status. Returns
    /// the backoff, including new failures.
    pub(super) async fn advance(mut self) -> Result<(Backoff, Action), Error> {
        let tally = Tally::of(&self.job, &self.pods);
        if self.status.start_time.is_none() && !self.job.is_suspended() {
            self.status.start_time = Some(stored(self.now));
        }
        self.warn_of_unsupported_fields();
        self.backoff = self.backoff.after(&tally.newly_succeeded, &tally.newly_failed);
        let started = self.status.start_time.as_ref();
        let mut verdict = verdict::of(&self.job, started, &tally, &self.pods, self.now);
        let mut counts = Counts {
            active: count(tally.active.len()),
            ready: tally.ready,
            terminating: count(tally.terminating.len()),
        };
        if verdict.is_some() {
            if !tally.active.is_empty() {
                self.cx.confirm(&self.job).await?;
            }
            for pod in &tally.active {
                self.delete(pod, &mut counts).await?;
            }
        } else {
            self.requeue_after = deadline_in(&self.job, started, self.now);
            self.manage(&tally, &mut counts).await?;
            verdict = success(&self.job, tally.succeeded, counts.active);
            if verdict.is_none() && self.job.metadata.deletion_timestamp.is_none() {
                self.note_suspension();
            }
        }
        self.status.active = non_zero(counts.active);
        self.status.ready = Some(counts.ready);
        self.status.terminating = Some(counts.terminating);
        self.count_finished(verdict.as_ref()).await?;
        Ok((self.backoff, self.requeue_after.map_or(Action::done(), Action::requeue_after)))
    }

    /// Creates or deletes pods to reach the wanted number.
    async fn manage(&mut self, tally: &Tally, counts: &mut Counts) -> Result<(), Error> {
        if self.job.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        match demand::of(&self.job, tally, self.backoff, self.now) {
            PodChange::Unchanged => {}
            PodChange::Wait(wait) => {
                self.requeue_after = self.requeue_after.into_iter().chain([wait]).min();
            }
            PodChange::Delete(pods) => {
                // A newer version of the job may want more.
                self.cx.confirm(&self.job).await?;
                for pod in pods {
                    // So that the pod is not counted.
                    untrack(self.cx, &pod).await?;
                    self.delete(&pod, counts).await?;
                }
            }
            PodChange::Create(new) => {
                for index in new {
                    let pod = self.cx.live().create(&new_pod(&self.job, index)?).await?;
                    counts.active += 1;
                    let note = format!("Created pod: {}", pod.name_any());
                    self.cx.event(&self.job).normal("SuccessfulCreate", note);
                }
            }
        }
        Ok(())
    }

    async fn delete(&self, pod: &Pod, counts: &mut Counts) -> Result<(), Error> {
        self.cx.live().delete(pod).await?;
        let note = format!("Deleted pod: {}", pod.name_any());
        self.cx.event(&self.job).normal("SuccessfulDelete", note);
        counts.active -= 1;
        counts.terminating += 1;
        counts.ready -= i32::from(is_ready(pod));
        Ok(())
    }

    fn note_suspension(&mut self) {
        let conditions = &mut self.status.conditions;
        if self.job.is_suspended() {
            let (reason, message) = ("JobSuspended", "Job suspended");
            if condition::set(conditions, SUSPENDED, true, reason, message, self.now) {
                self.status.start_time = None;
                self.cx.event(&self.job).normal("Suspended", message);
            }
        } else {
            let (reason, message) = ("JobResumed", "Job resumed");
            if condition::set(conditions, SUSPENDED, false, reason, message, self.now) {
                // The deadline starts now.
                self.status.start_time = Some(stored(self.now));
                self.cx.event(&self.job).normal("Resumed", message);
            }
        }
    }

    /// Counts the finished pods, and ends the job if it is over and all are counted.
    async fn count_finished(&mut self, verdict: Option<&JobEnd>) -> Result<(), Error> {
        let held = self.pods.iter().filter(|pod| is_tracked(pod));
        let mut held: BTreeSet<String> = held.filter_map(|pod| pod.metadata.uid.clone()).collect();
        count_released(&mut self.status, &held);
        let released = note(&self.job, &mut self.status, &self.pods, verdict);
        if let Some(verdict) = verdict {
            let (interim, _) = verdict.conditions();
            self.set_verdict(interim, verdict);
        }
        self.write().await?;
        for pod in &released {
            untrack(self.cx, pod).await?;
            held.remove(pod.metadata.uid.as_deref().unwrap_or_default());
        }
        count_released(&mut self.status, &held);
        // Pods beyond the limit of one run are counted by the next run.
        if let Some(verdict) = verdict.filter(|_| held.is_empty()) {
            self.finish(verdict);
        }
        self.write().await
    }

    /// Sets the final condition, unless pods still run or have to be counted.
    fn finish(&mut self, verdict: &JobEnd) {
        if !is_settled(&self.status) || self.status.terminating.unwrap_or(0) > 0 {
            return;
        }
        let (_, last) = verdict.conditions();
        self.set_verdict(last, verdict);
        let event = self.cx.event(&self.job);
        if verdict.is_success {
            self.status.completion_time = Some(stored(self.now));
            event.normal("Completed", "Job completed");
        } else {
            event.warning(&verdict.reason, verdict.message.clone());
        }
    }

    fn set_verdict(&mut self, kind: &str, verdict: &JobEnd) {
        let JobEnd { reason, message, .. } = verdict;
        condition::set(&mut self.status.conditions, kind, true, reason, message, self.now);
    }

    async fn write(&mut self) -> Result<(), Error> {
        let mut observed = self.job.clone();
        observed.status = self.status.clone();
        self.job = self.cx.live().update_status(&self.job, &observed).await?;
        Ok(())
    }

    /// Warns once about unsupported fields of the job.
    fn warn_of_unsupported_fields(&self) {
        if self.job.status.start_time.is_some() || self.status.start_time.is_none() {
            return;
        }
        let spec = &self.job.spec;
        let missing = [
            (spec.pod_failure_policy.is_some(), "podFailurePolicy"),
            (spec.success_policy.is_some(), "successPolicy"),
            (spec.backoff_limit_per_index.is_some(), "backoffLimitPerIndex"),
        ];
        for (_, field) in missing.into_iter().filter(|(is_there, _)| *is_there) {
            let note = format!("spec.{field} is ignored: windlass-workloads does not support it");
            self.cx.event(&self.job).warning("Unsupported", note);
        }
    }
}
