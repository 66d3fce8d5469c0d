//! One of the hundreds of workloads whose pods fill the server.
//!
//! Everything is drawn from the workload's number, so that every run has the same pods. Pods of one
//! workload are as similar as those of a real one: what differs between them is in [`super::pod`].

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// How many workloads there are, and so how many different pods a cache could share the texts of.
pub(crate) const TEMPLATES: usize = 500;

/// How many namespaces they are in.
pub(crate) const NAMESPACES: usize = 40;

const ROLES: [&str; 12] = [
    "api",
    "worker",
    "frontend",
    "cache",
    "ingest",
    "billing",
    "search",
    "gateway",
    "scheduler",
    "mailer",
    "exporter",
    "sync",
];
const TEAMS: [&str; 9] =
    ["atlas", "borealis", "cobalt", "delta", "ember", "fjord", "granite", "harbor", "iris"];
const SIDECARS: [&str; 4] = ["proxy", "log-shipper", "metrics", "vault-agent"];
const WORDS: [&str; 16] = [
    "DATABASE", "QUEUE", "CACHE", "TIMEOUT", "ENDPOINT", "REGION", "LOG", "FEATURE", "BUCKET",
    "TOKEN", "RETRY", "LIMIT", "SHARD", "TOPIC", "TRACE", "MODE",
];

/// A workload.
#[derive(Debug)]
pub(crate) struct Template {
    /// Where it is.
    pub(crate) namespace: String,
    /// The name of its replica set, from which the pods have theirs.
    pub(crate) replica_set: String,
    /// The replica set's uid.
    pub(crate) owner_uid: String,
    /// The names and images of the containers.
    pub(crate) containers: Vec<(String, String)>,
    /// The labels of its pods.
    pub(crate) labels: Map<String, Value>,
    /// The annotations of its pods.
    pub(crate) annotations: Map<String, Value>,
    /// The pods' spec, without what differs between them.
    pub(crate) spec: Map<String, Value>,
}

impl Template {
    /// The workload with this number.
    pub(crate) fn new(number: usize) -> Self {
        let mut rng = Rng::with_seed(number as u64);
        let role = pick(&mut rng, &ROLES);
        let team = pick(&mut rng, &TEAMS);
        let app = format!("{team}-{role}-{number}");
        let hash = hex(&mut rng, 10);
        let sidecars = rng.usize(0..3);
        let mut containers = vec![(role.to_owned(), image(&mut rng, &format!("{team}/{role}")))];
        let first = rng.usize(0..SIDECARS.len());
        for number in 0..sidecars {
            let name = SIDECARS[(first + number) % SIDECARS.len()];
            containers.push((name.to_owned(), image(&mut rng, &format!("platform/{name}"))));
        }
        let labels = labels(&mut rng, &app, role, team, &hash);
        let spec = spec(&mut rng, &app, &containers);
        Self {
            namespace: namespace(number),
            replica_set: format!("{app}-{hash}"),
            owner_uid: uid(&mut rng),
            annotations: annotations(&mut rng, &app, role),
            containers,
            labels,
            spec,
        }
    }
}

/// The namespace of a workload.
pub(crate) fn namespace(number: usize) -> String {
    format!("team-{:02}", number % NAMESPACES)
}

/// So many digits of a hexadecimal number.
pub(crate) fn hex(rng: &mut Rng, digits: usize) -> String {
    (0..digits).map(|_| rng.digit(16)).collect()
}

/// A uid as the API server makes them.
pub(crate) fn uid(rng: &mut Rng) -> String {
    let parts = [8, 4, 4, 4, 12].map(|digits| hex(rng, digits));
    parts.join("-")
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.usize(0..from.len())]
}

fn image(rng: &mut Rng, name: &str) -> String {
    format!("registry.example.com/{name}:{}.{}.{}", rng.u8(0..9), rng.u8(0..30), rng.u8(0..20))
}

/// Three to nine labels.
fn labels(rng: &mut Rng, app: &str, role: &str, team: &str, hash: &str) -> Map<String, Value> {
    let mut labels = Map::new();
    let mut put = |key: &str, value: String| labels.insert(key.to_owned(), Value::String(value));
    put("app.kubernetes.io/name", app.to_owned());
    put("pod-template-hash", hash.to_owned());
    put("app.kubernetes.io/component", role.to_owned());
    let more = [
        ("team", team.to_owned()),
        ("app.kubernetes.io/version", format!("v{}.{}", rng.u8(0..9), rng.u8(0..40))),
        ("app.kubernetes.io/managed-by", "helm".to_owned()),
        ("helm.sh/chart", format!("{role}-{}.{}.0", rng.u8(0..5), rng.u8(0..20))),
        ("tier", pick(rng, &["backend", "edge", "batch"]).to_owned()),
        ("cost-center", format!("cc-{}", rng.u16(1000..1100))),
    ];
    let count = rng.usize(0..=more.len());
    for (key, value) in more.into_iter().take(count) {
        put(key, value);
    }
    labels
}

