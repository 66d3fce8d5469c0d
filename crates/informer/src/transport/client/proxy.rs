//! Chooses the proxy for a server.
//!
//! The rules are client-go's. The `proxy-url` of a kubeconfig is used for its cluster, whatever
//! `NO_PROXY` says. Otherwise `HTTPS_PROXY` (for a server with plain HTTP: `HTTP_PROXY`) names the
//! proxy, unless `NO_PROXY` excludes the server. A server on the loopback interface needs no proxy.
//!
//! kube sets [`kube::Config::proxy_url`] from either source, and does not say which. If it equals
//! the variable, it is treated as the variable's. For `NO_PROXY`, kube checks the name of the proxy
//! instead of the server's, so the variables are read here once more.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use super::error::ConnectError;

/// The proxy for the server of a configuration, if any: its address and its credentials. The scheme
/// is `http`, `https`, `socks5` or `socks5h`.
///
/// # Errors
/// If its protocol is not supported, or its address is invalid.
pub(super) fn choose(config: &kube::Config) -> Result<Option<Intercept>, ConnectError> {
    choose_by(config, |name| std::env::var(name).ok())
}

/// The port of a server: the default of its scheme if the URL has none.
pub(super) fn port_of(server: &Uri) -> u16 {
    let default = if server.scheme_str() == Some("https") { 443 } else { 80 };
    server.port_u16().unwrap_or(default)
}

fn choose_by(
    config: &kube::Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Intercept>, ConnectError> {
    let given = |name: &str| variable(name).filter(|value| !value.is_empty());
    let set = |name: &str| given(name).or_else(|| given(&name.to_ascii_lowercase()));
    let server = &config.cluster_url;
    let is_https = server.scheme_str() == Some("https");
    let of_environment = set(if is_https { "HTTPS_PROXY" } else { "HTTP_PROXY" });
    // kube reads this one for any server.
    let https = set("HTTPS_PROXY").and_then(|value| value.parse().ok());
    let (address, except) = match &config.proxy_url {
        Some(address) if https.as_ref() != Some(address) => (address.to_string(), None),
        _ if is_loopback(server) => return Ok(None),
        _ => match of_environment {
            Some(address) => (address, set("NO_PROXY")),
            None => return Ok(None),
        },
    };
    let failed = |problem| ConnectError::Config(format!("its proxy cannot be used: {problem}"));
    let address = match address.split_once("://").map_or("http", |(scheme, _)| scheme) {
        "http" | "https" => address,
        "socks5" | "socks5h" => with_socks_port(address),
        _ => return Err(failed("its protocol is none of http, https and socks5")),
    };
    let matcher = |except: &str| Matcher::builder().all(address.clone()).no(except).build();
    let proxy = matcher("").intercept(server).ok_or_else(|| failed("its address is invalid"))?;
    let is_excepted = except.is_some_and(|list| {
        exceptions(&list, server)
            .is_none_or(|exceptions| matcher(&exceptions).intercept(server).is_none())
    });
    Ok((!is_excepted).then_some(proxy))
}

/// The list of `NO_PROXY` in the form that the matcher knows; `None` for `*`, which excludes
/// everything. The matcher knows addresses, networks and domains. Go also takes ports and
/// `*.example.com`.
fn exceptions(list: &str, server: &Uri) -> Option<String> {
    let mut entries = Vec::new();
    for entry in list.split(',').map(str::trim) {
        if entry == "*" {
            return None;
        }
        let entry = match entry.rsplit_once(':') {
            // Not the end of an IPv6 address.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                if port.parse() != Ok(port_of(server)) {
                    continue;
                }
                host.trim_matches(['[', ']'])
            }
            _ => entry.trim_matches(['[', ']']),
        };
        entries.push(entry.strip_prefix("*.").map_or(entry.to_owned(), |rest| format!(".{rest}")));
    }
    Some(entries.join(","))
}

/// The default port of a SOCKS proxy is 1080. The matcher would use 80.
fn with_socks_port(address: String) -> String {
    match address.parse::<Uri>() {
        Ok(uri) if uri.port().is_some() => address,
        _ => format!("{}:1080", address.trim_end_matches('/')),
    }
}

