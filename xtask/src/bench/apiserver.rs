//! The embedded API server, compared with kube-apiserver and etcd.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::helper::Helper;
use super::programs::Programs;
use super::results::{CPU_NS_PER_ITEM, ITEMS};
use super::suite::{Bound, Column, Driver, Section, Suite};
use super::table::grouped;
use crate::process::CommandLine;

pub(super) const SUITE: Suite = Suite {
    name: "apiserver",
    unit: "objects",
    size: 100_000,
    rounds: 3,
    base: "real",
    sections: SECTIONS,
    bounds: BOUNDS,
    items,
    packages: &["windlass-apiserver", "windlass-bench-apiserver"],
    start: |programs, objects| Ok(Box::new(Servers::new(&programs, objects))),
};

const SECTIONS: &[Section] = &[
    Section {
        cases: &["start"],
        whos: &["real", "embedded", "in-process"],
        at_once: false,
        columns: &[
            Column::new("first ms", "first_ms", 1.0, 1),
            Column::new("median ms", "median_ms", 1.0, 2).with_ratio(),
            Column::new("longest ms", "max_ms", 1.0, 1),
        ],
        note: "\
from nothing to the first answered list; first: the first start of a process.
real: kube-apiserver with etcd, over TLS; windlass-testserver starts it with GOGC=400: less CPU, more memory.
embedded: the program `windlass-apiserver`; in-process: the same without a socket.
",
    },
    Section {
        cases: &["list", "list-paged"],
        whos: &["real", "embedded"],
        at_once: false,
        columns: &[
            Column::new("objects", ITEMS, 1.0, 0),
            Column::new("wall s", "wall_s", 1.0, 3).with_ratio(),
            Column::new("client CPU s", "client_cpu_s", 1.0, 3),
            Column::new("CPU s", "cpu_s", 1.0, 3).with_ratio(),
            Column::new("with etcd", "cpu_all_s", 1.0, 3),
            Column::new("peak MiB", "peak_mb", 1.0, 1).with_ratio(),
            Column::new("with etcd", "peak_all_mb", 1.0, 1),
        ],
        note: "\
all ConfigMaps through kube, at once and in pages of 500. wall: includes the client's decoding; CPU and
peak: of the API server's process alone, while it answers.
",
    },
    Section {
        cases: &["fanout-w1", "fanout-w100", "fanout-w1000"],
        whos: &["real", "embedded"],
        at_once: false,
        columns: &[
            Column::new("events", ITEMS, 1.0, 0),
            Column::new("wall s", "wall_s", 1.0, 3).with_ratio(),
            Column::new("lag ms", "lag_s", 1e-3, 1),
            Column::new("client CPU s", "client_cpu_s", 1.0, 3),
            Column::new("CPU s", "cpu_s", 1.0, 3),
            Column::new("CPU µs/event", CPU_NS_PER_ITEM, 1e3, 2).with_ratio(),
            Column::new("with etcd s", "cpu_all_s", 1.0, 3),
            Column::new("peak MiB", "peak_mb", 1.0, 1).with_ratio(),
        ],
        note: "\
changes by 4 writers, each delivered to every watcher. wall: from the first write until all watchers have
seen the last; lag: from the last write on; CPU: of the API server's process alone, including the writes.
",
    },
];

const BOUNDS: &[Bound] = &[
    at_most("start", "in-process", "first_ms", &[], 20.0),
    at_most("start", "in-process", "median_ms", &[], 20.0),
    at_most("start", "in-process", "max_ms", &[], 20.0),
    at_most("list", "embedded", "wall_s", &["real"], 1.0),
    at_most("list", "embedded", "cpu_s", &["real"], 1.0),
];

const fn at_most(
    case: &'static str,
    who: &'static str,
    metric: &'static str,
    peers: &'static [&'static str],
    limit: f64,
) -> Bound {
    Bound { case, who, metric, peers, limit }
}

/// Returns how many watchers and updates a case has.
fn fanout(case: &str) -> Option<(u32, u32)> {
    match case {
        "fanout-w1" => Some((1, 1000)),
        "fanout-w100" => Some((100, 1000)),
        "fanout-w1000" => Some((1000, 200)),
        _ => None,
    }
}