fn annotations(rng: &mut Rng, app: &str, role: &str) -> Map<String, Value> {
    let mut annotations = Map::new();
    let mut put =
        |key: &str, value: String| annotations.insert(key.to_owned(), Value::String(value));
    put("checksum/config", hex(rng, 64));
    put("kubectl.kubernetes.io/default-container", role.to_owned());
    if rng.bool() {
        put("prometheus.io/scrape", "true".to_owned());
        put("prometheus.io/port", rng.u16(8000..9999).to_string());
    }
    if rng.bool() {
        put("kubectl.kubernetes.io/restartedAt", format!("2026-0{}-11T08:15:30Z", rng.u8(1..9)));
    }
    if rng.bool() {
        put("example.com/runbook", format!("https://runbooks.example.com/{app}/{}", hex(rng, 6)));
    }
    annotations
}

fn spec(rng: &mut Rng, app: &str, containers: &[(String, String)]) -> Map<String, Value> {
    let built: Vec<Value> = containers
        .iter()
        .enumerate()
        .map(|(index, (name, image))| container(rng, app, name, image, index == 0))
        .collect();
    let mut spec = json!({
        "serviceAccountName": app,
        "containers": built,
        "volumes": [
            {"name": "config", "configMap": {"name": format!("{app}-config"), "defaultMode": 420}},
            {"name": "scratch", "emptyDir": {}},
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": rng.u8(10..90),
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {"runAsNonRoot": true, "runAsUser": rng.u16(1000..2000), "fsGroup": 2000},
        "tolerations": [
            {"key": "dedicated", "operator": "Equal", "value": app, "effect": "NoSchedule"},
        ],
    });
    if rng.bool() {
        spec["nodeSelector"] = json!({"node.example.com/pool": pick(rng, &TEAMS)});
    }
    if rng.bool() {
        let term = json!({
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}},
            "topologyKey": "kubernetes.io/hostname",
        });
        spec["affinity"] = json!({"podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": rng.u8(1..100), "podAffinityTerm": term}],
        }});
    }
    match spec {
        Value::Object(spec) => spec,
        _ => unreachable!("the literal above must be an object"),
    }
}

fn container(rng: &mut Rng, app: &str, name: &str, image: &str, is_main: bool) -> Value {
    let port = rng.u16(3000..9999);
    let probe = |path: &str, delay: u8| {
        json!({
            "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
            "initialDelaySeconds": delay,
            "periodSeconds": 10,
            "timeoutSeconds": 3,
            "failureThreshold": 5,
        })
    };
    let (cpu, memory) = (rng.u16(1..20) * 50, rng.u16(1..16) * 64);
    let mut container = json!({
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [format!("--listen=:{port}"), format!("--name={app}"), "--log-format=json"],
        "env": environment(rng, app, if is_main { 10 } else { 4 }),
        "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
        // Unlike the limits, so that the class of the pod is always the same.
        "resources": {
            "requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")},
            "limits": {"memory": format!("{}Mi", memory * 2)},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app", "readOnly": true}],
        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true},
    });
    if is_main {
        container["readinessProbe"] = probe("/ready", rng.u8(1..10));
        container["livenessProbe"] = probe("/healthz", rng.u8(10..30));
    }
    container
}

/// One to `most` variables: plain ones, of a secret, and of the pod itself.
fn environment(rng: &mut Rng, app: &str, most: usize) -> Value {
    let count = rng.usize(1..=most);
    let first = rng.usize(0..WORDS.len());
    let variable = |number: usize| {
        let name = format!("{}_{number}", WORDS[(first + number) % WORDS.len()]);
        match number % 4 {
            1 => json!({"name": name, "valueFrom": {"secretKeyRef": {
                "name": format!("{app}-secrets"), "key": name.to_lowercase()}}}),
            3 => json!({"name": name, "valueFrom": {"fieldRef": {
                "apiVersion": "v1", "fieldPath": "metadata.namespace"}}}),
            _ => json!({"name": name, "value": format!("{app}.{}.example.com", hex(rng, 8))}),
        }
    };
    Value::Array((0..count).map(variable).collect())
}
