//! `windlass runs`, `queue`, `informers` and `leader`: parts of a report as tables.

use std::fmt::Write as _;

use serde::Deserialize;

use super::story::{duration, time};

/// The displayed fields of an answer of `/debug/windlass`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Report {
    leadership: Option<Leadership>,
    controllers: Vec<Controller>,
    informers: Vec<Informer>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Leadership {
    lease: String,
    identity: String,
    /// `None` if the operator's version does not report it.
    in_pod: Option<bool>,
    state: String,
    leader: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Controller {
    name: String,
    queue: Queue,
    last_runs: Vec<Run>,
    omitted_runs: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Queue {
    keys: Vec<Queued>,
    omitted_keys: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Queued {
    key: String,
    state: String,
    since: String,
    next_run: Option<String>,
    attempt: u32,
    causes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    key: String,
    started: String,
    took_seconds: f64,
    outcome: String,
    message: Option<String>,
    causes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Informer {
    resource: String,
    state: String,
    memory: Memory,
    quarantined_total: u64,
    feeds: Vec<Feed>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    objects: u64,
    object_bytes: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feed {
    last_event: Option<String>,
}

impl Report {
    pub(super) fn runs(&self) -> String {
        let mut table = Table::new(["STARTED", "CONTROLLER", "KEY", "OUTCOME", "TOOK", "BECAUSE"]);
        let mut omitted = 0;
        for controller in &self.controllers {
            omitted += controller.omitted_runs;
            for run in &controller.last_runs {
                let because = match &run.message {
                    Some(message) => message.clone(),
                    None => run.causes.join(", "),
                };
                table.row([
                    time(&run.started),
                    &controller.name,
                    &run.key,
                    &run.outcome,
                    &duration(run.took_seconds),
                    &because,
                ]);
            }
        }
        table.text("no run has ended yet", omitted)
    }

    pub(super) fn queue(&self) -> String {
        let mut table =
            Table::new(["STATE", "CONTROLLER", "KEY", "SINCE", "NEXT RUN", "ATTEMPT", "BECAUSE"]);
        let mut omitted = 0;
        for controller in &self.controllers {
            omitted += controller.queue.omitted_keys;
            for key in &controller.queue.keys {
                table.row([
                    &key.state,
                    &controller.name,
                    &key.key,
                    time(&key.since),
                    key.next_run.as_deref().map_or("", time),
                    &key.attempt.to_string(),
                    &key.causes.join(", "),
                ]);
            }
        }
        table.text("no key runs or waits", omitted)
    }

    pub(super) fn informers(&self) -> String {
        let mut table =
            Table::new(["RESOURCE", "STATE", "OBJECTS", "KIB", "QUARANTINED", "LAST EVENT"]);
        for informer in &self.informers {
            let last = informer.feeds.iter().filter_map(|feed| feed.last_event.as_deref()).max();
            table.row([
                &informer.resource,
                &informer.state,
                &informer.memory.objects.to_string(),
                &informer.memory.object_bytes.div_ceil(1_024).to_string(),
                &informer.quarantined_total.to_string(),
                last.map_or("", time),
            ]);
        }
        table.text("there are no informers yet", 0)
    }

    pub(super) fn leader(&self) -> String {
        let Some(of) = &self.leadership else {
            return "this operator elects no leader\n".to_owned();
        };
        let leader = of.leader.as_deref().unwrap_or("nobody, as far as this replica knows");
        format!(
            "leader   {leader}\nlease    {}\nasked    {} ({})\n",
            of.lease, of.identity, of.state
        )
    }
}

impl Report {
    /// If this replica does not lead: returns who leads, and how to reach the leader.
    pub(super) fn standby(&self) -> Option<String> {
        let Leadership { lease, identity, in_pod, state, leader } = self.leadership.as_ref()?;
        if state != "standby" {
            return None;
        }
        let Some(leader) = leader else {
            return Some(format!(
                "{identity} is a standby, so its controllers do not run, and it does not know who \
                 leads: see the Lease {lease}"
            ));
        };
        let note = format!(
            "{identity} is a standby, so its controllers do not run. {leader} leads: ask it"
        );
        if *in_pod == Some(false) {
            return Some(format!("{note}, at the --metrics-bind-address of that process"));
        }
        // An identity begins with the name of the pod, and the Lease is in its namespace.
        let pod = leader.rsplit_once('_').map_or(leader.as_str(), |(pod, _)| pod);
        let namespace = lease.split('/').next().unwrap_or_default();
        Some(format!(
            "{note}, in a cluster by kubectl port-forward -n {namespace} pod/{pod} PORT, with the \
             port of its metrics"
        ))
    }
}

/// Rows in columns.
struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    fn new(header: [&str; N]) -> Self {
        Self { rows: vec![header.map(str::to_owned)] }
    }

    fn row(&mut self, cells: [&str; N]) {
        // A message may have several lines, but a row has only one.
        self.rows.push(cells.map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" ")));
    }

    /// The rows, or `empty` if there are none.
    fn text(&self, empty: &str, omitted: usize) -> String {
        if self.rows.len() == 1 {
            return format!("{empty}\n");
        }
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or_default()
        };
        let widths: Vec<_> = (0..N).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        if omitted > 0 {
            let _ = writeln!(text, "{omitted} more: see --limit");
        }
        text
    }
}
