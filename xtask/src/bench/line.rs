//! A measured value as one line of JSON, as the programs print it and `--json` writes it.
//!
//! The format is the same for every suite, so that one file can hold the lines of several runs:
//! `{"suite":"queue","case":"backlog","who":"windlass","metric":"throughput","value":12345678.9}`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// One measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) suite: String,
    pub(super) case: String,
    pub(super) who: String,
    pub(super) metric: String,
    pub(super) value: f64,
}

/// The metrics of one contestant in one run, by name.
pub(super) type Measured = BTreeMap<String, f64>;

/// Parses the output of a run of `case` for all of `whos`. The result is in the order of `whos`.
///
/// # Errors
/// If a line is not a [`Line`], is about something else, repeats a metric, or has a negative value.
pub(super) fn parse(
    output: &str,
    suite: &str,
    case: &str,
    whos: &[&'static str],
) -> Result<Vec<(&'static str, Measured)>> {
    let mut all: Vec<_> = whos.iter().map(|who| (*who, Measured::new())).collect();
    for text in output.lines().filter(|text| !text.trim().is_empty()) {
        let line: Line = serde_json::from_str(text)
            .with_context(|| format!("this line is not a metric: {text}"))?;
        ensure!(
            line.suite == suite && line.case == case,
            "this line is not about case {case} of {suite}: {text}"
        );
        let (_, measured) = all
            .iter_mut()
            .find(|(who, _)| *who == line.who)
            .with_context(|| format!("this line is not about {}: {text}", whos.join(", ")))?;
        ensure!(line.value >= 0.0, "this value is negative: {text}");
        let earlier = measured.insert(line.metric, line.value);
        ensure!(earlier.is_none(), "this metric was printed before: {text}");
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"suite":"queue","case":"dup-w4","who":"client-go","metric":"throughput","value":2500000.5}
{"suite":"queue","case":"dup-w4","who":"client-go","metric":"cpu_s","value":0}
"#;

    fn complaint(output: &str) -> String {
        let parsed = parse(output, "queue", "dup-w4", &["client-go"]);
        format!("{:#}", parsed.expect_err("this output must be refused"))
    }

    #[test]
    fn metrics_of_several_contestants_are_told_apart() {
        let both = format!("{}{GOOD}", GOOD.replace("client-go", "windlass").replace("0.5", "1.5"));
        let all = parse(&both, "queue", "dup-w4", &["client-go", "windlass"]).expect("good lines");
        let throughputs: Vec<_> =
            all.iter().map(|(who, measured)| (*who, measured["throughput"])).collect();
        assert_eq!(throughputs, [("client-go", 2_500_000.5), ("windlass", 2_500_001.5)]);
        assert_eq!(all[0].1.len(), 2);
    }

    #[test]
    fn text_that_is_not_a_metric_is_shown() {
        let complaint = complaint("panicked at src/main.rs\n");
        assert!(complaint.starts_with("this line is not a metric: panicked at"), "{complaint}");
    }

    #[test]
    fn line_about_another_case_suite_or_contestant_is_refused() {
        for (from, to) in
            [("dup-w4", "dup-w1"), ("\"queue\"", "\"store\""), ("client-go", "windlass")]
        {
            assert!(complaint(&GOOD.replace(from, to)).contains("this line is not about"), "{to}");
        }
    }

    #[test]
    fn impossible_values_are_refused() {
        assert!(complaint(&GOOD.replace("2500000.5", "-1")).contains("negative"));
        assert!(complaint(&GOOD.replace("2500000.5", "1e999")).contains("not a metric"));
        assert!(complaint(&GOOD.replace("2500000.5", "null")).contains("not a metric"));
        assert!(complaint(&GOOD.replace("cpu_s", "throughput")).contains("printed before"));
    }
}
