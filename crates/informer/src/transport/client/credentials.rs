//! Temporary credentials: those of an exec plugin, and client certificates in files.
//!
//! kube reads them once, and runs a plugin three times to do so. Here they are fetched once and
//! written into a configuration from which a [`Transport`](super::transport::Transport) is made.
//! [`renewal`](super::renewal) repeats that in time. Token files are left to kube, which reads them
//! again every minute.
//!
//! Invariant: errors name the plugin, and show nothing of its arguments, its environment or its
//! output.

use std::fs;
use std::io::{self, IsTerminal as _, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;

use super::error::ConnectError;

/// Credentials are renewed when a quarter of their lifetime is left, or this much if that is less.
/// It is kube's margin for tokens.
const MARGIN_MAX: Duration = Duration::from_mins(1);

/// How often files are read: kube's interval for token files.
const FILES_INTERVAL: Duration = Duration::from_mins(1);

/// The time limit of a plugin that does not talk to a person. Those of clouds take seconds.
const PLUGIN_TIMEOUT: Duration = Duration::from_mins(1);

/// How often to check whether a plugin has ended.
const PLUGIN_POLL: Duration = Duration::from_millis(20);

/// A configuration with the credentials of this moment.
pub(super) struct Fetched {
    /// Has no plugin. Its certificate is inline, which outranks files.
    pub(super) config: kube::Config,
    /// How long the credentials are valid, if that is known.
    pub(super) lifetime: Option<Duration>,
    /// When to fetch new ones. A plugin that tells no lifetime runs again when the server refuses
    /// what it returned.
    pub(super) renew_in: Option<Duration>,
    /// What was fetched, to see whether it has changed.
    pub(super) secrets: Secrets,
}

/// Credentials as they were fetched. It has no `Debug`, so that it cannot be logged.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Secrets {
    token: Option<String>,
    /// A certificate and its key, in PEM.
    certificate: Option<(String, String)>,
}

