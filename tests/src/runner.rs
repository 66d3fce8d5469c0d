//! Runs a case on one of the servers, and compares its transcript with the recording.
//!
//! Tests only compare. [`record`] is for the program of the same name, which `cargo xtask record`
//! runs.

use std::fmt::Write as _;

use serde_json::Value;

use crate::cases::{self, Case};
use crate::diff;
use crate::recording;
use crate::render::render;
use crate::request::Request;
use crate::script::Script;
use crate::target::Target;

/// How many differing steps are shown; later ones are mostly consequences.
const SHOWN_DIFFERENCES: usize = 3;

/// The area of the cases that need a server that enforces roles.
const ROLES: &str = "rbac";

/// Runs the case on an embedded server of its own.
///
/// # Panics
/// If the transcript differs from the recording, or if there is no recording.
pub fn embedded(case: &Case) {
    if case.area == ROLES {
        return embedded_with_roles(case);
    }
    let steps = block_on(async { transcript(case, Target::embedded()).await.0 });
    compare(case, "embedded", &steps);
}

/// Runs the case on an embedded server that enforces roles, as the real one does.
///
/// # Panics
/// If the transcript differs from the recording, or if there is no recording.
pub fn embedded_with_roles(case: &Case) {
    let steps = block_on(async { transcript(case, Target::embedded_with_roles()).await.0 });
    compare(case, "embedded", &steps);
}

/// Runs the case on the real server, and compares its transcript with the recording.
///
/// # Panics
/// If the transcript differs from the recording, or if there is no recording.
pub fn real(case: &Case) {
    let (steps, _) = block_on(async { transcript(case, Target::real().await).await });
    compare(case, "real", &steps);
}

/// Runs the case on the real server, and makes its transcript the recording.
///
/// # Panics
/// If the case fails, or if the recording cannot be written.
pub fn record(case: &Case) {
    let (steps, server) = block_on(async { transcript(case, Target::real().await).await });
    recording::write(case.area, case.name, steps, &server);
}

/// Checks the list of cases against the recordings: enough cases, unique names, no unused
/// recordings.
///
/// # Panics
/// If one of these does not hold.
pub fn check_recordings() {
    let mut names: Vec<_> = cases::ALL.iter().map(|case| case.name).collect();
    assert!(names.len() >= cases::AT_LEAST, "only {} cases", names.len());
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "a case is named after what it shows, and named once: {twice:?}");
    for area in recording::areas() {
        for name in recording::read(&area).into_keys() {
            let known = cases::ALL.iter().any(|case| case.area == area && case.name == name);
            assert!(known, "tests/recordings/{area}.json has `{name}`, which is no case");
        }
    }
}

/// Runs the body of a case; returns its steps and the version of the server.
async fn transcript(case: &Case, target: Target) -> (Vec<Value>, String) {
    let mut script = Script::start(target, case.name).await;
    let server = script.unrecorded(&Request::get("/version")).await.at("/gitVersion");
    (case.body)(&mut script).await;
    (script.into_steps(), server.as_str().unwrap_or("unknown").to_owned())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime must be possible")
        .block_on(future)
}

fn compare(case: &Case, server: &str, got: &[Value]) {
    let (area, name) = (case.area, case.name);
    let Some(expected) = recording::read(area).remove(name) else {
        panic!("{area}::{name} has no recording; make it with: cargo xtask record cases");
    };
    if let Some(report) = differences(&expected, got, server) {
        panic!(
            "{area}::{name}: the {server} server does not answer as recorded\n{report}\n  - recorded \
             from the real server, + got from the {server} one; again with:\n  cargo xtask \
             conformance {area}::{name}\n"
        );
    }
}

/// Returns the first differing steps in readable form, or `None` if the transcripts are equal.
fn differences(expected: &[Value], got: &[Value], server: &str) -> Option<String> {
    let steps = expected.len().max(got.len());
    let differing: Vec<_> =
        (0..steps).filter(|&step| expected.get(step) != got.get(step)).collect();
    let mut report = String::new();
    for &step in differing.iter().take(SHOWN_DIFFERENCES) {
        let shown = |steps: &[Value]| steps.get(step).map(render).unwrap_or_default();
        let lines = diff::lines(&shown(expected), &shown(got));
        let _ = writeln!(report, "  step {} of {steps}\n{lines}", step + 1);
    }
    if differing.len() > SHOWN_DIFFERENCES {
        let more = differing.len() - SHOWN_DIFFERENCES;
        let _ = writeln!(report, "  and {more} more steps of the {server} server");
    }
    (!differing.is_empty()).then_some(report)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_transcripts_have_no_differences() {
        assert_eq!(differences(&[json!({"a": 1})], &[json!({"a": 1})], "embedded"), None);
    }

    #[test]
    fn differing_step_is_shown_with_its_number_and_both_sides() {
        let report = differences(&[json!(1), json!(2)], &[json!(1), json!(3)], "embedded");
        let report = report.expect("the second step must differ");
        assert!(report.contains("step 2 of 2\n    - 2\n    + 3"), "{report}");
    }

    #[test]
    fn missing_step_is_a_difference() {
        let report = differences(&[json!(1), json!(2)], &[json!(1)], "embedded");
        assert!(report.is_some_and(|report| report.contains("- 2")));
    }
}
