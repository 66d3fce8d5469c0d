//! `windlass why` and the like, against a server that answers as a manager does.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread;

/// Answers one request with this body. Returns the URL, and a handle to the request's first line.
fn answers(status: &str, body: &str) -> (String, thread::JoinHandle<String>) {
    answers_all(&[(status, body)])
}

/// Answers requests one after the other. Returns the URL, and a handle to the first line of the
/// first one.
fn answers_all(answers: &[(&str, &str)]) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let owned = answers.iter().map(|(status, body)| ((*status).to_owned(), (*body).to_owned()));
    let answers: Vec<(String, String)> = owned.collect();
    let asked = thread::spawn(move || {
        let answered = answers.iter().map(|(status, body)| {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
            let first = lines.next().expect("a line").expect("text");
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close");
            write!(stream, "{head}\r\n\r\n{body}").expect("written");
            first
        });
        answered.collect::<Vec<_>>().swap_remove(0)
    });
    (url, asked)
}

fn windlass(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).env("WINDLASS_URL", url).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

const STORY: &str = r#"{
  "time": "2026-11-18T05:00:00.000Z", "key": "shop/web", "omittedRuns": 2,
  "runs": [
    {"id": "1", "controller": "websites", "kind": "Website", "distance": 0, "key": "shop/web",
     "started": "2026-11-18T04:12:01.120Z", "queuedSeconds": 0.001, "tookSeconds": 0.0124,
     "attempt": 1, "causes": ["Website shop/web added at 5"], "omittedCauses": 0,
     "outcome": "done", "class": null, "message": null, "nextRun": null,
     "writes": ["create deployments shop/web at 7", "patch websites/status shop/web at 5, no change"],
     "omittedWrites": 0,
     "events": ["Normal Created of Website shop/web: a Deployment"]},
    {"id": "2", "controller": "deployments", "kind": "Deployment", "distance": 1, "key": "shop/web",
     "started": "2026-11-18T04:12:01.140Z", "queuedSeconds": 0, "tookSeconds": 1.5, "attempt": 2,
     "causes": ["Deployment shop/web added at 7"], "omittedCauses": 3, "outcome": "failed",
     "class": "other", "message": "the database\nis away", "nextRun": "2026-11-18T04:12:03.000Z",
     "writes": [], "omittedWrites": 0, "events": []}
  ],
  "links": [{"from": "1", "to": "2", "write": "create deployments shop/web at 7",
             "cause": "Deployment shop/web added at 7"}]
}"#;

#[test]
fn why_tells_who_woke_whom() {
    let (url, asked) = answers("200 OK", STORY);
    let shown = windlass(&url, &["why", "website", "web", "--namespace", "shop"]);
    assert_eq!(
        text(&shown.stdout),
        "\
04:12:01.120 websites shop/web: done in 12.4 ms
    because Website shop/web added at 5
    write   create deployments shop/web at 7
            -> 04:12:01.140 deployments shop/web
    write   patch websites/status shop/web at 5, no change
    event   Normal Created of Website shop/web: a Deployment
04:12:01.140 deployments shop/web: failed in 1.5 s, attempt 2
    because Deployment shop/web added at 7
            <- 04:12:01.120 websites shop/web
    because 3 more that are not kept
    error   the database
    error   is away
    again   at 04:12:03.000
2 more runs are linked to shop/web: see --limit
",
        "{}",
        text(&shown.stderr)
    );
    let asked = asked.join().expect("a request");
    assert!(
        asked.starts_with("GET /debug/windlass/story?kind=website&key=shop%2Fweb&limit=30 "),
        "{asked}"
    );
}

/// The report of a replica that does not lead.
const STANDBY: &str = r#"{
  "leadership": {"lease": "shop/op", "identity": "op-a_1", "state": "standby", "leader": "op-b_2"},
  "controllers": [], "informers": []
}"#;

/// The note for [`STANDBY`].
const HINT: &str = "op-a_1 is a standby, so its controllers do not run. op-b_2 leads: ask it, in a \
                    cluster by kubectl port-forward -n shop pod/op-b PORT, with the port of its \
                    metrics\n";

