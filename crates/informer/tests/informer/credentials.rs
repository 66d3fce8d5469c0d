//! Temporary credentials: exec plugins and certificate files, renewed while a client is in use.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use http::header::AUTHORIZATION;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use kube::client::Body;
use kube::config::{ExecConfig, ExecInteractiveMode};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use windlass_informer::{ClientStack, ConnectError, SharedInformerFactory};
use windlass_testserver::{ControlPlane, ControlPlaneOptions};

/// What must appear nowhere.
const SECRET: &str = "hunter2";

/// A plugin: a script, with a file that counts how often it ran.
struct Plugin {
    folder: TempDir,
}

impl Plugin {
    fn new(script: &str) -> Self {
        let plugin = Self { folder: tempfile::tempdir().expect("a folder") };
        plugin.becomes(script);
        plugin
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the script.
    fn becomes(&self, script: &str) {
        let path = self.path("plugin");
        let runs = self.path("runs");
        let script = format!("#!/bin/sh\necho run >> {}\n{script}\n", runs.display());
        fs::write(self.path("new"), script).expect("a script");
        let executable = fs::Permissions::from_mode(0o700);
        fs::set_permissions(self.path("new"), executable).expect("a script");
        // A script that is written cannot be run at the same time.
        fs::rename(self.path("new"), path).expect("a script");
    }

    /// Returns a token that expires after so long.
    fn returns(&self, token: &str, lifetime: Option<SignedDuration>) {
        self.becomes(&Self::answer(token, lifetime));
    }

    fn answer(token: &str, lifetime: Option<SignedDuration>) -> String {
        let mut status = json!({ "token": token });
        if let Some(lifetime) = lifetime {
            status["expirationTimestamp"] = (Timestamp::now() + lifetime).to_string().into();
        }
        let answer = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status,
        });
        format!("cat <<'END'\n{answer}\nEND")
    }

    async fn wait_for_runs(&self, count: usize) {
        let ran = async {
            while self.runs() < count {
                // The plugin is a process outside, which only writes a file.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), ran).await.expect("the plugin runs");
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).map_or(0, |runs| runs.lines().count())
    }

    fn exec(&self) -> ExecConfig {
        ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some(self.path("plugin").to_str().expect("text").to_owned()),
            args: Some(vec![format!("--password={SECRET}")]),
            env: Some(vec![
                [("name", "PASSWORD"), ("value", SECRET)]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
            ]),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        }
    }

    fn connect(&self, server: &Server) -> Result<kube::Client, ConnectError> {
        let mut config = kube::Config::new(server.url.parse().expect("a URL"));
        config.auth_info.exec = Some(self.exec());
        ClientStack::new().connect(config)
    }
}

/// A server that tells which credentials came, and accepts those that it is told to.
struct Server {
    url: String,
    seen: mpsc::Receiver<String>,
    _task: JoinSet<()>,
}

impl Server {
    /// Refuses everything with `refused` in its credentials.
    async fn start(refused: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let (tell, seen) = mpsc::channel(16);
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                let (mut connection, _) = listener.accept().await.expect("a connection");
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    connection.read_buf(&mut head).await.expect("a request");
                }
                let head = String::from_utf8(head).expect("text");
                let name = format!("{AUTHORIZATION}: ");
                let sent = head.lines().find_map(|line| line.strip_prefix(&name));
                let sent = sent.unwrap_or("nothing").to_owned();
                let code = if sent.contains(refused) { "401 Unauthorized" } else { "200 OK" };
                let answer =
                    format!("HTTP/1.1 {code}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
                connection.write_all(answer.as_bytes()).await.expect("somebody listens");
                tell.send(sent).await.expect("the test goes on");
            }
        });
        Self { url, seen, _task: task }
    }

    /// Sends a request, and returns the credentials that came with it.
    async fn ask(&mut self, client: &kube::Client) -> Result<String, kube::Error> {
        let request = Request::get("/version").body(Body::empty()).expect("a request");
        client.send(request).await?;
        Ok(self.seen.recv().await.expect("the server runs"))
    }
}

