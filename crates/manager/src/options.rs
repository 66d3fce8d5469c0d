//! The options of a program that runs a [`Manager`](crate::Manager).

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use http::Uri;

use crate::election::Timing;

/// The options that operators usually have.
///
/// An operator without options of its own calls [`Options::parse`]. Others add a field of this type
/// with `#[command(flatten)]` to a type that derives `clap::Parser`. [`Default`] has the same
/// values as a command line without arguments.
#[derive(Parser, Clone, Debug, PartialEq, Eq)]
#[command(about = None, long_about = None, next_help_heading = "Manager")]
#[non_exhaustive]
pub struct Options {
    /// The kubeconfig file. Without it, the files in the variable KUBECONFIG are read; in a pod,
    /// its service account is used; otherwise, .kube/config in the home folder is read
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig file [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Watch only this namespace; repeat the flag for several [default: all namespaces]
    #[arg(
        long = "namespace", value_name = "NAME", env = "WATCH_NAMESPACE", value_delimiter = ',',
        value_parser = namespace
    )]
    pub namespaces: Vec<String>,

    /// Elect a leader, if the operator supports it
    #[arg(
        long, env = "LEADER_ELECT", default_value_t = true, num_args = 0..=1,
        default_missing_value = "true", action = clap::ArgAction::Set
    )]
    pub leader_elect: bool,

    /// The namespace of the Lease [default: the namespace of the pod, or of the kubeconfig's
    /// context]
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE")]
    pub leader_election_namespace: Option<String>,

    /// How long a standby waits after the last renewal before it takes the Lease
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub lease_duration: Duration,

    /// How long the leader may fail to renew the Lease before it stops leading
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub renew_deadline: Duration,

    /// The time between two attempts to acquire or renew the Lease
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub retry_period: Duration,

    /// The address of /healthz, /livez and /readyz, or 0 to disable them. For probes of the
    /// kubelet, use all addresses of the pod: :8081
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "HEALTH_PROBE_BIND_ADDRESS",
        default_value = "127.0.0.1:8081"
    )]
    pub health_probe_bind_address: String,

    /// The address of /metrics and /debug/windlass, or 0 to disable them
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "METRICS_BIND_ADDRESS",
        default_value = "127.0.0.1:8080"
    )]
    pub metrics_bind_address: String,

    /// Serve /metrics and /debug/windlass over TLS, and only to accounts that may get these paths
    #[arg(long, env = "METRICS_SECURE")]
    pub metrics_secure: bool,

    /// The folder of tls.crt and tls.key for --metrics-secure, and for a dashboard that is not on
    /// loopback [default: generate a self-signed certificate]
    #[arg(long, value_name = "FOLDER", env = "METRICS_CERT_PATH")]
    pub metrics_cert_path: Option<PathBuf>,

    /// Serve the dashboard on this address, such as 127.0.0.1:9090: a page that shows what the
    /// operator does, and can run and pause objects. The log has its URL. On an address that is not
    /// loopback, it is served over TLS, to accounts that may use it [default: no dashboard]
    #[arg(long, value_name = "ADDRESS", env = "DASHBOARD")]
    pub dashboard: Option<String>,

    /// Where webhooks are served, if the operator has any
    #[arg(long, value_name = "ADDRESS", env = "WEBHOOK_BIND_ADDRESS", default_value = ":9443")]
    pub webhook_bind_address: String,

    /// The folder of tls.crt and tls.key of the webhooks, as cert-manager writes them [default: the
    /// operator makes the certificates, in a Secret, and renews them]
    #[arg(long, value_name = "FOLDER", env = "WEBHOOK_CERT_PATH")]
    pub webhook_cert_path: Option<PathBuf>,

    /// The file of the certificate authority that signs the API server's client certificate.
    /// Webhooks then refuse whoever has none, except for conversions, for which the API server has
    /// no certificate
    #[arg(long, value_name = "FILE", env = "WEBHOOK_CLIENT_CA")]
    pub webhook_client_ca: Option<PathBuf>,

    /// How long the certificates are valid that the operator makes for its webhooks. They are
    /// renewed after half of the time [default: one year]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub webhook_cert_lifetime: Option<Duration>,

    /// The Service through which the API server calls the webhooks [default: named as the webhooks]
    #[arg(long, value_name = "NAME", env = "WEBHOOK_SERVICE")]
    pub webhook_service: Option<String>,

    /// The namespace of that Service, and of the Secret of the certificates [default: the namespace
    /// of the pod, or of the kubeconfig's context]
    #[arg(long, value_name = "NAME", env = "WEBHOOK_NAMESPACE")]
    pub webhook_namespace: Option<String>,

    /// The URL at which the API server calls the webhooks instead of a Service: for an operator
    /// that runs outside of the cluster. Port 0 stands for the port that is served
    #[arg(
        long, value_name = "URL", env = "WEBHOOK_URL", value_parser = webhook_url
    )]
    pub webhook_url: Option<String>,

    /// How long webhooks are served after a signal to stop, until nobody calls this replica any
    /// more
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub webhook_drain: Duration,

    /// Print what the operator would do to the cluster, and exit without changing anything
    #[arg(
        long, value_name = "FORMAT", num_args = 0..=1, require_equals = true,
        default_missing_value = "text"
    )]
    pub plan: Option<PlanFormat>,

    /// How many objects are reconciled at once, by each controller that sets no number of its own
    /// [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub workers: Option<usize>,

    /// How long runs may continue after a signal to stop. The terminationGracePeriodSeconds of the
    /// pod should be 25 s longer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub grace_period: Duration,

    /// How log lines are written
    #[arg(long, value_name = "FORMAT", env = "LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,

    /// Which log lines are written, such as info,kube=warn; `RUST_LOG` overrides it
    #[arg(long, value_name = "FILTER", env = "LOG_LEVEL", default_value = "info")]
    pub log_level: String,
}

