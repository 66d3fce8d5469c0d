//! The address at which a manager answers, and requests to it.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use ureq::http::{StatusCode, Uri};
use ureq::tls::TlsConfig;

use super::printable;

/// The timeout of a request: longer than a report of many keys takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The size limit of an answer: a report of several hundred thousand keys fits. The limit of ureq,
/// 10 MB, is too small for large operators.
const ANSWER_MAX: u64 = 256 << 20;

/// The default address of a manager's metrics, which `kubectl port-forward` makes available.
const URL: &str = "http://127.0.0.1:8080";

/// The port of [`URL`].
const PORT: u16 = 8080;

/// Part of the answer of a manager's dashboard for an unknown path.
const DASHBOARD: &str = "the dashboard is at /";

/// The address of the metrics of a manager.
#[derive(Clone, Debug, Args)]
pub(super) struct Endpoint {
    /// Where the operator serves its metrics [default: port 8080 of this machine]
    #[arg(long, env = "WINDLASS_URL")]
    url: Option<String>,
    /// The token of an account that may get /debug/windlass and /debug/windlass/story, for an
    /// operator with --metrics-secure
    #[arg(long, env = "WINDLASS_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Accept any certificate, such as the one that an operator makes for itself
    #[arg(long)]
    insecure_skip_tls_verify: bool,
}

/// The answer of an operator.
pub(super) struct Answer {
    /// The URL without the path.
    base: String,
    path: String,
    status: StatusCode,
    text: String,
}

impl Endpoint {
    /// Gets a path.
    ///
    /// # Errors
    /// If there is no answer. The error says what to try, if that is known.
    pub(super) fn ask(&self, path: &str, query: &[(&str, &str)]) -> Result<Answer> {
        let base = self.url.as_deref().unwrap_or(URL).trim_end_matches('/').to_owned();
        ensure!(
            is_http(&base) || is_https(&base),
            "the URL {base:?} must begin with http:// or https://, as in {URL}"
        );
        let tls = TlsConfig::builder().disable_verification(self.insecure_skip_tls_verify).build();
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .tls_config(tls);
        if is_this_machine(&base) {
            // A proxy could not reach the loopback address.
            config = config.proxy(None);
        }
        let agent = config.build().new_agent();
        let mut request = agent.get(format!("{base}{path}")).query_pairs(query.iter().copied());
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut answer = request.call().map_err(|error| self.unreachable(error))?;
        let text = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_string()?;
        Ok(Answer { base, path: path.to_owned(), status: answer.status(), text })
    }

    /// The error for a request without an answer. It says what to try, if that is known.
    fn unreachable(&self, error: ureq::Error) -> anyhow::Error {
        let is_refused = matches!(
            &error, ureq::Error::Io(cause) if cause.kind() == ErrorKind::ConnectionRefused
        );
        match &self.url {
            _ if !is_refused => {
                let url = self.url.as_deref().unwrap_or(URL);
                match wrong_scheme_or_certificate(url, &error) {
                    Some(hint) => anyhow!("cannot ask {url}: {hint}"),
                    None => anyhow!(error).context(format!("cannot ask {url}")),
                }
            }
            Some(url) => anyhow!(
                "no operator answers at {url}: is it running, and if a `kubectl port-forward` \
                 leads there, is that?"
            ),
            None => anyhow!(
                "no operator answers at {URL}\n\
                 If it runs in a cluster with --metrics-secure, forward its port, and ask again \
                 with these flags:\n    \
                 kubectl port-forward -n NAMESPACE deployment/NAME 8443\n    \
                 --url https://127.0.0.1:8443 --insecure-skip-tls-verify --token \"$(kubectl \
                 create token -n NAMESPACE ACCOUNT)\"\n\
                 Without --metrics-secure, the port is enough:\n    \
                 kubectl port-forward -n NAMESPACE deployment/NAME 8080\n\
                 If it serves its metrics elsewhere, say where: --url http://127.0.0.1:PORT"
            ),
        }
    }
}

