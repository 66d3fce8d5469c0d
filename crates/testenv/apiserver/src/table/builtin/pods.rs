//! Pods: their status in one word, derived from the states of their containers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{BuiltIn, columns};
use crate::table::age::{self, Now};
use crate::table::cells::{
    NONE, condition, containers, is_terminating, labels, list, name, number, text, text_or,
};

pub(super) static PODS: BuiltIn =
    BuiltIn { conditions: pod_conditions, ..BuiltIn::new(columns::PODS, pod) };

pub(super) static POD_TEMPLATES: BuiltIn = BuiltIn::new(columns::PODTEMPLATES, |object, _| {
    let [names, images] = containers(&object["template"]["spec"]["containers"]);
    json!([name(object), names, images, labels(&object["template"]["metadata"]["labels"])])
});

/// The status, readiness and restarts of a pod's containers.
struct Summary {
    status: String,
    ready: usize,
    restarts: Restarts,
}

#[derive(Default, Clone, Copy)]
struct Restarts {
    count: i64,
    /// The last time that a container ended and was restarted.
    last: Option<Timestamp>,
}

/// The progress of the init containers.
#[derive(Default)]
struct Initialization {
    /// The state of the first one that is not done. `None` if all are.
    waiting_for: Option<String>,
    /// The number of sidecars that run and are ready.
    ready: usize,
    restarts: Restarts,
    restarts_of_sidecars: Restarts,
}

/// Marks the rows of completed pods, so that clients can hide them.
fn pod_conditions(pod: &Value) -> Value {
    let phase = text(&pod["status"]["phase"]);
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return Value::Null,
    };
    json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}])
}

fn pod(pod: &Value, now: Now) -> Value {
    let summary = summarize(pod);
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let sidecars = list(&spec["initContainers"]).iter().filter(|one| is_sidecar(one)).count();
    let total = list(&spec["containers"]).len() + sidecars;
    json!([
        name(pod),
        format!("{}/{total}", summary.ready),
        summary.status,
        summary.restarts.cell(now),
        now.age(pod),
        text_or(&status["podIPs"][0]["ip"], NONE),
        text_or(&spec["nodeName"], NONE),
        text_or(&status["nominatedNodeName"], NONE),
        readiness_gates(pod),
    ])
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let passed =
        gates.iter().filter(|gate| condition(pod, text(&gate["conditionType"])) == Some("True"));
    format!("{}/{}", passed.count(), gates.len())
}

fn summarize(pod: &Value) -> Summary {
    let status = &pod["status"];
    let init = Initialization::of(pod);
    let initializing = init.waiting_for.is_some();
    let mut summary = Summary {
        status: init.waiting_for.unwrap_or_else(|| phase(pod)),
        ready: init.ready,
        restarts: init.restarts,
    };
    if !initializing || condition(pod, "Initialized") == Some("True") {
        summary.restarts = init.restarts_of_sidecars;
        summary.add_containers(pod);
    }
    if is_terminating(pod) {
        if status["reason"] == "NodeLost" {
            "Unknown".clone_into(&mut summary.status);
        } else if !matches!(text(&status["phase"]), "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut summary.status);
        }
    }
    summary
}

/// Returns the reason or phase of the pod, before its containers are considered.
fn phase(pod: &Value) -> String {
    let status = &pod["status"];
    let is_gated = |condition: &Value| {
        condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
    };
    if list(&status["conditions"]).iter().any(is_gated) {
        return "SchedulingGated".to_owned();
    }
    text_or(&status["reason"], text(&status["phase"])).to_owned()
}

impl Initialization {
    fn of(pod: &Value) -> Self {
        let specs = list(&pod["spec"]["initContainers"]);
        let mut init = Self::default();
        for (index, status) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
            let sidecar =
                specs.iter().any(|spec| spec["name"] == status["name"] && is_sidecar(spec));
            init.restarts.add(status);
            if sidecar {
                init.restarts_of_sidecars.add(status);
            }
            let (waiting, terminated) =
                (&status["state"]["waiting"], &status["state"]["terminated"]);
            if terminated.is_object() && number(&terminated["exitCode"]) == 0 {
                continue;
            }
            if sidecar && status["started"] == true {
                init.ready += usize::from(status["ready"] == true);
                continue;
            }
            init.waiting_for = Some(if terminated.is_object() {
                format!("Init:{}", end_of(terminated))
            } else {
                match text(&waiting["reason"]) {
                    "" | "PodInitializing" => format!("Init:{index}/{}", specs.len()),
                    reason => format!("Init:{reason}"),
                }
            });
            break;
        }
        init
    }
}

impl Summary {
    /// Adds the containers that run after initialization. The status of the first one wins.
    fn add_containers(&mut self, pod: &Value) {
        let mut has_running = false;
        let mut error = None;
        for status in list(&pod["status"]["containerStatuses"]).iter().rev() {
            self.restarts.add(status);
            let state = &status["state"];
            let waiting = text(&state["waiting"]["reason"]);
            let terminated = &state["terminated"];
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.status);
            } else if terminated.is_object() {
                self.status = end_of(terminated);
                if number(&terminated["exitCode"]) != 0 {
                    error = Some(self.status.clone());
                }
            } else if status["ready"] == true && state["running"].is_object() {
                has_running = true;
                self.ready += 1;
            }
        }
        // The pod is not completed if other containers still run or have failed.
        if self.status == "Completed" {
            if has_running && condition(pod, "Ready") == Some("True") {
                "Running".clone_into(&mut self.status);
            } else if let Some(error) = error {
                self.status = error;
            } else if has_running {
                "NotReady".clone_into(&mut self.status);
            }
        }
    }
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count = self.count.saturating_add(number(&status["restartCount"]));
        let ended = age::parse(&status["lastState"]["terminated"]["finishedAt"]);
        self.last = self.last.max(ended);
    }

    fn cell(self, now: Now) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, now.since_moment(last))
            }
            _ => self.count.to_string(),
        }
    }
}

/// Returns why a container ended.
fn end_of(terminated: &Value) -> String {
    let (reason, signal) = (text(&terminated["reason"]), number(&terminated["signal"]));
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", number(&terminated["exitCode"]))
    }
}

/// Whether an init container is a sidecar, which keeps running.
fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restarts(status: &Value) -> Value {
        let now = Now("2026-01-01T01:00:00Z".parse().expect("a time"));
        pod(&json!({"metadata": {}, "status": status}), now)[3].clone()
    }

    #[test]
    fn restarts_say_when_the_last_one_was() {
        let at = |time: &str, count: u64| {
            let ended = json!({"terminated": {"finishedAt": time}});
            json!({"restartCount": count, "lastState": ended})
        };
        let (early, late) = (at("2026-01-01T00:55:00Z", 2), at("2026-01-01T00:59:30Z", 1));
        let all = json!([early, late, {"restartCount": 1}]);
        assert_eq!(restarts(&json!({"containerStatuses": all})), "4 (30s ago)");
        assert_eq!(restarts(&json!({"containerStatuses": [{"restartCount": 3}]})), "3");
        let never = json!([at("2026-01-01T00:55:00Z", 0)]);
        assert_eq!(restarts(&json!({"containerStatuses": never})), "0");
    }
}