/// How a plan is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// Human-readable text.
    Text,
    /// One JSON object.
    Json,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl Options {
    /// Reads the command line and the environment. An invalid option ends the process with a
    /// message, and so does `--help`.
    pub fn parse() -> Self {
        Parser::parse()
    }

    /// The same, but nothing is served over HTTP. For tests.
    #[must_use]
    pub fn without_http(self) -> Self {
        let disabled = || "0".to_owned();
        let (health_probe_bind_address, metrics_bind_address) = (disabled(), disabled());
        Self { health_probe_bind_address, metrics_bind_address, dashboard: None, ..self }
    }

    /// The namespaces to watch; empty for all. An empty `WATCH_NAMESPACE` also means all.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        self.namespaces.iter().filter(|name| !name.is_empty()).cloned().collect()
    }

    /// The durations of the election.
    pub fn timing(&self) -> Timing {
        Timing {
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            retry_period: self.retry_period,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        let timing = Timing::default();
        Self {
            kubeconfig: None,
            context: None,
            namespaces: Vec::new(),
            leader_elect: true,
            leader_election_namespace: None,
            lease_duration: timing.lease_duration,
            renew_deadline: timing.renew_deadline,
            retry_period: timing.retry_period,
            health_probe_bind_address: "127.0.0.1:8081".to_owned(),
            metrics_bind_address: "127.0.0.1:8080".to_owned(),
            metrics_secure: false,
            metrics_cert_path: None,
            dashboard: None,
            webhook_bind_address: ":9443".to_owned(),
            webhook_cert_path: None,
            webhook_client_ca: None,
            webhook_cert_lifetime: None,
            webhook_service: None,
            webhook_namespace: None,
            webhook_url: None,
            webhook_drain: Duration::from_secs(5),
            plan: None,
            workers: None,
            grace_period: Duration::from_secs(30),
            log_format: LogFormat::Text,
            log_level: "info".to_owned(),
        }
    }
}

/// Parses a duration such as `15s`, `1m 30s` or `500ms`.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>().ok();
    parsed
        .and_then(|time| Duration::try_from(time).ok())
        .ok_or_else(|| "not a duration such as 15s, 500ms or 1m 30s".to_owned())
}

/// The longest name of a namespace.
const NAMESPACE_MAX: usize = 63;

/// Checks the name of a namespace. Empty ones are ignored.
fn namespace(text: &str) -> Result<String, String> {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = text.len() <= NAMESPACE_MAX
        && text.bytes().all(is_inside)
        && !text.starts_with('-')
        && !text.ends_with('-');
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        "not a name of a namespace: use up to 63 lower case letters, digits and -, with a letter \
         or digit at both ends"
            .to_owned()
    })
}

