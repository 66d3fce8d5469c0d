//! The program: where it writes its kubeconfig, who can read the file, and when it is removed.

#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The running program.
struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
    kubeconfig: PathBuf,
}

/// Returns the command with these arguments and this temporary folder.
fn command(temporary: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-apiserver"));
    command.args(arguments).env("TMPDIR", temporary).env("RUST_LOG", "off");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

impl Program {
    /// Starts the program, and waits until it has printed the path of its kubeconfig.
    fn start(temporary: &Path, arguments: &[&str]) -> Self {
        let mut child = command(temporary, arguments).spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let kubeconfig = loop {
            let mut line = String::new();
            output.read_line(&mut line).expect("text");
            assert!(!line.is_empty(), "it has ended");
            if let Some(path) = line.trim_end().strip_prefix("Its kubeconfig: ") {
                break PathBuf::from(path);
            }
        };
        Self { child, output, kubeconfig }
    }

    /// Sends a signal to the program, and waits for it to end normally.
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

/// Returns the error message of a program that does not start.
fn refused(temporary: &Path, arguments: &[&str]) -> String {
    let mut child = command(temporary, arguments).stderr(Stdio::piped()).spawn().expect("spawned");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("its output is piped"));
    output.read_line(&mut line).expect("text");
    if !line.is_empty() {
        let _ = child.kill();
    }
    let ended = child.wait_with_output().expect("it ends");
    assert!(line.is_empty() && !ended.status.success(), "it serves: {line}");
    String::from_utf8(ended.stderr).expect("text")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a folder").next().is_none()
}

#[test]
fn kubeconfig_is_in_a_new_folder_that_only_its_owner_can_enter() {
    let temporary = folder();
    let one = Program::start(temporary.path(), &["--token", "secret"]);
    let other = Program::start(temporary.path(), &["--token", "secret"]);
    for program in [&one, &other] {
        let parent = program.kubeconfig.parent().expect("a folder");
        assert_eq!(parent.parent(), Some(temporary.path()), "it is in a folder of its own");
        assert_eq!((mode(parent), mode(&program.kubeconfig)), (0o700, 0o600));
        let written = fs::read_to_string(&program.kubeconfig).expect("a kubeconfig");
        assert!(written.contains("secret") && written.contains("http://127.0.0.1:"));
    }
    assert_ne!(one.kubeconfig.parent(), other.kubeconfig.parent());
    one.end("-INT");
    other.end("-TERM");
    assert!(is_empty(temporary.path()), "nothing is left behind");
}

#[test]
fn kubeconfig_goes_where_it_is_asked_for_and_is_gone_at_the_end() {
    let folder = folder();
    let path = folder.path().join("kubeconfig");
    let arguments = ["--kubeconfig", path.to_str().expect("text")];
    // Twice: a second run succeeds after the first one has ended.
    for _ in 0..2 {
        let program = Program::start(folder.path(), &arguments);
        assert_eq!((&program.kubeconfig, mode(&path)), (&path, 0o600));
        program.end("-INT");
        assert!(!path.exists());
    }
}

#[test]
fn file_that_somebody_else_wrote_meanwhile_stays() {
    let folder = folder();
    let path = folder.path().join("kubeconfig");
    let program = Program::start(folder.path(), &["--kubeconfig", path.to_str().expect("text")]);
    fs::write(&path, "something else").expect("written");
    program.end("-INT");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "something else");
}

#[test]
fn what_is_there_already_is_neither_overwritten_nor_followed() {
    let folder = folder();
    let [file, link, dangling, target] =
        ["file", "link", "dangling", "target"].map(|name| folder.path().join(name));
    fs::write(&file, "mine").expect("written");
    fs::write(&target, "mine").expect("written");
    symlink(&target, &link).expect("linked");
    symlink(folder.path().join("nowhere"), &dangling).expect("linked");
    for path in [&file, &link, &dangling] {
        let shown = path.to_str().expect("text");
        let said = refused(folder.path(), &["--kubeconfig", shown]);
        assert!(said.contains(shown) && said.contains("is not overwritten"), "{said}");
    }
    for path in [&file, &target] {
        assert_eq!(fs::read_to_string(path).expect("it is there"), "mine");
    }
    assert!(!folder.path().join("nowhere").exists());
}

/// Sends a GET to the program as another user, and returns the status line.
fn ask_for(program: &Program, path: &str, user: &str) -> String {
    let config: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&program.kubeconfig).expect("it is there"))
            .expect("JSON");
    let url = config["clusters"][0]["cluster"]["server"].as_str().expect("an address").to_owned();
    let host = url.trim_start_matches("http://");
    let mut connection = std::net::TcpStream::connect(host).expect("it listens");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nImpersonate-User: {user}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer");
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn authorization_mode_is_that_of_kube_apiserver() {
    let temporary = folder();
    let path = "/api/v1/namespaces/default/pods";
    for (arguments, status) in [
        (&[][..], "HTTP/1.1 200 OK"),
        (&["--authorization-mode=AlwaysAllow"][..], "HTTP/1.1 200 OK"),
        (&["--authorization-mode=RBAC"][..], "HTTP/1.1 403 Forbidden"),
    ] {
        let program = Program::start(temporary.path(), arguments);
        assert_eq!(ask_for(&program, path, "alice"), status, "{arguments:?}");
    }
    let told = refused(temporary.path(), &["--authorization-mode=Node"]);
    assert!(told.contains("AlwaysAllow, RBAC"), "{told}");
}

#[test]
fn port_that_cannot_be_listened_on_is_an_error_that_says_what_to_do() {
    let temporary = folder();
    for port in ["nonsense", "65536"] {
        let said = refused(temporary.path(), &["--port", port]);
        let expected = format!(
            "error: invalid value '{port}' for '--port <PORT>': give a number from 0 to 65535; 0 \
             takes a free port"
        );
        assert_eq!(said.lines().next(), Some(expected.as_str()));
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address");
    let said = refused(temporary.path(), &["--port", &address.port().to_string()]);
    let expected = format!(
        "error: address {address} is in use: stop the other process, or choose another port with \
         --port\n"
    );
    assert_eq!(said, expected);
}