fn is_loopback(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "http://proxy.example:3128/";

    /// The proxy for a server, with an environment and the value that kube has found.
    fn chosen(server: &str, configured: Option<&str>, environment: &[(&str, &str)]) -> String {
        let mut config = kube::Config::new(server.parse().expect("a URL"));
        config.proxy_url = configured.map(|address| address.parse().expect("a URL"));
        let variable = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match choose_by(&config, variable) {
            Ok(None) => "none".to_owned(),
            Ok(Some(proxy)) => proxy.uri().to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn proxy_of_the_environment_counts_unless_the_server_is_excepted() {
        let server = "https://api.example:6443";
        for (environment, expected) in [
            (vec![], "none"),
            (vec![("HTTPS_PROXY", PROXY)], PROXY),
            (vec![("https_proxy", "proxy.example:3128")], PROXY),
            (vec![("HTTP_PROXY", PROXY)], "none"),
            (vec![("HTTPS_PROXY", PROXY), ("NO_PROXY", "other.example")], PROXY),
            (vec![("HTTPS_PROXY", PROXY), ("NO_PROXY", "proxy.example")], PROXY),
            (vec![("HTTPS_PROXY", PROXY), ("NO_PROXY", ".example, 10.0.0.0/8")], "none"),
            (vec![("HTTPS_PROXY", PROXY), ("NO_PROXY", "*.example")], "none"),
            (vec![("HTTPS_PROXY", PROXY), ("NO_PROXY", "api.example:6443")], "none"),
            (vec![("HTTPS_PROXY", PROXY), ("NO_PROXY", "api.example:443")], PROXY),
            (vec![("HTTPS_PROXY", PROXY), ("no_proxy", "*")], "none"),
            (vec![("HTTPS_PROXY", "")], "none"),
            (vec![("HTTPS_PROXY", ""), ("https_proxy", PROXY), ("NO_PROXY", "*")], "none"),
        ] {
            assert_eq!(chosen(server, None, &environment), expected, "{environment:?}");
            // kube has found the same variable.
            let found = environment.iter().any(|(_, value)| *value == PROXY).then_some(PROXY);
            let found = found.filter(|_| environment[0].0 == "HTTPS_PROXY");
            assert_eq!(chosen(server, found, &environment), expected, "{environment:?}");
        }
        let service = [("HTTPS_PROXY", PROXY), ("NO_PROXY", "10.96.0.0/12")];
        assert_eq!(chosen("https://10.96.0.1", None, &service), "none");
        for list in ["*", "10.96.0.1:443", "10.96.0.1", "fd00::1,10.96.0.1"] {
            let except = [("HTTPS_PROXY", PROXY), ("NO_PROXY", list)];
            assert_eq!(chosen("https://10.96.0.1", None, &except), "none", "{list}");
        }
        let except = [("HTTPS_PROXY", PROXY), ("NO_PROXY", "[fd00::1]:6443")];
        assert_eq!(chosen("https://[fd00::1]:6443", None, &except), "none");
        assert_eq!(chosen("http://api.example", None, &[("HTTP_PROXY", PROXY)]), PROXY);
        for local in ["https://127.0.0.1:6443", "https://[::1]:6443", "http://localhost:8080"] {
            let both = [("HTTPS_PROXY", PROXY), ("HTTP_PROXY", PROXY)];
            assert_eq!(chosen(local, None, &both), "none");
        }
    }

    #[test]
    fn proxy_of_a_kubeconfig_counts_whatever_the_environment_says() {
        let environment = [("HTTPS_PROXY", "http://other:1"), ("NO_PROXY", "*")];
        for server in ["https://api.example:6443", "https://127.0.0.1:6443"] {
            assert_eq!(chosen(server, Some(PROXY), &environment), PROXY);
        }
        let socks = chosen("https://api.example", Some("socks5://user:word@proxy:1080"), &[]);
        assert_eq!(socks, "socks5://proxy:1080/");
        let socks = chosen("https://api.example", Some("socks5://proxy"), &[]);
        assert_eq!(socks, "socks5://proxy:1080/");
    }

    #[test]
    fn proxy_that_cannot_be_used_is_an_error_without_its_password() {
        for address in ["ftp://user:hunter2@proxy:21", "socks4://user:hunter2@proxy:1080"] {
            let error = chosen("https://api.example", Some(address), &[]);
            assert!(error.contains("none of http, https and socks5"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