impl Answer {
    /// Returns the body of the answer.
    ///
    /// # Errors
    /// If the operator refuses the request. The error says what to do.
    pub(super) fn text(self) -> Result<String> {
        let Self { base, path, status, text } = self;
        if status == 200 {
            return Ok(text);
        }
        let text = printable(&text);
        match status.as_u16() {
            401 | 403 => bail!(
                "{base}{path} refuses: {}\ngive the token of an account that may get this path: \
                 --token \"$(kubectl create token ACCOUNT)\"",
                text.trim()
            ),
            404 if text.trim().is_empty() || text.contains(DASHBOARD) => bail!(
                "{base} has no {path}: it is served on a loopback address, or with \
                 --metrics-secure, on the port of the metrics ({PORT} by default); this may be the \
                 port of the probes or of the dashboard"
            ),
            _ if text.trim().is_empty() => bail!("{base}{path} answers {status}"),
            _ => bail!("{}", text.trim()),
        }
    }
}

/// Returns whether the host of a URL is a loopback address.
fn is_this_machine(url: &str) -> bool {
    let uri = url.parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let name = host.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_http(url: &str) -> bool {
    url.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"))
}

fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// Returns what to do if only one side uses TLS, or if the server's certificate is not trusted. The
/// errors of rustls can only be recognized by their texts.
fn wrong_scheme_or_certificate(url: &str, error: &ureq::Error) -> Option<String> {
    let text = error.to_string();
    if is_http(url) && matches!(error, ureq::Error::Protocol(_)) {
        return Some(format!("it does not answer in HTTP; if it uses TLS, use https:// ({text})"));
    }
    if is_https(url) && text.contains("InvalidContentType") {
        return Some(format!("it seems to use no TLS: use http:// ({text})"));
    }
    text.contains("invalid peer certificate").then(|| {
        format!(
            "{text}: if it is the one that the operator makes for itself, use \
             --insecure-skip-tls-verify"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_certificate_leads_to_the_flag() {
        let untrusted = "invalid peer certificate: UnknownIssuer";
        let error = std::io::Error::new(ErrorKind::InvalidData, untrusted);
        let url = Some("https://127.0.0.1:8443".to_owned());
        let endpoint = Endpoint { url, token: None, insecure_skip_tls_verify: false };
        let told = endpoint.unreachable(ureq::Error::Io(error)).to_string();
        assert!(told.starts_with("cannot ask https://127.0.0.1:8443: "), "{told}");
        assert!(told.contains(untrusted) && told.contains("--insecure-skip-tls-verify"), "{told}");
    }

    #[test]
    fn without_an_address_the_error_has_the_line_that_gives_one() {
        let told = |url: Option<&str>| {
            let url = url.map(str::to_owned);
            let endpoint = Endpoint { url, token: None, insecure_skip_tls_verify: false };
            let refused = std::io::Error::from(ErrorKind::ConnectionRefused);
            endpoint.unreachable(ureq::Error::Io(refused)).to_string()
        };
        let told_first = told(None);
        let lines: Vec<&str> = told_first.lines().collect();
        assert_eq!(lines[2], "    kubectl port-forward -n NAMESPACE deployment/NAME 8443");
        assert!(
            lines[3].starts_with("    --url https://127.0.0.1:8443 --insecure"),
            "{told_first}"
        );
        assert_eq!(lines[5], "    kubectl port-forward -n NAMESPACE deployment/NAME 8080");
        assert_eq!(
            told(Some("http://127.0.0.1:1")),
            "no operator answers at http://127.0.0.1:1: is it running, and if a `kubectl \
             port-forward` leads there, is that?"
        );
    }

    #[test]
    fn requests_to_this_machine_need_no_proxy() {
        for (url, is_local) in [
            ("http://127.0.0.1:8080", true),
            ("https://localhost:8443", true),
            ("http://[::1]:8080", true),
            ("https://metrics.example.com", false),
            ("http://10.0.0.1:8080", false),
        ] {
            assert_eq!(is_this_machine(url), is_local, "{url}");
        }
    }

    #[test]
    fn port_is_that_of_the_default() {
        assert!(URL.ends_with(&format!(":{PORT}")));
    }
}
