//! The demo of a new operator, as people run it: the lines that it prints work.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[test]
fn operator_of_the_demo_can_be_asked_by_windlass_why_and_has_a_dashboard() {
    // It is killed, and leaves its kubeconfig behind.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let errors = folder.join("demo.stderr");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gadget-operator"));
    command.arg("demo").env("TMPDIR", folder).env_remove("RUST_LOG").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(File::create(&errors).expect("a file"));
    let mut demo = Demo(command.spawn().expect("it starts"));
    let stdout = BufReader::new(demo.0.stdout.take().expect("it is piped"));
    let mut said = Vec::new();
    for line in stdout.lines().map(|line| line.expect("text")) {
        let is_last = line.starts_with("Ctrl-C ends it");
        said.push(line);
        if is_last {
            break;
        }
    }
    let why = "   windlass why Gadget hello-gadget --url http://";
    let inside = said.iter().find_map(|line| line.strip_prefix(why));
    let inside = inside.unwrap_or_else(|| panic!("no {why:?} in {said:#?}"));
    // What `windlass why` asks for.
    let path = "/debug/windlass/story?kind=Gadget&key=default/hello-gadget";
    let story = get(inside, path, "");
    assert!(story.contains(" 200 OK\r\n") && story.contains("\"outcome\""), "{story}");

    let errors = fs::read_to_string(errors).expect("text");
    let url = errors.lines().find_map(|line| line.strip_prefix("the dashboard is at http://"));
    let url = url.unwrap_or_else(|| panic!("no URL of the dashboard in {errors}"));
    let (dashboard, token) = url.split_once("/#token=").expect("a token");
    let summary = get(dashboard, "/api/summary", &format!("Authorization: Bearer {token}\r\n"));
    assert!(summary.contains(" 200 OK\r\n"), "{summary}");
}

/// The whole answer to a request.
fn get(address: &str, path: &str, headers: &str) -> String {
    let mut connection = TcpStream::connect(address).expect(address);
    write!(connection, "GET {path} HTTP/1.0\r\nHost: {address}\r\n{headers}\r\n").expect("sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer");
    answer
}

/// A demo that stays up. It is killed when this is dropped, also if the test fails.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("it has ended");
    }
}