impl Server {
    /// Sends requests until these credentials come with one.
    async fn ask_until(&mut self, client: &kube::Client, wanted: &str) {
        let came = async {
            while self.ask(client).await.expect("an answer") != wanted {
                // A plugin runs meanwhile: a process outside. Only requests show what came of it.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), came).await.expect("the credentials come");
    }
}

const NONE: &str = "nobody is refused";

/// Lets time pass. The clock runs otherwise, because real connections are used.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn token_of_a_plugin_is_renewed_before_it_expires_and_the_plugin_runs_once_for_it() {
    let mut server = Server::start(NONE).await;
    let plugin = Plugin::new("");
    plugin.returns("first", Some(SignedDuration::from_hours(1)));
    let client = plugin.connect(&server).expect("a client");
    assert_eq!(server.ask(&client).await.expect("an answer"), "Bearer first");
    assert_eq!(plugin.runs(), 1);

    plugin.returns("second", Some(SignedDuration::from_hours(2)));
    pass(Duration::from_mins(58)).await;
    assert_eq!(server.ask(&client).await.expect("an answer"), "Bearer first");
    assert_eq!(plugin.runs(), 1);
    pass(Duration::from_mins(1)).await;
    // The first token is still valid, so nobody waits for the second.
    assert_eq!(server.ask(&client).await.expect("an answer"), "Bearer first");
    server.ask_until(&client, "Bearer second").await;
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn plugin_is_asked_again_when_the_server_refuses_what_it_returned() {
    let mut server = Server::start("revoked").await;
    let plugin = Plugin::new("");
    plugin.returns("revoked", None);
    let client = plugin.connect(&server).expect("a client");
    assert_eq!(server.ask(&client).await.expect("an answer"), "Bearer revoked");
    plugin.returns("fresh", None);
    // Not for each refusal: at most once in a second.
    pass(Duration::from_secs(1)).await;
    assert_eq!(server.ask(&client).await.expect("an answer"), "Bearer fresh");
    pass(Duration::from_hours(24)).await;
    assert_eq!(server.ask(&client).await.expect("an answer"), "Bearer fresh");
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn plugin_that_fails_later_costs_nothing_until_the_old_token_expires() {
    let mut server = Server::start(NONE).await;
    let plugin = Plugin::new("");
    plugin.returns("first", Some(SignedDuration::from_hours(1)));
    let client = plugin.connect(&server).expect("a client");
    plugin.becomes(&format!("echo {SECRET}; echo {SECRET} >&2; exit 3"));
    pass(Duration::from_mins(59) + Duration::from_secs(30)).await;
    assert_eq!(server.ask(&client).await.expect("an answer"), "Bearer first");
    plugin.wait_for_runs(2).await;
    pass(Duration::from_secs(40)).await;
    let error = server.ask(&client).await.expect_err("the token has expired");
    let shown = format!("{error} {error:?} {}", windlass_informer::client::safe_message(&error));
    assert!(shown.contains("ended with exit status: 3; run it yourself"), "{shown}");
    assert!(!shown.contains(SECRET), "{shown}");
    // Other requests of the same second do not run it again.
    let runs = plugin.runs();
    server.ask(&client).await.expect_err("still");
    assert_eq!(plugin.runs(), runs);

    plugin.returns("second", Some(SignedDuration::from_hours(1)));
    pass(Duration::from_mins(1)).await;
    assert_eq!(server.ask(&client).await.expect("an answer"), "Bearer second");
}

#[tokio::test]
async fn renewal_goes_on_if_the_request_that_began_it_is_dropped() {
    let mut server = Server::start(NONE).await;
    let plugin = Plugin::new("");
    plugin.returns("first", Some(SignedDuration::from_hours(1)));
    let client = plugin.connect(&server).expect("a client");
    // It waits until the test lets it go on.
    let answer = Plugin::answer("second", Some(SignedDuration::from_hours(1)));
    let gate = plugin.path("gate");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", gate.display());
    plugin.becomes(&format!("{wait}\n{answer}"));
    pass(Duration::from_hours(2)).await;
    tokio::select! {
        _ = server.ask(&client) => panic!("the token has expired"),
        () = plugin.wait_for_runs(2) => {}
    }
    fs::write(gate, "").expect("a file");
    assert_eq!(server.ask(&client).await.expect("an answer"), "Bearer second");
    assert_eq!(plugin.runs(), 2, "its result was not thrown away");
}

#[tokio::test]
async fn plugin_that_cannot_be_used_is_an_error_that_shows_no_secret() {
    let server = Server::start(NONE).await;
    for (script, expected) in [
        (format!("echo {SECRET} >&2; exit 1"), "ended with exit status: 1"),
        (format!("echo '{{\"status\": [\"{SECRET}\"]}}'"), "other than an ExecCredential"),
        (format!("echo '{{\"kind\": \"{SECRET}\"}}'"), "returned no status"),
        ("echo '{\"status\": {\"token\": \"\"}}'".to_owned(), "neither a token nor a certificate"),
        ("echo '{\"status\": {\"clientKeyData\": \"x\"}}'".to_owned(), "without its key"),
        ("echo '{\"apiVersion\": \"v0\", \"status\": {}}'".to_owned(), "does not return"),
    ] {
        let plugin = Plugin::new(&script);
        let error = plugin.connect(&server).map(drop).expect_err("it is of no use");
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(expected), "{shown}");
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let missing = Plugin::new("");
    fs::remove_file(missing.path("plugin")).expect("it was there");
    let error = missing.connect(&server).map(drop).expect_err("it is not there");
    assert!(error.to_string().contains("cannot be run: No such file"), "{error}");
}

/// An authority that a server trusts clients of.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Self {
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "authority of clients");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = authority.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(authority, key), certificate }
    }

    /// A certificate of an administrator, and its key.
    fn issue(&self, expires: Timestamp) -> (String, String) {
        let mut client = CertificateParams::default();
        client.distinguished_name.push(DnType::CommonName, "jane");
        client.distinguished_name.push(DnType::OrganizationName, "system:masters");
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        client.not_before = (expires - SignedDuration::from_hours(1)).into_time();
        client.not_after = expires.into_time();
        let key = KeyPair::generate().expect("a key");
        let certificate = client.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }
}

