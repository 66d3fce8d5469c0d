//! The operator runs, and is as small as it says.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

#[test]
fn operator_publishes_a_page_with_no_cluster_at_hand() {
    let mut operator = Command::new(env!("CARGO_BIN_EXE_sixty-lines"))
        .args(["--health-probe-bind-address", "0", "--metrics-bind-address", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(operator.stdout.take().expect("it is piped")).lines();
    let first = lines.next().map(|line| line.expect("text"));
    operator.kill().expect("killed");
    operator.wait().expect("it has ended");
    assert_eq!(first.as_deref(), Some("default/hello is published"));
}

#[test]
fn operator_has_sixty_lines() {
    let lines = include_str!("../src/main.rs").lines().count();
    assert!(lines <= 60, "{lines} lines");
}

#[test]
fn readme_shows_this_operator() {
    let (readme, operator) = (include_str!("../../../README.md"), include_str!("../src/main.rs"));
    assert!(readme.contains(operator), "copy src/main.rs into the README again");
}
