//! One measured value as one line of JSON: what a benchmark's process prints, and what `--json` writes.
//!
//! The form is the same for every suite, so that the lines of several runs can be put into one file:
//! `{"suite":"queue","case":"backlog","who":"windlass","metric":"throughput","value":12345678.9}`.
//! The names of the measured and of metrics are closed sets: a name that is not in them is a mistake of the
//! process, and is reported as one.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// One measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) suite: String,
    pub(super) case: String,
    pub(super) who: Who,
    pub(super) metric: Metric,
    pub(super) value: f64,
}

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Who {
    /// client-go's rate limiting work queue, or its informers: what the ratios are to.
    ClientGo,
    /// controller-runtime's priority queue, its cache, or its controller.
    ControllerRuntime,
    /// Our queue with `Arc<str>` keys.
    WindlassArcstr,
    /// Our queue with interned keys, our informers as they come, with a compact cache, or our controller.
    Windlass,
    /// Our queue with priority, fairness and causes on.
    WindlassFull,
    /// kube-runtime's reflector, or its controller. What is no queue is no choice among the queues.
    #[value(skip)]
    KubeRuntime,
    /// Our informers with a cache that holds typed objects.
    #[value(skip)]
    WindlassResident,
    /// Our informers of a type that has only what its user needs.
    #[value(skip)]
    WindlassSlim,
    /// The embedded API server, called without a socket.
    #[value(skip)]
    InProcess,
    /// The embedded API server as a program, over loopback.
    #[value(skip)]
    Embedded,
    /// kube-apiserver with etcd.
    #[value(skip)]
    Real,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Metric {
    /// Keys (or adds) per second of wall time.
    Throughput,
    /// CPU seconds of the measured section, user and system.
    CpuS,
    /// Wall seconds of the measured section.
    WallS,
    /// Peak resident memory of the process, in MiB.
    PeakMb,
    /// Resident memory at the end of the measured section, in MiB, without what is free.
    ResidentMb,
    /// Resident memory as it is when the process has come to rest, in MiB.
    SettledMb,
    /// By how much an object makes the resident memory grow.
    BytesPerObject,
    /// Median latency in microseconds.
    P50Us,
    /// 99th percentile of the latency in microseconds.
    P99Us,
    /// CPU microseconds for one event.
    CpuUsPerEvent,
    /// The first, cold start in milliseconds.
    FirstMs,
    /// The middle one of several starts in milliseconds.
    MedianMs,
    /// The longest of several starts in milliseconds.
    MaxMs,
    /// CPU seconds as `cpu_s`, with the processes that work for the measured one.
    CpuAllS,
    /// CPU seconds of the process that asks.
    ClientCpuS,
    /// Peak memory as `peak_mb`, with the processes that work for the measured one.
    PeakAllMb,
    /// Wall seconds from the last write until everybody has seen it.
    LagS,
}

/// What one process measured.
pub(super) type Measured = BTreeMap<Metric, f64>;

/// Reads what a process printed that was asked to run `case` of `suite` for `who`.
///
/// # Errors
/// As [`parse_all`].
pub(super) fn parse(
    output: &str,
    (suite, case, who): (&str, &str, Who),
    required: &[Metric],
) -> Result<Measured> {
    let all = parse_all(output, (suite, case, &[who]), required)?;
    Ok(all.into_iter().flatten().collect())
}

/// Reads what a process printed that was asked to run `case` of `suite` for everyone of `whos`; what it measured
/// stands in their order.
///
/// # Errors
/// If a line is not a [`Line`], is about something else than what was asked for, repeats a metric or has
/// a value that cannot be; or if one of the `required` metrics is missing for someone.
pub(super) fn parse_all(
    output: &str,
    (suite, case, whos): (&str, &str, &[Who]),
    required: &[Metric],
) -> Result<Vec<Measured>> {
    let mut all = vec![Measured::new(); whos.len()];
    for text in output.lines().filter(|text| !text.trim().is_empty()) {
        let line: Line = serde_json::from_str(text)
            .with_context(|| format!("this line is not a metric: {text}"))?;
        let whose = whos.iter().position(|&who| who == line.who);
        let is_asked = line.suite == suite && line.case == case;
        let Some(whose) = whose.filter(|_| is_asked) else {
            bail!("this line is not about {suite}, {case}, {}: {text}", names(whos));
        };
        ensure!(line.value >= 0.0, "a value must not be negative: {text}");
        if all[whose].insert(line.metric, line.value).is_some() {
            bail!("this metric was printed before: {text}");
        }
    }
    for (who, measured) in whos.iter().zip(&all) {
        for metric in required {
            ensure!(measured.contains_key(metric), "the metric `{metric}` of {who} is missing");
        }
    }
    Ok(all)
}

impl Line {
    /// The line in its JSON form, without the line's end.
    pub(super) fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).with_context(|| format!("{self:?} has no JSON form"))
    }
}

