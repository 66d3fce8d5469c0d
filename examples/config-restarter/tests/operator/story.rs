//! The program, as people run it.

use std::process::Command;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_config-restarter"))
}

/// What the story has in it, in this order.
const TOLD: [&str; 12] = [
    "1. A Deployment takes a ConfigMap and a Secret",
    "pods of web: web-",
    "2. What would the restarter do here?",
    "~ deployments.apps default/web",
    "spec.template.metadata.annotations",
    "3. The restarter starts.",
    "pods of web: web-",
    "4. Somebody changes the Secret.",
    "5. Another Deployment needs a Secret",
    "Warning ConfigMissing shop: not restarted, because of what is missing: Secret default/missing",
    "Normal ConfigChanged shop: ",
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
    // Each restart has replaced the pods.
    let pods = story.lines().filter_map(|line| line.trim().strip_prefix("pods of web: "));
    let pods: Vec<&str> = pods.flat_map(str::split_whitespace).collect();
    let different: std::collections::BTreeSet<&str> = pods.iter().copied().collect();
    assert_eq!((pods.len(), different.len()), (6, 6), "{pods:?}");
    assert!(!story.contains("secretKeyRef") && errors.is_empty(), "{story}\n{errors}");
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

#[test]
fn limit_that_is_none_is_refused() {
    let arguments = ["run", "--kubeconfig", "/none", "--update-rate", "0"];
    let refused = program().args(arguments).output().expect("it runs");
    assert!(!refused.status.success());
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("--update-rate"), "{told}");
}
