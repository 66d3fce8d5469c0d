//! What the crawl tells its user: a line that moves along, a snapshot when asked for, and a
//! summary.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufRead, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{self, Instant, Interval};
use windlass_workqueue::{Load, Snapshot, WaitingKey};

use crate::site::FetchError;
use crate::{ATTEMPTS_MAX, Cause, Url};

const SECOND: Duration = Duration::from_secs(1);

/// How many keys are listed where there may be thousands.
const LISTED_MAX: usize = 10;

/// What has been done so far. The queue does not know: it holds what is still to be done.
#[derive(Default)]
pub(crate) struct Report {
    /// Pages that were fetched or given up.
    pub(crate) finished: HashSet<Url>,
    pub(crate) hosts: BTreeMap<String, HostReport>,
    /// Each with its causes, and how many of these were left out.
    pub(crate) given_up: Vec<(Url, FetchError, Vec<Cause>, u64)>,
}

#[derive(Default)]
pub(crate) struct HostReport {
    pub(crate) fetched: u32,
    pub(crate) retried: u32,
    /// How long the pages were ready before a worker took them, added up.
    pub(crate) queued: Duration,
}

/// The terminal.
pub(crate) struct Progress {
    started: Instant,
    in_place: bool,
    line: Interval,
    snapshot: Option<Interval>,
    enter: mpsc::Receiver<()>,
}

/// What is to be shown now.
pub(crate) enum Wish {
    Line,
    Snapshot,
}

impl Report {
    pub(crate) fn host(&mut self, name: &str) -> &mut HostReport {
        self.hosts.entry(name.to_owned()).or_default()
    }
}

impl Progress {
    pub(crate) fn new(snapshot_every: u32) -> Self {
        let started = Instant::now();
        let every = |period| time::interval_at(started + period, period);
        let in_place = io::stderr().is_terminal();
        Self {
            started,
            in_place,
            line: every(if in_place { SECOND / 10 } else { SECOND }),
            snapshot: (snapshot_every > 0).then(|| every(snapshot_every * SECOND)),
            enter: enter_pressed(),
        }
    }

    /// Waits until something is to be shown.
    ///
    /// # Cancel safety
    /// Safe: a wish is taken in the same step that returns it.
    pub(crate) async fn next(&mut self) -> Wish {
        let snapshot = async {
            match &mut self.snapshot {
                Some(interval) => interval.tick().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(()) = self.enter.recv() => Wish::Snapshot,
            _ = snapshot => Wish::Snapshot,
            _ = self.line.tick() => Wish::Line,
        }
    }

    /// Says something on a line of its own.
    pub(crate) fn say(&self, what: &str) {
        self.end_line();
        eprintln!("{what}");
    }

    /// Shows how far the crawl is: written over in a terminal, line by line in a log.
    pub(crate) fn show(&self, report: &Report, load: Load) {
        let (before, after) = if self.in_place { ("\r\x1b[K", "") } else { ("", "\n") };
        eprint!(
            "{before}{:5.1} s  {} done, {} failed, {} retried  |  {} ready, {} waiting, {} running{after}",
            self.started.elapsed().as_secs_f64(),
            report.finished.len() - report.given_up.len(),
            report.given_up.len(),
            report.hosts.values().map(|host| host.retried).sum::<u32>(),
            load.ready,
            load.waiting,
            load.running,
        );
        let _ = io::stderr().flush();
    }

    /// Shows what the queue holds: what runs and what has failed comes first.
    pub(crate) fn show_snapshot(&self, snapshot: &Snapshot<Url, Cause>) {
        self.end_line();
        println!("{snapshot:.20}");
    }

    /// Shows what came of it.
    pub(crate) fn finish(&self, report: &Report, is_complete: bool) {
        self.end_line();
        let end = if is_complete { "complete" } else { "interrupted" };
        println!("\nCrawl {end} after {:.1} s.\n", self.started.elapsed().as_secs_f64());
        println!("{:<16} {:>7} {:>7} {:>15}", "HOST", "DONE", "RETRIED", "MEAN TIME READY");
        for (name, host) in &report.hosts {
            let mean = (host.queued / host.fetched.max(1)).as_millis();
            println!("{name:<16} {:>7} {:>7} {mean:>12} ms", host.fetched, host.retried);
        }
        for (url, error, causes, omitted) in &report.given_up {
            println!("\nGiven up after {ATTEMPTS_MAX} attempts: {url}: {error}");
            for cause in causes {
                println!("    wanted because {cause:?}");
            }
            if *omitted > 0 {
                println!("    and for {omitted} causes between these");
            }
        }
    }

    /// What comes next stands below the line that moves along.
    fn end_line(&self) {
        if self.in_place {
            eprintln!();
        }
    }
}

/// Shows what an interrupted crawl did not come to.
pub(crate) fn print_left_over(ready: usize, waiting: &[WaitingKey<Url>]) {
    println!("\nNot done: {ready} pages were ready, and {} waited for a retry.", waiting.len());
    for WaitingKey { key, .. } in waiting.iter().take(LISTED_MAX) {
        println!("    {key}");
    }
    if waiting.len() > LISTED_MAX {
        println!("    and {} more", waiting.len() - LISTED_MAX);
    }
}

/// Tells each time that a line is entered. A thread of its own, because a read of the terminal
/// cannot be cancelled: this one simply ends with the process, where tokio would wait for it.
fn enter_pressed() -> mpsc::Receiver<()> {
    let (pressed, receiver) = mpsc::channel(1);
    thread::spawn(move || {
        for _ in io::stdin().lock().lines().map_while(Result::ok) {
            if pressed.blocking_send(()).is_err() {
                break;
            }
        }
    });
    receiver
}