impl Who {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ClientGo => "client-go",
            Self::ControllerRuntime => "controller-runtime",
            Self::WindlassArcstr => "windlass-arcstr",
            Self::Windlass => "windlass",
            Self::WindlassFull => "windlass-full",
            Self::KubeRuntime => "kube-runtime",
            Self::WindlassResident => "windlass-resident",
            Self::WindlassSlim => "windlass-slim",
            Self::InProcess => "in-process",
            Self::Embedded => "embedded",
            Self::Real => "real",
        }
    }

    /// Whether the Go program runs it, and not ours.
    pub(super) fn is_go(self) -> bool {
        matches!(self, Self::ClientGo | Self::ControllerRuntime)
    }
}

/// The names of several.
pub(super) fn names(whos: &[Who]) -> String {
    whos.iter().map(|who| who.name()).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Throughput => "throughput",
            Self::CpuS => "cpu_s",
            Self::WallS => "wall_s",
            Self::PeakMb => "peak_mb",
            Self::ResidentMb => "resident_mb",
            Self::SettledMb => "settled_mb",
            Self::BytesPerObject => "bytes_per_object",
            Self::P50Us => "p50_us",
            Self::P99Us => "p99_us",
            Self::CpuUsPerEvent => "cpu_us_per_event",
            Self::FirstMs => "first_ms",
            Self::MedianMs => "median_ms",
            Self::MaxMs => "max_ms",
            Self::CpuAllS => "cpu_all_s",
            Self::ClientCpuS => "client_cpu_s",
            Self::PeakAllMb => "peak_all_mb",
            Self::LagS => "lag_s",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: (&str, &str, Who) = ("queue", "dup-w4", Who::ClientGo);
    const GOOD: &str = r#"{"suite":"queue","case":"dup-w4","who":"client-go","metric":"throughput","value":2500000.5}
{"suite":"queue","case":"dup-w4","who":"client-go","metric":"cpu_s","value":0}
"#;

    fn complaint(output: &str) -> String {
        let error = parse(output, ASKED, &[]).expect_err("this output must be refused");
        format!("{error:#}")
    }

    #[test]
    fn metrics_of_a_process_are_read() {
        let measured = parse(GOOD, ASKED, &[Metric::Throughput, Metric::CpuS]).expect("good lines");
        assert_eq!(
            measured,
            Measured::from([(Metric::Throughput, 2_500_000.5), (Metric::CpuS, 0.0)])
        );
    }

    #[test]
    fn metrics_of_several_are_told_apart() {
        let both = format!("{}{GOOD}", GOOD.replace("client-go", "windlass").replace("0.5", "1.5"));
        let asked = ("queue", "dup-w4", &[Who::ClientGo, Who::Windlass][..]);
        let all = parse_all(&both, asked, &[Metric::CpuS]).expect("good lines");
        let throughputs: Vec<_> =
            all.iter().map(|measured| measured[&Metric::Throughput]).collect();
        assert_eq!(throughputs, [2_500_000.5, 2_500_001.5]);
        let error = parse_all(GOOD, asked, &[Metric::CpuS]).expect_err("one said nothing");
        assert_eq!(error.to_string(), "the metric `cpu_s` of windlass is missing");
    }

    #[test]
    fn text_that_is_not_json_is_shown_in_the_complaint() {
        let complaint = complaint("panicked at src/main.rs\n");
        assert!(complaint.starts_with("this line is not a metric: panicked at"), "{complaint}");
    }

    #[test]
    fn unknown_metric_and_unknown_queue_are_refused() {
        let unknown = complaint(&GOOD.replace("throughput", "speed"));
        assert!(unknown.contains("unknown variant `speed`"), "{unknown}");
        let unknown = complaint(&GOOD.replace("client-go", "client-rs"));
        assert!(unknown.contains("unknown variant `client-rs`"), "{unknown}");
    }

    #[test]
    fn line_about_another_case_suite_or_queue_is_refused() {
        for (from, to) in
            [("dup-w4", "dup-w1"), ("\"queue\"", "\"store\""), ("client-go", "windlass")]
        {
            let complaint = complaint(&GOOD.replace(from, to));
            assert!(
                complaint.contains("is not about queue, dup-w4, client-go"),
                "{to}: {complaint}"
            );
        }
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        assert!(complaint(&GOOD.replace("2500000.5", "-1")).contains("negative"));
        assert!(complaint(&GOOD.replace("2500000.5", "1e999")).contains("not a metric"));
        assert!(complaint(&GOOD.replace("2500000.5", "null")).contains("not a metric"));
        assert!(complaint(&GOOD.replace("cpu_s", "throughput")).contains("printed before"));
    }

    #[test]
    fn missing_metric_is_named() {
        let error = parse(GOOD, ASKED, &[Metric::PeakMb]).expect_err("peak_mb must be missed");
        assert_eq!(error.to_string(), "the metric `peak_mb` of client-go is missing");
        parse("", ASKED, &[Metric::PeakMb]).expect_err("printing nothing must not pass");
    }

    #[test]
    fn written_line_has_the_form_that_is_read() {
        let line = Line {
            suite: "queue".to_owned(),
            case: "delay-p4".to_owned(),
            who: Who::WindlassArcstr,
            metric: Metric::PeakMb,
            value: 12.5,
        };
        let json = line.to_json().expect("a finite number has a JSON form");
        assert_eq!(
            json,
            r#"{"suite":"queue","case":"delay-p4","who":"windlass-arcstr","metric":"peak_mb","value":12.5}"#
        );
        assert_eq!(serde_json::from_str::<Line>(&json).expect("what is written"), line);
    }

    #[test]
    fn names_are_the_ones_of_the_command_line_and_of_json() {
        for &who in Who::value_variants() {
            let taken = who.to_possible_value().expect("no queue must be hidden");
            assert_eq!(taken.get_name(), who.name());
            assert_eq!(serde_json::to_string(&who).expect("a name"), format!("\"{who}\""));
        }
        for who in [
            Who::KubeRuntime,
            Who::WindlassResident,
            Who::WindlassSlim,
            Who::InProcess,
            Who::Embedded,
            Who::Real,
        ] {
            assert!(who.to_possible_value().is_none(), "{who} is no queue");
            assert_eq!(serde_json::to_string(&who).expect("a name"), format!("\"{who}\""));
        }
        for metric in [
            Metric::P50Us,
            Metric::ResidentMb,
            Metric::SettledMb,
            Metric::BytesPerObject,
            Metric::CpuUsPerEvent,
            Metric::WallS,
            Metric::FirstMs,
            Metric::CpuAllS,
            Metric::ClientCpuS,
            Metric::PeakAllMb,
            Metric::LagS,
        ] {
            assert_eq!(serde_json::to_string(&metric).expect("a name"), format!("\"{metric}\""));
        }
    }
}
