//! What an on-call engineer reads when an operator does not start: one line that says what to do,
//! and a check that names what fails. (`manager.rs` has the missing definition.)

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::Request;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use windlass_manager::{Manager, ManagerError, Options};
use windlass_reconciler::{Action, Controller, Error, Reconcile, RunContext, Watch};
use windlass_testserver::Log;
use windlass_testserver::apiserver::{ApiServer, Fault, FaultRule, Tls};

/// A reconciler that does nothing.
struct Nothing;

impl Reconcile<ConfigMap> for Nothing {
    async fn reconcile(&self, _: Arc<ConfigMap>, _: &RunContext) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

fn manager(options: Options, server: &ApiServer) -> Manager {
    let server = server.clone();
    Manager::new(options)
        .without_logs()
        .connect(move |stack| Ok(stack.around(server.service(), "default")))
        .controller(Controller::named("configmap", Watch::<ConfigMap>::new()), Nothing)
}

struct Running {
    probes: Router,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl Running {
    fn start(manager: Manager) -> Self {
        let (probes, stop) = (manager.probes(), CancellationToken::new());
        let task = TaskTracker::new().spawn(manager.run_until(stop.clone()));
        Self { probes, stop, task }
    }

    async fn readyz(&self) -> String {
        let request = Request::builder().uri("/readyz?verbose").body(axum::body::Body::empty());
        let answer = self.probes.clone().oneshot(request.expect("a request")).await;
        let body = answer.expect("infallible").into_body().collect().await;
        String::from_utf8(body.expect("a body").to_bytes().to_vec()).expect("text")
    }

    /// The line of a check that fails, as soon as it does.
    async fn failing(&self, check: &str) -> String {
        loop {
            let text = self.readyz().await;
            let mut lines = text.lines();
            if let Some(line) = lines.find(|line| line.starts_with(&format!("[-]{check} "))) {
                return line.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn end(self) -> Result<(), ManagerError> {
        self.stop.cancel();
        self.task.await.expect("it does not panic")
    }
}

/// A server that refuses a verb as the real one does.
fn refusing(verb: &str, plural: &str, code: u16) -> ApiServer {
    let server = ApiServer::new();
    let refused = FaultRule::new(Fault::Fail { code, retry_after: None });
    server.faults().add(refused.verb(verb).resource(plural));
    server
}

#[tokio::test]
async fn wrong_kubeconfig_is_named() {
    let mut options = Options::default().without_http();
    options.kubeconfig = Some("/no/such/file".into());
    let manager = Manager::new(options).without_logs();
    let error = manager.run_until(CancellationToken::new()).await.expect_err("no file").to_string();
    assert_eq!(
        error,
        "cannot connect to a cluster: kubeconfig /no/such/file: No such file or directory (os \
         error 2); choose a kubeconfig file with --kubeconfig and a context in it with --context"
    );
}

/// What a manager says about a kubeconfig with this content.
async fn error_of_kubeconfig(content: &str) -> (String, String) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), content).expect("written");
    let mut options = Options::default().without_http();
    options.kubeconfig = Some(file.path().to_owned());
    let manager = Manager::new(options).without_logs();
    let error = manager.run_until(CancellationToken::new()).await.expect_err("it is of no use");
    (error.to_string(), file.path().display().to_string())
}

/// A kubeconfig for the server at this URL.
fn kubeconfig(server: &str, authority: &str) -> String {
    format!(
        "current-context: here\n\
         contexts: [{{name: here, context: {{cluster: one, user: me}}}}]\n\
         clusters: [{{name: one, cluster: {{server: '{server}'{authority}}}}}]\n\
         users: [{{name: me, user: {{}}}}]\n"
    )
}

#[tokio::test]
async fn broken_kubeconfig_is_named_with_the_line_in_one_line() {
    let (error, path) = error_of_kubeconfig("apiVersion: v1\nusers: 'hunter2\n").await;
    let start = format!("cannot connect to a cluster: kubeconfig {path}: ");
    assert!(error.starts_with(&start), "{error}");
    assert!(error.contains(" at line "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(!error.contains("hunter2"), "{error}");

    let authority = ", certificate-authority: /no/such/ca";
    let (error, path) = error_of_kubeconfig(&kubeconfig("https://127.0.0.1", authority)).await;
    let start = format!("cannot connect to a cluster: kubeconfig {path}, context here: ");
    assert!(error.starts_with(&start), "{error}");
    assert!(error.contains("'/no/such/ca'"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn server_that_is_not_there_is_warned_of_at_once_and_named_in_the_end() {
    // Nothing listens on a port that was bound and is free again.
    let bound = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let server = format!("http://{}", bound.local_addr().expect("an address"));
    drop(bound);
    let log = Log::start();
    let (error, _) = error_of_kubeconfig(&kubeconfig(&server, "")).await;
    let start = format!("cannot reach the API server at {server}: ");
    let cause = error.strip_prefix(&start).unwrap_or_else(|| panic!("{error}"));
    let (cause, advice) = cause.split_once("; ").expect("an advice");
    assert_eq!(cause.matches("refused").count(), 1, "{error}");
    let expected = "check that the cluster runs and that this process can reach it; outside of a \
                    pod, --kubeconfig and --context choose it";
    assert_eq!(advice, expected);
    let warnings = log.lines_with(&start);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("WARN"), "{warnings:?}");
    assert!(warnings[0].ends_with("; trying for 30 s"), "{warnings:?}");
}

#[tokio::test]
async fn server_that_is_waited_for_is_named_by_the_check() {
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let server = format!("http://{}", silent.local_addr().expect("an address"));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), kubeconfig(&server, "")).expect("written");
    let mut options = Options::default().without_http();
    options.kubeconfig = Some(file.path().to_owned());
    let running = Running::start(Manager::new(options).without_logs());
    let waiting = "[-]manager failed: waiting for the API server";
    while running.failing("manager").await != waiting {
        tokio::task::yield_now().await;
    }
    running.end().await.expect("it stops");
}

#[tokio::test]
async fn certificate_that_is_not_accepted_is_named_at_once() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let tls = Tls::generate(Ipv4Addr::LOCALHOST.into()).expect("a certificate");
    let listening = ApiServer::new().listen_tls(address, &tls).await.expect("it listens");
    let server = listening.url();
    let log = Log::start();
    // The kubeconfig names no authority, and no public one has signed this certificate.
    let (error, _) = error_of_kubeconfig(&kubeconfig(&server, "")).await;
    let start = format!("the certificate of the API server at {server} is not accepted: ");
    assert!(error.starts_with(&start), "{error}");
    assert!(error.ends_with("URL of the server in the kubeconfig"), "{error}");
    assert_eq!(log.lines_with("cannot reach"), [""; 0]);
    listening.stop().await;
}

#[tokio::test]
async fn server_that_answers_with_an_error_is_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    let busy = Router::new().fallback(|| async { http::StatusCode::SERVICE_UNAVAILABLE });
    let serving = TaskTracker::new().spawn(axum::serve(listener, busy).into_future());
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), kubeconfig(&server, "")).expect("written");
    let mut options = Options::default().without_http();
    options.kubeconfig = Some(file.path().to_owned());
    let log = Log::start();
    let manager = Manager::new(options)
        .without_logs()
        .controller(Controller::named("configmap", Watch::<ConfigMap>::new()), Nothing);
    let running = Running::start(manager);
    // Not before the manager has gone on to fill its caches.
    running.failing("controller/configmap").await;
    assert_eq!(log.lines_with("cannot reach"), [""; 0]);
    running.end().await.expect("it stops");
    serving.abort();
}