/// rcgen's time.
trait IntoTime {
    fn into_time(self) -> time::OffsetDateTime;
}

impl IntoTime for Timestamp {
    fn into_time(self) -> time::OffsetDateTime {
        time::OffsetDateTime::from_unix_timestamp(self.as_second()).expect("a time")
    }
}

/// A real server that knows clients by certificates, and a configuration without credentials.
async fn real_server(authority: &Authority, folder: &Path) -> (ControlPlane, kube::Config) {
    let path = folder.join("authority.pem");
    fs::write(&path, &authority.certificate).expect("a file");
    let options =
        ControlPlaneOptions::new().apiserver_flag(format!("--client-ca-file={}", path.display()));
    let cluster = ControlPlane::start(options).await.expect("a real cluster");
    let mut config = cluster.config();
    config.auth_info = kube::config::AuthInfo::default();
    (cluster, config)
}

fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object
}

/// Whether the server does not know who asks.
fn is_unknown(result: &kube::Result<impl Sized>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.code == 401)
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn certificates_of_a_plugin_that_live_for_seconds_are_renewed_and_no_watch_is_lost() {
    let authority = Authority::new();
    let plugin = Plugin::new("");
    // One certificate for each ten seconds of the next minutes, in a file named by when it expires.
    let issued = plugin.path("issued");
    fs::create_dir(&issued).expect("a folder");
    let now = Timestamp::now();
    for number in 1..=30 {
        let expires = now + SignedDuration::from_secs(10 * number);
        let (certificate, key) = authority.issue(expires);
        let answer = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {
                "expirationTimestamp": expires.to_string(),
                // Some plugins write no newline at the end.
                "clientCertificateData": certificate.trim_end(), "clientKeyData": key.trim_end(),
            },
        });
        fs::write(issued.join(expires.as_second().to_string()), answer.to_string())
            .expect("a file");
    }
    plugin.becomes(&format!(
        "cd {} && for file in *; do [ $file -gt $(($(date +%s) + 6)) ] && cat $file && exit; done; exit 1",
        issued.display()
    ));
    let (cluster, mut config) = real_server(&authority, plugin.folder.path()).await;
    config.auth_info.exec = Some(plugin.exec());

    // kube's own client, which is never renewed, shows that they do expire.
    let theirs = kube::Client::try_from(config.clone()).expect("a client");
    let theirs: Api<ConfigMap> = Api::default_namespaced(theirs);
    theirs.list(&ListParams::default()).await.expect("valid at first");
    let before = plugin.runs();

    let ours = ClientStack::new().connect(config).expect("a client");
    let factory = SharedInformerFactory::new(ours.clone());
    let informer = factory.informer::<ConfigMap>().expect("an informer");
    let mut events = informer.subscribe().expect("it has not stopped");
    factory.start();
    factory.wait_for_sync().await.expect("a first list");
    let api: Api<ConfigMap> = Api::default_namespaced(ours);
    let renewed = async {
        let mut number = 0;
        while plugin.runs() < before + 4 || !is_unknown(&theirs.list(&ListParams::default()).await)
        {
            let name = format!("object-{number}");
            api.create(&PostParams::default(), &config_map(&name)).await.expect("always valid");
            // The watch brings it.
            while events.next().await.expect("the informer runs").key().name() != name {}
            number += 1;
        }
    };
    // The last certificate expires after five minutes.
    tokio::time::timeout(Duration::from_mins(5), renewed).await.expect("four renewals");
    let feed = informer.status().feeds.remove(0);
    assert_eq!((feed.counts.watches, feed.counts.lists), (1, 1), "one watch has brought all of it");
    factory.shut_down().await;
    drop(cluster);
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn certificate_files_that_were_replaced_are_read_again() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = folder.path().join("tls.crt");
    let key = folder.path().join("tls.key");
    let write = |expires: SignedDuration| {
        let issued = authority.issue(Timestamp::now() + expires);
        fs::write(&certificate, issued.0).expect("a file");
        fs::write(&key, issued.1).expect("a file");
    };
    write(SignedDuration::from_secs(-10));
    let (cluster, mut config) = real_server(&authority, folder.path()).await;
    config.auth_info.client_certificate = certificate.to_str().map(str::to_owned);
    config.auth_info.client_key = key.to_str().map(str::to_owned);
    let client = ClientStack::new().connect(config).expect("a client");
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    assert!(is_unknown(&api.list(&ListParams::default()).await), "it has expired");
    write(SignedDuration::from_hours(1));
    // After a refusal the files are read again, at most once in a second.
    let accepted = async {
        while is_unknown(&api.list(&ListParams::default()).await) {
            // Only requests show when they are read.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), accepted).await.expect("the new one is used");
    drop(cluster);
}