fn items(case: &str, _who: &str, objects: u32) -> u32 {
    match fanout(case) {
        Some((watchers, updates)) => watchers * updates,
        None if case == "start" => 1,
        None => objects,
    }
}

/// Runs one process for each run. Lists need filled servers.
#[derive(Debug)]
struct Servers {
    program: String,
    objects: u32,
    /// They run only while lists are measured, so that they do not disturb the other cases.
    filled: Vec<Filled>,
}

/// A filled server, which a separate process runs.
#[derive(Debug)]
struct Filled {
    who: String,
    access: Access,
    _process: Helper,
}

/// The address of a server, and the processes to measure.
#[derive(Debug, Deserialize)]
struct Access {
    kubeconfig: String,
    pids: Vec<u32>,
}

impl Servers {
    fn new(programs: &Programs, objects: u32) -> Self {
        Self { program: programs.rust("bench"), objects, filled: Vec::new() }
    }

    /// Returns the arguments of one run.
    fn arguments(&mut self, case: &str, who: &str) -> Result<Vec<String>> {
        let words = if let Some((watchers, updates)) = fanout(case) {
            format!("fanout --who {who} --watchers {watchers} --updates {updates}")
        } else if case == "start" {
            format!("start --who {who}")
        } else {
            let paged = if case == "list-paged" { " --paged" } else { "" };
            format!("list --who {who} --objects {}{paged}", self.objects)
        };
        let mut arguments: Vec<String> = words.split(' ').map(str::to_owned).collect();
        if arguments[0] == "list" {
            arguments.extend(self.filled(who)?.arguments());
        } else {
            self.filled.clear();
        }
        Ok(arguments)
    }

    /// Returns the access to the filled server, which the first call starts and fills.
    fn filled(&mut self, who: &str) -> Result<&Access> {
        if !self.filled.iter().any(|server| server.who == who) {
            println!("==> fill the {who} server: {} ConfigMaps", grouped(self.objects));
            let arguments = ["serve", "--who", who, "--objects", &self.objects.to_string()];
            let mut process = Helper::start(&self.program, &arguments)?;
            let line = process.line()?;
            let access = serde_json::from_str(&line)
                .with_context(|| format!("the {who} server printed {line:?}"))?;
            self.filled.push(Filled { who: who.to_owned(), access, _process: process });
        }
        let server = self.filled.iter().find(|server| server.who == who);
        Ok(&server.context("the server must be there")?.access)
    }
}

impl Driver for Servers {
    fn run(&mut self, case: &str, whos: &[&str]) -> Result<String> {
        let mut output = String::new();
        for who in whos {
            let arguments = self.arguments(case, who)?;
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            output += &CommandLine::new(&self.program, &arguments).capture()?;
        }
        Ok(output)
    }
}

impl Access {
    /// Returns the arguments with which a run uses this server.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--kubeconfig".to_owned(), self.kubeconfig.clone()];
        for pid in &self.pids {
            arguments.extend(["--pid".to_owned(), pid.to_string()]);
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_arguments() {
        // `echo` stands for the program; for a list it is asked to run a server, and prints no
        // access.
        let mut servers = Servers { program: "echo".to_owned(), objects: 1000, filled: Vec::new() };
        let mut arguments = |case, who| servers.arguments(case, who).map(|words| words.join(" "));
        assert_eq!(arguments("start", "in-process").expect("a case"), "start --who in-process");
        assert_eq!(
            arguments("fanout-w1000", "embedded").expect("a case"),
            "fanout --who embedded --watchers 1000 --updates 200"
        );
        let error = arguments("list", "real").expect_err("echo is no server");
        assert!(error.to_string().contains("serve --who real --objects 1000"), "{error:#}");
    }

    #[test]
    fn access_becomes_arguments() {
        let access: Access =
            serde_json::from_str(r#"{"kubeconfig":"/k","pids":[7,8]}"#).expect("an access");
        assert_eq!(access.arguments(), ["--kubeconfig", "/k", "--pid", "7", "--pid", "8"]);
    }

    #[test]
    fn events_are_updates_times_watchers() {
        assert_eq!(items("fanout-w100", "real", 500), 100_000);
        assert_eq!(items("list", "real", 500), 500);
        assert_eq!(items("start", "real", 500), 1);
    }
}