#[tokio::test]
async fn taken_port_is_named_with_the_flag_that_chooses_another_one() {
    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let mut options = Options::default().without_http();
    options.metrics_bind_address.clone_from(&address);
    let manager = manager(options, &ApiServer::new());
    let error = manager.run_until(CancellationToken::new()).await.expect_err("taken").to_string();
    assert_eq!(
        error,
        format!(
            "address {address} is in use: stop the other process, or choose another port with \
             --metrics-bind-address"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn refused_verb_is_named_with_what_to_grant() {
    let server = ApiServer::new();
    for verb in ["list", "watch"] {
        let refused = FaultRule::new(Fault::Fail { code: 403, retry_after: None });
        server.faults().add(refused.verb(verb).resource("configmaps"));
    }
    let running = Running::start(manager(Options::default().without_http(), &server));
    let line = running.failing("controller/configmap").await;
    assert!(line.contains("configmaps.v1"), "{line}");
    assert!(line.contains("give the controller's account the verbs list and watch"), "{line}");
    let error = running.task.await.expect("no panic").expect_err("it gives up").to_string();
    assert!(error.starts_with("controller \"configmap\": the cache of"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn refused_lease_is_named_with_what_to_grant() {
    let server = refusing("get", "leases", 403);
    let manager = manager(Options::default().without_http(), &server).leader_election("operator");
    let running = Running::start(manager);
    let line = running.failing("leader-election").await;
    assert!(line.contains("grant the account get, create and update on leases"), "{line}");
    assert!(line.contains("in the namespace default"), "{line}");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn expired_credentials_are_named_with_what_to_renew() {
    let server = ApiServer::new();
    for verb in ["list", "watch"] {
        let refused = FaultRule::new(Fault::Fail { code: 401, retry_after: None });
        server.faults().add(refused.verb(verb).resource("configmaps"));
    }
    let running = Running::start(manager(Options::default().without_http(), &server));
    let line = running.failing("controller/configmap").await;
    assert!(line.contains("the credentials are not valid, or no longer: renew"), "{line}");
    running.end().await.expect("it stops");
}

#[tokio::test]
async fn expired_certificate_of_the_metrics_is_named_by_its_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    params.not_before = date_time_ymd(2019, 1, 1);
    params.not_after = date_time_ymd(2020, 1, 1);
    let certificate = params.self_signed(&key).expect("a certificate");
    std::fs::write(folder.path().join("tls.crt"), certificate.pem()).expect("written");
    std::fs::write(folder.path().join("tls.key"), key.serialize_pem()).expect("written");
    let mut options = Options::default().without_http();
    "127.0.0.1:0".clone_into(&mut options.metrics_bind_address);
    options.metrics_secure = true;
    options.metrics_cert_path = Some(folder.path().to_owned());
    let running = Running::start(manager(options, &ApiServer::new()));
    let line = running.failing("metrics-certificate").await;
    assert!(line.contains("expired at 2020-01-01T00:00:00Z: renew it"), "{line}");
    running.end().await.expect("it stops");
}

#[tokio::test(start_paused = true)]
async fn lease_of_another_is_no_failure_and_its_holder_is_named() {
    let server = ApiServer::new();
    let lease = || Options::default().without_http();
    let first = Running::start(manager(lease(), &server).leader_election("operator"));
    while !first.readyz().await.contains("leader-election ok: this replica leads") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let second = Running::start(manager(lease(), &server).leader_election("operator"));
    loop {
        let text = second.readyz().await;
        let names_it = |line: &str| {
            line.starts_with("[+]leader-election ok: standby, ") && line.ends_with(" leads")
        };
        if text.lines().any(names_it) && text.ends_with("passed\n") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    second.end().await.expect("it stops");
    first.end().await.expect("it stops");
}
