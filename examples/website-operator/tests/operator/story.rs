//! The program, as people run it: it tells its story with no cluster at hand, and prints its
//! definition.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_website-operator"))
}

/// What the story has in it, in this order.
const TOLD: [&str; 17] = [
    "1. Three replicas of the operator start",
    "holds the Lease and works",
    "[+]leader-election ok: standby, replica-",
    "curl 'http://127.0.0.1:",
    "2. Somebody creates two Websites, with API version v1.",
    "Website blog (blog.example.com): 2 of 2 replicas are available",
    "Website shop (shop.example.com): 1 of 1 replicas are available",
    "spec.server is {\"image\":\"nginxinc/nginx-unprivileged:1.29-alpine\"}",
    "spec.files: Too long: may not be more than 1048576 bytes",
    "3. The shop is scaled to three.",
    "Website shop (shop.example.com): 3 of 3 replicas are available",
    "4. kill -9 ",
    "leads, ",
    "Website blog (blog.example.com): 4 of 4 replicas are available",
    "5. The shop is deleted.",
    "Hosts after:  blog.example.com -> default/blog",
    "That was all.",
];

#[test]
fn program_tells_its_story_and_looks_at_no_other_cluster() {
    let home = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(home.path().join(".kube")).expect("a folder");
    let kubeconfig = home.path().join(".kube").join("config");
    std::fs::write(&kubeconfig, "no kubeconfig: whoever reads it fails").expect("written");
    let ended = program()
        .args(["--exit", "--pause", "0"])
        .env("HOME", home.path())
        .env("KUBECONFIG", &kubeconfig)
        .stdin(Stdio::null())
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
    assert_eq!(errors, "");
}

#[test]
fn help_says_when_the_kubeconfig_is_required() {
    let shown = program().args(["run", "--help"]).output().expect("it runs");
    let help = String::from_utf8_lossy(&shown.stdout);
    assert!(help.contains("The kubeconfig file; required outside of a pod"), "{help}");
}

#[test]
fn lines_of_the_story_work_while_it_stays_up() {
    let mut command = program();
    command.args(["--pause", "0"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut running = Running(command.spawn().expect("it starts"));
    let mut lines = BufReader::new(running.0.stdout.take().expect("it is piped")).lines();
    let mut lines = lines.by_ref().map(|line| line.expect("text"));
    assert!(lines.any(|line| line.contains("The replicas are now:")), "the story ended early");
    let mut last: Vec<String> = Vec::new();
    while !last.last().is_some_and(|line| line.contains("windlass why")) {
        last.push(lines.next().expect("a line with `windlass why`"));
    }
    let addresses: Vec<String> = last.iter().filter_map(|line| curl(line)).collect();
    assert_eq!(addresses.len(), 9, "{last:?}");
    for address in &addresses {
        get(address);
    }
    // The cluster of the kubectl line has a node, where the pods are.
    let server = last.iter().find_map(|line| server_of_kubectl(line)).expect("a kubectl line");
    for plural in ["nodes", "pods"] {
        let answer = get(&format!("{server}/api/v1/{plural}"));
        assert!(answer.contains("\"node-1\""), "{plural}: {answer}");
    }
    let why = last.last().expect("a line");
    let url = why.trim().strip_prefix("windlass why Website blog --url http://");
    let leader = url.and_then(|rest| rest.split(' ').next()).expect(why);
    // What `windlass why` asks for. A standby would have no run.
    let story = get(&format!("{leader}/debug/windlass/story?kind=Website&key=default/blog"));
    assert!(story.contains("\"outcome\""), "{story}");
    // At kill -9 it has no chance to stop its replicas. They end all the same: then connections to
    // them end, and no new ones are accepted.
    let connect = |address: &String| TcpStream::connect(address.split('/').next().expect("a host"));
    let open: Vec<TcpStream> =
        addresses.iter().map(|one| connect(one).expect("it is up")).collect();
    drop(running);
    for mut connection in open {
        // An error is an end, too.
        let _ = connection.read(&mut [0]);
    }
    for address in &addresses {
        assert!(connect(address).is_err(), "{address} still answers");
    }
}

/// The answer to a request, which must succeed.
fn get(address: &str) -> String {
    let (host, path) = address.split_once('/').expect("a path");
    let mut connection = TcpStream::connect(host).expect(host);
    write!(connection, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n").expect("sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains(" 200 OK\r\n"), "{address}: {answer}");
    answer
}

/// A story that stays up. It is killed when this is dropped, also if a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("it has ended");
    }
}

/// The host and port of the server that a kubectl line asks.
fn server_of_kubectl(line: &str) -> Option<String> {
    let path = line.trim().strip_prefix("kubectl --kubeconfig ")?.split(' ').next()?;
    let config = std::fs::read_to_string(path).expect("a kubeconfig");
    let config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
    let url = config["clusters"][0]["cluster"]["server"].as_str()?;
    Some(url.strip_prefix("http://")?.to_owned())
}

/// The address of a curl line.
fn curl(line: &str) -> Option<String> {
    let address = line.trim().strip_prefix("curl ")?.split('#').next()?.trim();
    Some(address.trim_matches('\'').strip_prefix("http://")?.to_owned())
}

#[test]
fn printed_definition_is_the_committed_one() {
    let printed = program().arg("crd").output().expect("it runs").stdout;
    let committed = include_str!("../../deploy/crd.yaml");
    let advice = "commit the output of `cargo run -p website-operator -- crd` as deploy/crd.yaml";
    assert!(printed == committed.as_bytes(), "{advice}");
}

#[test]
fn no_cluster_is_guessed() {
    // The flags of the Deployment are valid, too: otherwise clap would complain first.
    let arguments = crate::common::manifests::arguments();
    let refused = program().args(arguments).env_clear().output().expect("it runs");
    assert!(!refused.status.success());
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("Give --kubeconfig FILE"), "{told}");
}
