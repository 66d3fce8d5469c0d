//! The program, as people run it.

use std::process::Command;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_object-sync"))
}

/// What the story has in it, in this order.
const TOLD: [&str; 14] = [
    "1. A ConfigMap is copied",
    "ConfigMap sky is blue",
    "2. The source changes",
    "ConfigMap sky is azure",
    "3. Somebody paints the target",
    "ConfigMap sky is azure",
    "4. A key of a Secret",
    "ResourceSync trust Ready=False SourceMissing: the Secret default/tls does not exist",
    "ResourceSync trust Ready=True Synced",
    "ConfigMap trust has: ca.crt",
    "5. A sync whose target belongs to somebody else",
    "ResourceSync mine Ready=False TargetRefused",
    "both are gone",
    "That was all.",
];

#[test]
fn program_tells_its_story_and_looks_at_no_other_cluster() {
    let home = tempfile::tempdir().expect("a folder");
    let kubeconfig = home.path().join("config");
    std::fs::write(&kubeconfig, "no kubeconfig: whoever reads it fails").expect("written");
    let ended = program()
        .env("HOME", home.path())
        .env("KUBECONFIG", &kubeconfig)
        .output()
        .expect("it starts");
    let (story, errors) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{}\n{story}\n{errors}", ended.status);
    let mut rest = &*story;
    for part in TOLD {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => panic!("nothing of {part:?} at its place in:\n{story}"),
        }
    }
    assert!(!story.contains("private") && errors.is_empty(), "{story}\n{errors}");
}

#[test]
fn help_says_when_the_kubeconfig_is_required() {
    let shown = program().args(["run", "--help"]).output().expect("it runs");
    let help = String::from_utf8_lossy(&shown.stdout);
    assert!(help.contains("The kubeconfig file; required outside of a pod"), "{help}");
}

#[test]
fn no_cluster_is_guessed() {
    let refused = program().args(["run", "--plan"]).env_clear().output().expect("it runs");
    assert!(!refused.status.success());
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("Give --kubeconfig FILE"), "{told}");
}
