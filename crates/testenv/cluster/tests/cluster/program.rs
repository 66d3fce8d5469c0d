//! The program: its output, its address, and that it cleans up when it ends.

#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The running program.
struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
    greeting: String,
}

fn command(temporary: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-cluster"));
    command.args(arguments).env("TMPDIR", temporary).env("RUST_LOG", "off");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Program {
    /// Starts it, and waits for its greeting.
    fn start(temporary: &Path, arguments: &[&str]) -> Self {
        let mut child = command(temporary, arguments).spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut greeting = String::new();
        while !greeting.contains("Ctrl-C ends it") {
            let read = output.read_line(&mut greeting).expect("text");
            assert!(read > 0, "it has ended: {greeting}");
        }
        Self { child, output, greeting }
    }

    fn kubeconfig(&self) -> PathBuf {
        let mut lines = self.greeting.lines();
        let path = lines.find_map(|line| line.strip_prefix("Its kubeconfig: "));
        path.expect("it says where its kubeconfig is").into()
    }

    /// Returns the answer to a plain-text request for this path.
    fn get(&self, path: &str) -> String {
        let start = self.greeting.find("http://").expect("an address") + "http://".len();
        let end = self.greeting[start..].find([',', ' ', '\n']).expect("an end") + start;
        let mut stream = TcpStream::connect(&self.greeting[start..end]).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    }

    /// Sends a signal, and waits for the end, which must be a normal one.
    fn end(mut self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status().expect("a signal is sent");
        assert!(sent.success());
        let mut said = String::new();
        self.output.read_to_string(&mut said).expect("text");
        assert!(self.child.wait().expect("it ends").success());
        assert!(said.contains("Stopped at version"), "{said}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn program_serves_nodes_until_it_is_told_to_end() {
    let temporary = tempfile::tempdir().expect("a folder");
    let program = Program::start(temporary.path(), &["--nodes", "2"]);
    assert!(program.greeting.contains("with 2 made-up nodes"), "{}", program.greeting);
    assert!(program.kubeconfig().exists());
    let nodes = program.get("/api/v1/nodes");
    assert!(nodes.contains("\"node-2\"") && !nodes.contains("\"node-3\""), "{nodes}");
    program.end("-INT");
    let left = fs::read_dir(temporary.path()).expect("a folder").count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn kubeconfig_has_the_authority_and_the_token() {
    let temporary = tempfile::tempdir().expect("a folder");
    let path = temporary.path().join("config");
    let path = path.to_str().expect("text");
    let arguments =
        ["--tls", "--token", "secret", "--authorization-mode", "RBAC", "--kubeconfig", path];
    let program = Program::start(temporary.path(), &arguments);
    assert_eq!(program.kubeconfig(), Path::new(path));
    let written = fs::read_to_string(path).expect("a kubeconfig");
    for part in ["certificate-authority-data", "https://127.0.0.1:", "secret"] {
        assert!(written.contains(part), "{part}");
    }
    program.end("-TERM");
    assert!(!Path::new(path).exists());
}

/// Returns the error output of a program that fails to start.
fn refused(temporary: &Path, arguments: &[&str]) -> String {
    let ended = command(temporary, arguments).output().expect("it ends");
    assert!(!ended.status.success());
    String::from_utf8(ended.stderr).expect("text")
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let temporary = tempfile::tempdir().expect("a folder");
    let file = temporary.path().join("mine");
    fs::write(&file, "mine").expect("written");
    let shown = file.to_str().expect("text");
    let said = refused(temporary.path(), &["--kubeconfig", shown]);
    assert!(said.contains(shown) && said.contains("is not overwritten"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let said = refused(temporary.path(), &["--nodes", "5000"]);
    assert_eq!(said, "error: the cluster does not start: there can be 2048 nodes, not 5000\n");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "mine");
}

#[test]
fn address_that_cannot_be_listened_on_is_an_error_that_says_what_to_do() {
    let temporary = tempfile::tempdir().expect("a folder");
    let said = refused(temporary.path(), &["--listen", "nonsense"]);
    let expected = "error: invalid value 'nonsense' for '--listen <LISTEN>': give an IP address \
                    and a port, such as 127.0.0.1:8080; port 0 takes a free one";
    assert_eq!(said.lines().next(), Some(expected));

    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address");
    let said = refused(temporary.path(), &["--listen", &address.to_string()]);
    let expected = format!(
        "error: address {address} is in use: stop the other process, or choose another port with \
         --listen\n"
    );
    assert_eq!(said, expected);

    // This address is reserved for documentation, so no machine has it.
    let said = refused(temporary.path(), &["--listen", "192.0.2.1:8080"]);
    let expected = "error: address 192.0.2.1:8080 is not an address of this machine: choose \
                    another one with --listen, such as 127.0.0.1:8080, or 0.0.0.0:8080 for \
                    all addresses of the machine\n";
    assert_eq!(said, expected);
}