/// What a plugin writes to its standard output.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    api_version: Option<String>,
    status: Option<ExecCredentialStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialStatus {
    expiration_timestamp: Option<Timestamp>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Whether the credentials of a configuration have to be renewed.
pub(super) fn are_temporary(config: &kube::Config) -> bool {
    plugin_of(&config.auth_info).is_some() || certificate_files(&config.auth_info).is_some()
}

/// Fetches [temporary](are_temporary) credentials. This may run a program, and blocks for as long
/// as that takes.
pub(super) fn fetch(config: &kube::Config) -> Result<Fetched, ConnectError> {
    let mut config = config.clone();
    let auth = &mut config.auth_info;
    let (mut secrets, lifetime) = match plugin_of(auth) {
        Some(plugin) => run(plugin)?,
        None => (Secrets::default(), None),
    };
    let mut renew_in =
        lifetime.map(|lifetime| lifetime.saturating_sub((lifetime / 4).min(MARGIN_MAX)));
    if secrets.certificate.is_none()
        && let Some((certificate, key)) = certificate_files(auth)
    {
        secrets.certificate = Some((read(certificate)?, read(key)?));
        renew_in = Some(renew_in.map_or(FILES_INTERVAL, |renew_in| renew_in.min(FILES_INTERVAL)));
    }
    auth.exec = None;
    if let Some(token) = &secrets.token {
        auth.token = Some(token.clone().into());
    }
    if let Some((certificate, key)) = &secrets.certificate {
        auth.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
        // kube joins the two, and a key need not end with a newline.
        auth.client_key_data = Some(BASE64_STANDARD.encode(format!("{key}\n")).into());
    }
    Ok(Fetched { config, lifetime, renew_in, secrets })
}

/// The plugin, if it is used: kube prefers all other credentials.
fn plugin_of(auth: &AuthInfo) -> Option<&ExecConfig> {
    let has_others = auth.auth_provider.is_some()
        || (auth.username.is_some() && auth.password.is_some())
        || auth.token.is_some()
        || auth.token_file.is_some();
    auth.exec.as_ref().filter(|_| !has_others)
}

/// The files of a certificate and its key, if they are used: inline data outranks them.
fn certificate_files(auth: &AuthInfo) -> Option<(&str, &str)> {
    if auth.client_certificate_data.is_some() || auth.client_key_data.is_some() {
        return None;
    }
    Some((auth.client_certificate.as_deref()?, auth.client_key.as_deref()?))
}

fn read(path: &str) -> Result<String, ConnectError> {
    fs::read_to_string(path)
        .map_err(|error| ConnectError::Credentials(format!("{path} cannot be read: {error}")))
}

/// Runs a plugin, as Kubernetes documents it for client-go credential plugins.
fn run(plugin: &ExecConfig) -> Result<(Secrets, Option<Duration>), ConnectError> {
    let Some(program) = &plugin.command else {
        return Err(ConnectError::Credentials("the exec plugin has no command".to_owned()));
    };
    let failed =
        |what: &str| ConnectError::Credentials(format!("the exec plugin {program:?} {what}"));
    let is_interactive = is_interactive(plugin);
    let child = command(program, plugin, is_interactive)?.spawn().map_err(|error| {
        let hint = plugin.install_hint.as_deref().unwrap_or_default().trim();
        failed(&format!("cannot be run: {error}{}{hint}", if hint.is_empty() { "" } else { "; " }))
    })?;
    let (status, output) = wait_for_output(child, is_interactive)
        .map_err(|error| failed(&format!("failed: {error}")))?;
    if !status.success() {
        return Err(failed(&format!("ended with {status}; run it yourself to see what it says")));
    }
    // serde's errors quote what they read.
    let answer: ExecCredential = serde_saphyr::from_slice(&output)
        .map_err(|_| failed("wrote something other than an ExecCredential"))?;
    if let (Some(wanted), Some(version)) = (&plugin.api_version, &answer.api_version)
        && wanted != version
    {
        return Err(failed(&format!(
            "does not return {wanted:?}, which the configuration asks for"
        )));
    }
    let status = answer.status.ok_or_else(|| failed("returned no status"))?;
    let lifetime = status.expiration_timestamp.map(|expires| {
        Duration::try_from(expires.duration_since(Timestamp::now())).unwrap_or_default()
    });
    let given = |value: Option<String>| value.filter(|value| !value.is_empty());
    let token = given(status.token);
    let certificate = match (given(status.client_certificate_data), given(status.client_key_data)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err(failed("returned a certificate without its key, or a key alone")),
    };
    if token.is_none() && certificate.is_none() {
        return Err(failed("returned neither a token nor a certificate"));
    }
    Ok((Secrets { token, certificate }, lifetime))
}

/// Whether a plugin may talk to a person: only if there is one. What it says elsewhere would end up
/// in a log.
fn is_interactive(plugin: &ExecConfig) -> bool {
    plugin.interactive_mode != Some(ExecInteractiveMode::Never)
        && io::stdin().is_terminal()
        && io::stderr().is_terminal()
}

/// Waits for a program and reads what it writes. One that takes too long is killed, unless it talks
/// to a person.
fn wait_for_output(mut child: Child, is_interactive: bool) -> io::Result<(ExitStatus, Vec<u8>)> {
    let mut stdout = child.stdout.take().expect("its output must be piped");
    // Read at the same time: a program that writes much would wait for a reader otherwise.
    let reader = thread::spawn(move || {
        let mut output = Vec::new();
        stdout.read_to_end(&mut output).map(|_| output)
    });
    let mut left = PLUGIN_TIMEOUT;
    // A child of the program may keep the output open after the program has ended.
    while child.try_wait()?.is_none() || !reader.is_finished() {
        if left.is_zero() && !is_interactive {
            child.kill()?;
            child.wait()?;
            let limit = PLUGIN_TIMEOUT.as_secs();
            return Err(io::Error::other(format!("it did not end within {limit} seconds")));
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "this is a blocking thread, and a real program"
        )]
        thread::sleep(PLUGIN_POLL);
        left = left.saturating_sub(PLUGIN_POLL);
    }
    let output = reader.join().expect("reading must not panic")?;
    Ok((child.wait()?, output))
}

fn command(
    program: &str,
    plugin: &ExecConfig,
    is_interactive: bool,
) -> Result<Command, ConnectError> {
    let mut command = Command::new(program);
    command.args(plugin.args.iter().flatten()).stdout(Stdio::piped());
    for variable in plugin.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    if !is_interactive {
        command.stdin(Stdio::null()).stderr(Stdio::null());
    }
    let mut spec = json!({ "interactive": is_interactive });
    if plugin.provide_cluster_info {
        let Some(cluster) = &plugin.cluster else {
            let message = "the exec plugin wants to know the cluster, which is not configured";
            return Err(ConnectError::Credentials(message.to_owned()));
        };
        spec["cluster"] = json!(cluster);
    }
    let info = json!({
        "apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec,
    });
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    for name in plugin.drop_env.iter().flatten() {
        command.env_remove(name);
    }
    Ok(command)
}
