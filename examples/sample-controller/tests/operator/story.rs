//! The story that the program tells: in this process on the paused clock, and by the program
//! itself.

#![allow(clippy::disallowed_names, reason = "a Foo is what the original calls it")]

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use sample_controller::Foo;
use sample_controller::demo;
use sample_controller::demo::story::{Story, Tell};

/// Lines, in the order in which they were told.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn tell(&self) -> Tell {
        let lines = Arc::clone(&self.0);
        Arc::new(move |line: &str| lines.lock().expect("no panic").push(line.to_owned()))
    }

    fn all(&self) -> String {
        self.0.lock().expect("no panic").join("\n")
    }
}

/// What every telling has in it, in this order.
const TOLD: [&str; 15] = [
    "1. Somebody creates a Foo",
    "because: Foo default/example-foo added at",
    "create deployments default/example-foo at",
    "Deployment example-foo wants 1, and has example-foo-",
    "2. It is edited to ask for three.",
    "Foo default/example-foo updated at",
    "Deployment example-foo wants 3, and has example-foo-",
    "3. Somebody scales the Deployment itself",
    "Deployment default/example-foo updated at",
    "patch deployments default/example-foo at",
    "4. A Foo asks for a Deployment that is there already",
    "Resource \"not-a-foos\" already exists and is not managed by Foo",
    "Deployment late-foo wants 2, and has late-foo-",
    "5. The first Foo is deleted.",
    "Foo default/example-foo deleted at",
];

#[track_caller]
fn assert_told(story: &str) {
    let mut rest = story;
    for part in TOLD {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => panic!("nothing of {part:?} at its place in:\n{story}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn story_tells_what_happens_and_why() {
    let (demo, running) = demo::start().await.expect("a cluster");
    let lines = Lines::default();
    let mut story = Story::new(&demo, lines.tell(), Duration::from_secs(1));
    story.tell().await.expect("all of it happens");
    assert_told(&lines.all());

    let client = demo.client().clone();
    let foos = Api::<Foo>::all(client.clone()).list(&ListParams::default()).await.expect("a list");
    let deployments =
        Api::<Deployment>::all(client.clone()).list(&ListParams::default()).await.expect("a list");
    let names = |names: Vec<Option<String>>| names.into_iter().flatten().collect::<Vec<_>>();
    let foos = names(foos.items.into_iter().map(|foo| foo.metadata.name).collect());
    assert_eq!(foos, ["late-foo"]);
    let deployments = names(deployments.items.into_iter().map(|made| made.metadata.name).collect());
    assert_eq!(deployments, ["late-foo", "not-a-foos"]);

    // Every pod is on a node that is there and ready.
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await;
    let [node]: [Node; 1] = nodes.expect("a list").items.try_into().expect("one node");
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    assert!(conditions.any(|one| one.type_ == "Ready" && one.status == "True"), "{node:?}");
    let pods = Api::<Pod>::all(client).list(&ListParams::default()).await.expect("a list").items;
    assert!(!pods.is_empty());
    for pod in pods {
        let place = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        assert_eq!(place, Some(node.name_any().as_str()), "{}", pod.name_any());
    }
    running.end().await.expect("it ends well");
}

/// The whole program, with no cluster but its own, although there is a kubeconfig where others look
/// for one.
#[test]
fn program_tells_it_and_looks_at_no_other_cluster() {
    let home = tempfile::tempdir().expect("a folder");
    let kubeconfig = home.path().join(".kube").join("config");
    std::fs::create_dir(home.path().join(".kube")).expect("a folder");
    std::fs::write(&kubeconfig, "no kubeconfig: whoever reads it fails").expect("written");
    let ended = Command::new(env!("CARGO_BIN_EXE_sample-controller"))
        .args(["--exit", "--pause", "0"])
        .env("HOME", home.path())
        .env("KUBECONFIG", &kubeconfig)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let (story, errors) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{}\n{story}\n{errors}", ended.status);
    assert_told(&story);
    assert_eq!(errors, "");
}

#[test]
fn kubeconfig_that_cannot_be_read_is_an_error_that_names_it() {
    let ended = Command::new(env!("CARGO_BIN_EXE_sample-controller"))
        .args(["--kubeconfig", "/nowhere/at/all"])
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success());
    assert!(errors.contains("the kubeconfig /nowhere/at/all cannot be read"), "{errors}");
}
