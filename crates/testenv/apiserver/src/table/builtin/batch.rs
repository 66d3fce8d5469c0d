//! Jobs and cron jobs.

use serde_json::{Value, json};

use super::{BuiltIn, columns};
use crate::table::age::{Now, human_duration, parse};
use crate::table::cells::{
    NONE, UNSET, condition, containers, given_or, is_terminating, list, name, number,
    selector_or_none, text,
};

/// The conditions that end a job, in order of precedence. They are also the texts of its status.
const ENDS: [&str; 2] = ["Complete", "Failed"];

/// The conditions of a job that has not ended.
const STAGES: [&str; 3] = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];

pub(super) static JOBS: BuiltIn = BuiltIn::new(columns::JOBS, |object, now| {
    let [names, images] = containers(&object["spec"]["template"]["spec"]["containers"]);
    json!([
        name(object),
        job_status(object),
        completions(object),
        duration(object, now),
        now.age(object),
        names,
        images,
        selector_or_none(&object["spec"]["selector"]),
    ])
});

pub(super) static CRON_JOBS: BuiltIn = BuiltIn::new(columns::CRONJOBS, |object, now| {
    let spec = &object["spec"];
    let job = &spec["jobTemplate"]["spec"];
    let [names, images] = containers(&job["template"]["spec"]["containers"]);
    let last = &object["status"]["lastScheduleTime"];
    let suspend = match spec["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    json!([
        name(object),
        text(&spec["schedule"]),
        given_or(&spec["timeZone"], NONE),
        suspend,
        list(&object["status"]["active"]).len(),
        if last.is_null() { NONE.to_owned() } else { now.since(last) },
        now.age(object),
        names,
        images,
        selector_or_none(&job["selector"]),
    ])
});

fn job_status(job: &Value) -> &'static str {
    let first = |conditions: &[&'static str]| {
        conditions.iter().copied().find(|name| condition(job, name) == Some("True"))
    };
    first(&ENDS)
        .or_else(|| is_terminating(job).then_some("Terminating"))
        .or_else(|| first(&STAGES))
        .unwrap_or("Running")
}

fn completions(job: &Value) -> String {
    let succeeded = number(&job["status"]["succeeded"]);
    let (wanted, parallelism) = (&job["spec"]["completions"], number(&job["spec"]["parallelism"]));
    match wanted.as_i64() {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

/// Returns how long the job took, or has been running.
fn duration(job: &Value, now: Now) -> String {
    let Some(start) = parse(&job["status"]["startTime"]) else { return String::new() };
    match parse(&job["status"]["completionTime"]) {
        Some(end) => human_duration(end.duration_since(start)),
        None => now.since_moment(start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_runs_has_taken_the_time_since_its_start() {
        let now = Now("2026-01-01T00:05:10Z".parse().expect("a time"));
        let running = json!({"status": {"startTime": "2026-01-01T00:00:00Z"}});
        assert_eq!(duration(&running, now), "5m10s");
        let ended = json!({"status": {
            "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:00:42Z",
        }});
        assert_eq!(duration(&ended, now), "42s");
        assert_eq!(duration(&json!({}), now), "");
    }
}
