//! kubectl on the embedded server and on a real one: its results from their `OpenAPI` documents
//! must be the same. Uses the kubectl of the machine, if there is one, and the one of the real
//! server's version.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use windlass_testserver::apiserver::ApiServer;
use windlass_testserver::{ControlPlane, ControlPlaneOptions, kubectl};

const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.kubectl.windlass.dev}
spec:
  group: kubectl.windlass.dev
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        description: A widget is a thing.
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [size]
            description: What it is to be.
            properties:
              size: {type: integer, description: How large it is., minimum: 1}
              color: {type: string, enum: [red, green], default: red}
              tags: {type: array, items: {type: string}}
              options: {type: object, additionalProperties: {type: string}}
              port: {x-kubernetes-int-or-string: true}
";

const OBJECTS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "main:1", env: [{name: A, value: "1"}, {name: B, value: "2"}]}
      - {name: side, image: "side:1"}
---
apiVersion: kubectl.windlass.dev/v1
kind: Widget
metadata: {name: w}
spec: {size: 1}
"#;

/// The arguments of `kubectl explain`.
const EXPLAINED: &[&[&str]] = &[
    &["pods"],
    &["pods", "--recursive"],
    &["deployments.spec.template.spec.containers", "--recursive"],
    &["deployments.spec.strategy.rollingUpdate.maxSurge"],
    &["svc.spec.type"],
    &["pvc.spec.resources.requests"],
    &["crd", "--recursive"],
    &["events", "--api-version=events.k8s.io/v1"],
    &["widgets", "--recursive"],
    &["widgets.spec.size"],
    &["wd.spec.color"],
    &["pods.spec.bogus"],
    &["bogus"],
];

/// How long to wait for a document: much longer than it takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// One server and one kubectl, with a home folder of its own, because kubectl caches documents
/// there.
struct Terminal<'a> {
    program: &'a Path,
    kubeconfig: &'a Path,
    home: TempDir,
}

impl<'a> Terminal<'a> {
    fn new(program: &'a Path, kubeconfig: &'a Path) -> Self {
        Self { program, kubeconfig, home: tempfile::tempdir().expect("a temporary folder") }
    }

    /// Returns the output of a command and its exit code, without what depends on the server or the
    /// time.
    async fn run(&self, arguments: &[&str], input: &str) -> String {
        let mut kubectl = Command::new(self.program);
        kubectl.arg("--kubeconfig").arg(self.kubeconfig).args(arguments);
        kubectl.env("HOME", self.home.path()).env("KUBECTL_EXTERNAL_DIFF", "diff -U1");
        kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = kubectl.spawn().expect("kubectl must start");
        let mut stdin = running.stdin.take().expect("kubectl must have an input");
        stdin.write_all(input.as_bytes()).await.expect("kubectl must read its input");
        drop(stdin);
        let output = running.wait_with_output().await.expect("kubectl must end");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        // The headers of a diff name temporary files and times.
        let odd = ["--- ", "+++ ", "diff ", "   creationTimestamp: "];
        let lines = text.lines().filter(|line| !odd.iter().any(|start| line.starts_with(start)));
        let lines: Vec<&str> = lines.collect();
        format!("{}\n{}", lines.join("\n"), output.status)
    }

    /// Installs the definition and waits until its document is there.
    async fn prepare(&self) {
        self.run(&["apply", "-f", "-"], DEFINITION).await;
        let definition = "crd/widgets.kubectl.windlass.dev";
        self.run(&["wait", "--for=condition=Established", definition], "").await;
        // A real server publishes the document a little later, without an event. Each check runs a
        // process that reads documents, so no pause is needed between two of them.
        let is_there = async {
            while !self.run(&["explain", "widgets"], "").await.contains("A widget is a thing.") {}
        };
        let found = tokio::time::timeout(PATIENCE, is_there).await;
        found.expect("the document of the custom kind must come");
    }
}

async fn compare(program: &Path, embedded: &Path, real: &Path) {
    let shown = program.display();
    let ours = Terminal::new(program, embedded);
    let theirs = Terminal::new(program, real);
    tokio::join!(ours.prepare(), theirs.prepare());
    let same = async |arguments: &[&str], input: &str| {
        let (ours, theirs) = tokio::join!(ours.run(arguments, input), theirs.run(arguments, input));
        assert_eq!(ours, theirs, "{shown} {}", arguments.join(" "));
        ours
    };
    for what in EXPLAINED {
        same(&[&["explain"], *what].concat(), "").await;
    }
    let changed = OBJECTS.replace("main:1", "main:2").replace("name: side", "name: other");
    let changed = changed.replace("size: 1", "size: 2");
    let created = same(&["apply", "-f", "-"], OBJECTS).await;
    assert!(created.contains("deployment.apps/web created"), "{created}");
    let difference = same(&["diff", "-f", "-"], &changed).await;
    assert!(difference.contains("main:2"), "{difference}");
    same(&["apply", "-f", "-"], &changed).await;
    let none = same(&["diff", "-f", "-"], &changed).await;
    assert!(!none.contains("main:2"), "{none}");
    same(&["set", "image", "deployment/web", "main=main:3"], "").await;
    same(&["get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers}"], "")
        .await;
    let bogus = OBJECTS.replace("replicas: 2", "replicas: 2\n  bogus: 1");
    let bogus = bogus.replace("name: web}", "name: bad}").replace("name: w}", "name: bad, x: y}");
    for validation in ["strict", "warn", "ignore"] {
        same(&["create", "-f", "-", &format!("--validate={validation}")], &bogus).await;
        same(&["delete", "deployments,widgets", "--all"], "").await;
    }
}

/// Returns the kubectl of the machine, if there is one.
async fn machine_kubectl() -> Option<PathBuf> {
    let found = Command::new("kubectl").args(["version", "--client"]).output().await;
    found.is_ok_and(|output| output.status.success()).then(|| PathBuf::from("kubectl"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn kubectl_reads_our_documents_as_those_of_a_real_server() {
    let real = ControlPlane::start(ControlPlaneOptions::new()).await.expect("a control plane");
    let built = kubectl().expect("the kubectl of the control plane");
    for program in [Some(built), machine_kubectl().await].into_iter().flatten() {
        let server = ApiServer::new();
        let address = "127.0.0.1:0".parse().expect("an address");
        let listening = server.listen(address).await.expect("a port");
        let embedded = listening.temporary_kubeconfig(None).expect("a kubeconfig");
        compare(&program, embedded.path(), real.kubeconfig_path()).await;
        listening.stop().await;
    }
}
