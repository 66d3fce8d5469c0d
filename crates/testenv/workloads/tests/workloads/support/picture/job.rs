//! Jobs.

use serde_json::{Value, json};

pub(super) fn job_picture(job: &Value) -> Value {
    let status = &job["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let conditions: Vec<String> = conditions
        .map(|condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            for time in ["lastProbeTime", "lastTransitionTime"] {
                assert!(!text(time).is_empty(), "{condition}");
            }
            let (kind, is_so) = (text("type"), text("status"));
            format!("{kind}={is_so} {}: {}", text("reason"), text("message"))
        })
        .collect();
    let is_there = |field: &str| status[field].is_string();
    json!({
        "name": job["metadata"]["name"],
        "active": status["active"],
        "ready": status["ready"],
        "terminating": status["terminating"],
        "succeeded": status["succeeded"],
        "failed": status["failed"],
        "completedIndexes": status["completedIndexes"],
        "uncounted": status["uncountedTerminatedPods"],
        "hasStarted": is_there("startTime"),
        "hasCompleted": is_there("completionTime"),
        // In their order.
        "conditions": conditions,
    })
}