#[test]
fn leader_that_is_no_pod_is_named_by_its_identity() {
    let in_no_pod = r#""inPod": false, "leader": "replica_2""#;
    let standby = STANDBY.replace(r#""leader": "op-b_2""#, in_no_pod);
    let (url, _asked) = answers_all(&[("404 Not Found", "no run of it\n"), ("200 OK", &standby)]);
    let shown = windlass(&url, &["why", "website", "web"]);
    assert_eq!(
        text(&shown.stderr),
        "error: no run of it\nop-a_1 is a standby, so its controllers do not run. replica_2 leads: \
         ask it, at the --metrics-bind-address of that process\n"
    );
}

#[test]
fn why_of_a_standby_says_who_leads() {
    let (url, _asked) = answers_all(&[("404 Not Found", "no run of it\n"), ("200 OK", STANDBY)]);
    let shown = windlass(&url, &["why", "website", "web"]);
    assert_eq!(shown.status.code(), Some(1));
    assert_eq!(text(&shown.stderr), format!("error: no run of it\n{HINT}"));

    let (url, _asked) = answers_all(&[("200 OK", STORY), ("200 OK", STANDBY)]);
    let shown = windlass(&url, &["why", "website", "web", "-o", "json"]);
    assert_eq!(
        (text(&shown.stdout), text(&shown.stderr)),
        (STORY.to_owned(), format!("note: {HINT}"))
    );
}

#[test]
fn runs_and_queue_of_a_standby_say_who_leads() {
    for (command, expected) in
        [("runs", "no run has ended yet\n"), ("queue", "no key runs or waits\n")]
    {
        let (url, _asked) = answers("200 OK", STANDBY);
        let shown = windlass(&url, &[command]);
        let shown = (text(&shown.stdout), text(&shown.stderr));
        assert_eq!(shown, (expected.to_owned(), format!("note: {HINT}")));
    }
}

#[test]
fn answer_without_a_text_is_an_error_with_its_status() {
    let (url, _asked) = answers("502 Bad Gateway", "");
    let shown = windlass(&url, &["leader"]);
    assert_eq!(shown.status.code(), Some(1));
    let told = text(&shown.stderr);
    assert_eq!(told, format!("error: {url}/debug/windlass answers 502 Bad Gateway\n"));
}

#[test]
fn reader_that_goes_away_is_no_failure() {
    // More than a pipe holds, so it is still being written when the reader ends.
    let body = "x".repeat(1 << 20);
    let (url, _asked) = answers("200 OK", &body);
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["runs", "-o", "json", "--url", &url]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    drop(child.stdout.take());
    let shown = child.wait_with_output().expect("it ends");
    assert_eq!((shown.status.code(), text(&shown.stderr)), (Some(0), String::new()));
}

#[test]
fn kubectl_calls_the_same_program() {
    let (url, _asked) = answers("200 OK", STANDBY);
    let shown = Command::new(env!("CARGO_BIN_EXE_kubectl-windlass"))
        .args(["leader", "--url", &url])
        .output()
        .expect("it runs");
    assert!(text(&shown.stdout).starts_with("leader   op-b_2\n"), "{shown:?}");
    let help = Command::new(env!("CARGO_BIN_EXE_kubectl-windlass"))
        .args(["why", "--help"])
        .output()
        .expect("it runs");
    assert!(text(&help.stdout).contains("Usage: kubectl windlass why"), "{help:?}");
}

#[test]
fn json_is_what_the_operator_answers() {
    let (url, _asked) = answers("200 OK", STORY);
    let shown = windlass(&url, &["why", "website", "web", "-n", "shop", "-o", "json"]);
    assert_eq!(text(&shown.stdout), STORY);
}

#[test]
fn unknown_object_is_an_error_in_the_operators_words() {
    let (url, _asked) = answers("404 Not Found", "no controller reconciles or watches \"pod\"\n");
    let shown = windlass(&url, &["why", "pod", "web"]);
    assert_eq!(shown.status.code(), Some(1));
    assert_eq!(text(&shown.stderr), "error: no controller reconciles or watches \"pod\"\n");
}

#[test]
fn operator_that_does_not_answer_is_an_error() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", nobody.local_addr().expect("an address"));
    drop(nobody);
    let shown = windlass(&url, &["leader"]);
    assert_eq!(shown.status.code(), Some(1));
    let told = text(&shown.stderr);
    assert!(told.starts_with(&format!("error: no operator answers at {url}")), "{told}");
}

/// Answers one connection with these bytes, whatever the request, and returns the address.
fn answers_with(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let _ = stream.read(&mut [0; 4_096]).expect("a request");
        stream.write_all(bytes).expect("written");
        // Closing with unread bytes could lose the answer.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    address
}

#[test]
fn url_without_a_scheme_is_refused_with_one_that_has_it() {
    for url in ["127.0.0.1:8080", "localhost:8080", "ftp://localhost", ""] {
        let shown = windlass(url, &["runs"]);
        assert_eq!(
            text(&shown.stderr),
            format!(
                "error: the URL {url:?} must begin with http:// or https://, as in \
                 http://127.0.0.1:8080\n"
            )
        );
    }
}

