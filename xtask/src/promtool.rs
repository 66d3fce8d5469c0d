//! Checks the dashboard and the alert rules of `docs/monitoring` with Prometheus' own promtool.
//!
//! promtool is built with Go into the cache folder, in the version of `xtask/promtool/go.mod`. It
//! tests the alert rules with series, and parses the queries of the dashboard, which it gets as
//! rules. The tests below check what needs no promtool: that every metric is documented.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::cache;
use crate::process::{CommandLine, workspace_root};

const ALERTS: &str = "docs/monitoring/alerts.yaml";
const ALERT_TESTS: &str = "docs/monitoring/alerts_test.yaml";
const DASHBOARD: &str = "docs/monitoring/dashboard.json";

/// Builds promtool if needed, and checks rules and dashboard.
///
/// # Errors
/// If promtool does not build or reports an error.
pub(crate) fn run() -> Result<()> {
    let folder = cache::folder()?;
    fs::create_dir_all(&folder)
        .with_context(|| format!("{} could not be created", folder.display()))?;
    let promtool = folder.join("promtool");
    let rules = folder.join("dashboard-rules.json");
    let dashboard = fs::read_to_string(workspace_root()?.join(DASHBOARD))
        .with_context(|| format!("{DASHBOARD} could not be read"))?;
    fs::write(&rules, as_rules(&dashboard)?.to_string())
        .with_context(|| format!("{} could not be written", rules.display()))?;
    for command in commands(text(&promtool)?, text(&rules)?) {
        println!("==> {command}");
        command.run()?;
    }
    Ok(())
}

fn commands(promtool: &str, dashboard_rules: &str) -> [CommandLine; 4] {
    let package = "github.com/prometheus/prometheus/cmd/promtool";
    // Without the service discovery clients for all clouds.
    let build = ["build", "-trimpath", "-tags", "remove_all_sd", "-o", promtool, package];
    [
        CommandLine::new("go", &build)
            .in_folder("xtask/promtool")
            .env("GOFLAGS", "-mod=readonly")
            .env("GOWORK", "off")
            .env("CGO_ENABLED", "0"),
        CommandLine::new(promtool, &["check", "rules", ALERTS]),
        CommandLine::new(promtool, &["test", "rules", ALERT_TESTS]),
        CommandLine::new(promtool, &["check", "rules", "--lint=none", dashboard_rules]),
    ]
}

/// Converts the queries of a dashboard to recording rules: promtool parses nothing else. JSON is
/// YAML.
fn as_rules(dashboard: &str) -> Result<Value> {
    let dashboard: Value = serde_json::from_str(dashboard).context("the dashboard is no JSON")?;
    let mut queries = Vec::new();
    collect_queries(&dashboard, &mut queries);
    ensure!(!queries.is_empty(), "the dashboard has no query");
    let rules: Vec<Value> = queries
        .iter()
        .enumerate()
        // Grafana replaces this by a duration; its other variables are in quotes.
        .map(|(index, query)| (index, query.replace("$__rate_interval", "5m")))
        .map(|(index, query)| json!({ "record": format!("query_{index}"), "expr": query }))
        .collect();
    Ok(json!({ "groups": [{ "name": "dashboard", "rules": rules }] }))
}

fn collect_queries<'a>(value: &'a Value, queries: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            queries.extend(fields.get("expr").and_then(Value::as_str));
            fields.values().for_each(|field| collect_queries(field, queries));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_queries(item, queries)),
        _ => {}
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The prefixes of an operator's metrics.
    const PREFIXES: [&str; 7] = [
        "controller_runtime_",
        "leader_election_",
        "process_",
        "reflector_",
        "rest_client_",
        "windlass_",
        "workqueue_",
    ];

    fn read(path: &str) -> String {
        let root = workspace_root().expect("tests run under cargo");
        fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Returns the metrics that a text names. The parts of a histogram count as the histogram.
    fn metrics(text: &str) -> BTreeSet<&str> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix)))
            .map(|word| {
                ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| word.strip_suffix(end))
                    .unwrap_or(word)
            })
            .collect()
    }

    #[test]
    fn every_metric_of_the_dashboard_and_the_alerts_is_documented() {
        let documentation = read("docs/metrics.md");
        let documented = metrics(&documentation);
        for path in [DASHBOARD, ALERTS, ALERT_TESTS] {
            let content = read(path);
            let used = metrics(&content);
            assert!(used.len() > 5, "{path} has almost no metrics: {used:?}");
            let unknown: Vec<_> = used.difference(&documented).collect();
            assert!(
                unknown.is_empty(),
                "{path} has metrics that docs/metrics.md lacks: {unknown:?}"
            );
        }
    }

    #[test]
    fn names_of_metrics_are_found_in_queries() {
        let query = "rate(workqueue_adds_total{a=\"b\"}[5m]) / process_cpu_seconds_total \
                     + workqueue_queue_duration_seconds_bucket + other_total";
        let expected = [
            "process_cpu_seconds_total",
            "workqueue_adds_total",
            "workqueue_queue_duration_seconds",
        ];
        assert_eq!(metrics(query), BTreeSet::from(expected));
    }

    #[test]
    fn dashboard_has_queries_and_panels_with_numbers_of_their_own() {
        let dashboard = read(DASHBOARD);
        let rules = as_rules(&dashboard).expect("the dashboard must be JSON");
        let count = rules["groups"][0]["rules"].as_array().map_or(0, Vec::len);
        assert!(count > 20, "only {count} queries");
        let dashboard: Value = serde_json::from_str(&dashboard).expect("it was read above");
        let panels = dashboard["panels"].as_array().expect("a dashboard has panels");
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "Grafana needs every panel to have its own id");
    }

    #[test]
    fn every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() {
        let (alerts, tests) = (read(ALERTS), read(ALERT_TESTS));
        let names: Vec<_> =
            alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        assert!(names.len() > 5, "{names:?}");
        for name in names {
            let fires = format!("alertname: {name}\n        exp_alerts:\n          - exp_labels:");
            let quiet = format!("alertname: {name}, exp_alerts: [] }}");
            assert!(tests.contains(&fires), "{name} never fires in {ALERT_TESTS}");
            assert!(tests.contains(&quiet), "{name} is never quiet in {ALERT_TESTS}");
        }
    }

    #[test]
    fn variable_of_grafana_becomes_a_duration() {
        let rules = as_rules(r#"{"panels":[{"targets":[{"expr":"rate(a[$__rate_interval])"}]}]}"#)
            .expect("it is JSON");
        assert_eq!(rules["groups"][0]["rules"][0]["expr"], "rate(a[5m])");
        as_rules("{}").expect_err("a dashboard without queries must not pass");
    }
}