/// Checks the URL of the webhooks.
fn webhook_url(text: &str) -> Result<String, String> {
    let is_fine = text.is_empty() || base_url(text).is_some();
    is_fine
        .then(|| text.to_owned())
        .ok_or_else(|| "not a base URL such as https://192.0.2.1:9443".to_owned())
}

/// Parses an `https` URL of a host and perhaps a port, without anything else.
pub(crate) fn base_url(text: &str) -> Option<Uri> {
    let url: Uri = text.parse().ok()?;
    let has_more = !matches!(url.path(), "" | "/") || url.query().is_some();
    let has_user = url.authority().is_some_and(|authority| authority.as_str().contains('@'));
    let is_base = url.scheme_str() == Some("https") && url.host().is_some();
    (is_base && !has_more && !has_user).then_some(url)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        manager: Options,
    }

    fn parse(arguments: &str) -> Result<Options, clap::Error> {
        let arguments = std::iter::once("program").chain(arguments.split_whitespace());
        Program::try_parse_from(arguments).map(|program| program.manager)
    }

    #[test]
    fn defaults_are_those_of_an_empty_command_line() {
        assert_eq!(parse("").expect("options"), Options::default());
    }

    #[test]
    fn leader_election_can_be_turned_off() {
        assert!(parse("--leader-elect").expect("options").leader_elect);
        assert!(!parse("--leader-elect=false").expect("options").leader_elect);
    }

    #[test]
    fn plan_is_text_unless_json_is_asked_for() {
        assert_eq!(parse("--plan").expect("options").plan, Some(PlanFormat::Text));
        assert_eq!(parse("--plan=json").expect("options").plan, Some(PlanFormat::Json));
    }

    #[test]
    fn empty_namespace_stands_for_all() {
        assert!(parse("--namespace=").expect("options").namespaces().is_empty());
        assert_eq!(parse("--namespace=a,,b").expect("options").namespaces(), ["a", "b"]);
    }

    #[test]
    fn namespaces_and_urls_are_checked_at_once() {
        let refusal = |arguments: &str| parse(arguments).expect_err(arguments).to_string();
        for wrong in ["Nope!", "-a", "a-", "a.b"] {
            let error = refusal(&format!("--namespace=ok,{wrong}"));
            assert!(error.contains("not a name of a namespace: use up to 63"), "{error}");
        }
        let error = refusal(&format!("--namespace={}", "a".repeat(64)));
        assert!(error.contains("not a name of a namespace"), "{error}");
        for wrong in [
            "nonsense",
            "192.0.2.1:9443",
            "http://192.0.2.1",
            "https://192.0.2.1/hooks",
            "https://192.0.2.1?a=b",
            "https://me:secret@192.0.2.1",
        ] {
            let error = refusal(&format!("--webhook-url={wrong}"));
            assert!(error.contains("not a base URL such as https://192.0.2.1:9443"), "{error}");
        }
        parse("--webhook-url= --webhook-service=s").expect("as if the URL was not given");
        let options = parse("--webhook-url https://[::1]:0/ --namespace shop-1").expect("options");
        assert_eq!(options.webhook_url.as_deref(), Some("https://[::1]:0/"));
    }

    #[test]
    fn help_shows_no_default_of_the_kubeconfig_that_could_not_be_given() {
        let help = <Program as clap::CommandFactory>::command().render_help().to_string();
        let (_, help) = help.split_once("--kubeconfig <FILE>").expect("the flag");
        let (help, _) = help.split_once("--context").expect("the next flag");
        assert!(help.contains("KUBECONFIG") && !help.contains("[default:"), "{help}");
    }

    #[test]
    fn times_have_units() {
        let options = parse("--grace-period 500ms --lease-duration 1m30s").expect("options");
        assert_eq!(options.grace_period, Duration::from_millis(500));
        assert_eq!(options.lease_duration, Duration::from_secs(90));
        for wrong in ["5", "-5s", "soon"] {
            let error = parse(&format!("--grace-period={wrong}")).expect_err(wrong).to_string();
            assert!(error.contains("not a duration such as 15s"), "{error}");
        }
    }
}