#[test]
fn wrong_scheme_is_told() {
    let plain = answers_with(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    let told = text(&windlass(&format!("https://{plain}"), &["runs"]).stderr);
    let expected =
        format!("error: cannot ask https://{plain}: it seems to use no TLS: use http:// ");
    assert!(told.starts_with(&expected), "{told}");
    // The alert of a TLS server that cannot parse what it receives.
    let tls = answers_with(&[21, 3, 3, 0, 2, 2, 50]);
    let told = text(&windlass(&format!("http://{tls}"), &["runs"]).stderr);
    assert!(told.starts_with(&format!("error: cannot ask http://{tls}: it does not")), "{told}");
    assert!(told.contains("use https://"), "{told}");
}

#[test]
fn another_port_of_the_operator_leads_to_that_of_the_metrics() {
    for body in ["", "there is nothing here; the dashboard is at /\n"] {
        let (url, _asked) = answers("404 Not Found", body);
        let told = text(&windlass(&url, &["runs"]).stderr);
        assert_eq!(
            told,
            format!(
                "error: {url} has no /debug/windlass: it is served on a loopback address, or with \
                 --metrics-secure, on the port of the metrics (8080 by default); this may be the \
                 port of the probes or of the dashboard\n"
            )
        );
    }
}

#[test]
fn why_takes_the_forms_of_kubectl() {
    for (arguments, expected) in [
        (&["why", "website", "shop/web"][..], "kind=website&key=shop%2Fweb"),
        (&["why", "Website/web"], "kind=Website&key=default%2Fweb"),
        (&["why", "deploy", "web", "-n", "shop"], "kind=deployments&key=shop%2Fweb"),
    ] {
        let (url, asked) = answers("200 OK", STORY);
        windlass(&url, arguments);
        let asked = asked.join().expect("a request");
        let expected = format!("GET /debug/windlass/story?{expected}&limit=30 ");
        assert!(asked.starts_with(&expected), "{asked}");
    }
    // No request is sent.
    let told = text(&windlass("http://127.0.0.1:1", &["why", "website"]).stderr);
    assert_eq!(told, "error: the name is missing: use website NAME or website/NAME\n");
}

#[test]
fn one_more_run_is_one() {
    let story = STORY.replace("\"omittedRuns\": 2", "\"omittedRuns\": 1");
    let (url, _asked) = answers("200 OK", &story);
    let shown = text(&windlass(&url, &["why", "website", "shop/web"]).stdout);
    assert!(shown.ends_with("\n1 more run is linked to shop/web: see --limit\n"), "{shown}");
}

#[test]
fn tables_have_what_runs_and_waits() {
    let report = r#"{
      "leadership": {"lease": "shop/op", "identity": "a_1", "state": "standby", "leader": "b_2"},
      "controllers": [{
        "name": "websites", "omittedRuns": 1,
        "queue": {"omittedKeys": 0, "keys": [{
          "key": "shop/web", "state": "waiting", "since": "2026-11-18T04:00:00.000Z", "attempt": 4,
          "nextRun": "2026-11-18T04:00:09.000Z", "causes": ["timer"]}]},
        "lastRuns": [{"key": "shop/web", "started": "2026-11-18T04:00:00.000Z",
          "tookSeconds": 0.25, "outcome": "failed", "message": "is away", "causes": ["timer"]}]
      }],
      "informers": [{"resource": "websites.v1.example.com", "state": "synced",
        "quarantinedTotal": 0, "memory": {"objects": 3, "objectBytes": 2049},
        "feeds": [{"lastEvent": "2026-11-18T04:00:01.000Z"}]}]
    }"#;
    for (command, expected) in [
        (
            "queue",
            "STATE    CONTROLLER  KEY       SINCE         NEXT RUN      ATTEMPT  BECAUSE\n\
             waiting  websites    shop/web  04:00:00.000  04:00:09.000  4        timer\n",
        ),
        (
            "runs",
            "STARTED       CONTROLLER  KEY       OUTCOME  TOOK      BECAUSE\n\
             04:00:00.000  websites    shop/web  failed   250.0 ms  is away\n\
             1 more: see --limit\n",
        ),
        (
            "informers",
            "RESOURCE                 STATE   OBJECTS  KIB  QUARANTINED  LAST EVENT\n\
             websites.v1.example.com  synced  3        3    0            04:00:01.000\n",
        ),
        ("leader", "leader   b_2\nlease    shop/op\nasked    a_1 (standby)\n"),
    ] {
        let (url, _asked) = answers("200 OK", report);
        let shown = windlass(&url, &[command]);
        assert_eq!(text(&shown.stdout), expected, "{}", text(&shown.stderr));
    }
}

#[test]
fn long_answer_is_read() {
    // Above ureq's default limit.
    let body = "x".repeat(11 << 20);
    let (url, _asked) = answers("200 OK", &body);
    let shown = windlass(&url, &["runs", "-o", "json"]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    assert_eq!(shown.stdout.len(), body.len());
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let story = STORY.replace("the database", r"\u001b[2J\u009bthe\tdatabase\u0007");
    let (url, _asked) = answers("200 OK", &story);
    let shown = text(&windlass(&url, &["why", "website", "web", "-n", "shop"]).stdout);
    let expected = "    error   \u{fffd}[2J\u{fffd}the\tdatabase\u{fffd}\n    error   is away\n";
    assert!(shown.contains(expected), "{shown:?}");

    let (url, _asked) = answers("404 Not Found", "no \u{1b}]0;title\u{7}\nrun\n");
    let shown = windlass(&url, &["runs"]);
    assert_eq!(text(&shown.stderr), "error: no \u{fffd}]0;title\u{fffd}\nrun\n");

    let standby = STANDBY.replace("op-a_1", r"op-a_1\u001b[1m");
    let (url, _asked) = answers("200 OK", &standby);
    let shown = windlass(&url, &["runs"]);
    assert!(text(&shown.stderr).starts_with("note: op-a_1\u{fffd}[1m is a standby"), "{shown:?}");
}
