//! Credentials that do not last: those of an exec plugin, and client certificates in files.
//!
//! kube reads them once, and runs a plugin three times to do so. Here they are fetched once and written into a
//! configuration that needs nothing more, from which a [`Transport`](super::transport::Transport) is made.
//! [`Renewing`](super::renewal::Renewing) repeats that in time. A token file is not ours: kube reads it again
//! every minute.
//!
//! Invariant: errors name the plugin, and show nothing of its arguments, its environment or its output.

use std::fs;
use std::io::{IsTerminal as _, Read as _};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;

/// Credentials are renewed when a quarter of their lifetime is left, or this much if that is less. It is
/// kube's margin for tokens.
const MARGIN_MAX: Duration = Duration::from_mins(1);

/// How often files are looked at: kube's interval for token files.
const FILES_INTERVAL: Duration = Duration::from_mins(1);

/// The time limit of a plugin that does not talk to a person. Those of clouds take seconds.
const PLUGIN_TIMEOUT: Duration = Duration::from_mins(1);

/// How often it is looked whether a plugin has ended.
const PLUGIN_POLL: Duration = Duration::from_millis(20);

/// A configuration with the credentials of this moment.
pub(super) struct Fetched {
    /// Its plugin is removed, and its inline data outranks certificate files.
    pub(super) config: kube::Config,
    /// How long the credentials are valid, if that is known.
    pub(super) lifetime: Option<Duration>,
    /// When to look for new ones. A plugin that tells no lifetime is asked again when the server refuses what
    /// it returned.
    pub(super) renew_in: Option<Duration>,
    /// What was fetched, to see whether it has changed.
    pub(super) secrets: Secrets,
}

/// What was fetched. It has no `Debug`, so that it cannot be logged.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Secrets {
    token: Option<String>,
    /// In PEM.
    certificate: Option<String>,
    key: Option<String>,
}

/// Why there are no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no credentials: {message}")]
pub struct CredentialsError {
    message: String,
}

/// Whether a configuration has credentials that do not last.
pub(super) fn do_not_last(config: &kube::Config) -> bool {
    plugin_of(&config.auth_info).is_some() || has_files(&config.auth_info)
}

/// Fetches credentials that [do not last](do_not_last). This may run a program, and blocks for as long as that
/// takes.
pub(super) fn fetch(config: &kube::Config) -> Result<Fetched, CredentialsError> {
    let auth = &config.auth_info;
    let (mut secrets, lifetime) = match plugin_of(auth) {
        Some(plugin) => run(plugin)?,
        None => (Secrets::default(), None),
    };
    let mut renew_in =
        lifetime.map(|lifetime| lifetime.saturating_sub((lifetime / 4).min(MARGIN_MAX)));
    if secrets.certificate.is_none() && has_files(auth) {
        secrets.certificate = read(auth.client_certificate.as_deref())?;
        secrets.key = read(auth.client_key.as_deref())?;
        renew_in = Some(renew_in.map_or(FILES_INTERVAL, |renew_in| renew_in.min(FILES_INTERVAL)));
    }
    let mut config = config.clone();
    let auth = &mut config.auth_info;
    auth.exec = None;
    if let Some(token) = &secrets.token {
        auth.token = Some(token.clone().into());
    }
    if let (Some(certificate), Some(key)) = (&secrets.certificate, &secrets.key) {
        auth.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
        // kube joins the two, and a key need not end with a newline.
        auth.client_key_data = Some(BASE64_STANDARD.encode(format!("{key}\n")).into());
    }
    Ok(Fetched { config, lifetime, renew_in, secrets })
}

/// The plugin, if it is what counts: kube takes all other credentials first.
fn plugin_of(auth: &AuthInfo) -> Option<&ExecConfig> {
    let has_others = auth.auth_provider.is_some()
        || (auth.username.is_some() && auth.password.is_some())
        || auth.token.is_some()
        || auth.token_file.is_some();
    auth.exec.as_ref().filter(|_| !has_others)
}

/// Whether the certificate is in files. Data in the configuration itself counts more than a file.
fn has_files(auth: &AuthInfo) -> bool {
    auth.client_certificate.is_some()
        && auth.client_certificate_data.is_none()
        && auth.client_key.is_some()
        && auth.client_key_data.is_none()
}

fn read(path: Option<&str>) -> Result<Option<String>, CredentialsError> {
    let read = |path| {
        fs::read_to_string(path)
            .map_err(|error| CredentialsError::new(format!("{path} cannot be read: {error}")))
    };
    path.map(read).transpose()
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

/// Runs a plugin, as the documentation of Kubernetes on client-go credential plugins has it.
fn run(plugin: &ExecConfig) -> Result<(Secrets, Option<Duration>), CredentialsError> {
    let Some(program) = &plugin.command else {
        return Err(CredentialsError::new("the exec plugin has no command".to_owned()));
    };
    let failed =
        |what: String| CredentialsError::new(format!("the exec plugin {program:?} {what}"));
    let is_interactive = is_interactive(plugin);
    let mut command = command(program, plugin, is_interactive)?;
    let child = command.stdout(Stdio::piped()).spawn().map_err(|error| {
        let hint = plugin.install_hint.as_deref().unwrap_or_default().trim();
        failed(format!("cannot be run: {error}{}{hint}", if hint.is_empty() { "" } else { "; " }))
    })?;
    let output = output_of(child, (!is_interactive).then_some(PLUGIN_TIMEOUT))
        .map_err(|error| failed(format!("cannot be run: {error}")))?
        .ok_or_else(|| failed(format!("did not end within {} s", PLUGIN_TIMEOUT.as_secs())))?;
    if !output.status.success() {
        let status = output.status;
        return Err(failed(format!("ended with {status}; run it yourself to see what it says")));
    }
    // serde's errors quote what they read.
    let answer: ExecCredential = serde_saphyr::from_slice(&output.stdout)
        .map_err(|_| failed("wrote something other than an ExecCredential".to_owned()))?;
    if let (Some(wanted), Some(version)) = (&plugin.api_version, &answer.api_version)
        && wanted != version
    {
        return Err(failed(format!(
            "does not return {wanted:?}, which the configuration asks for"
        )));
    }
    let status = answer.status.ok_or_else(|| failed("returned no status".to_owned()))?;
    let lifetime = status.expiration_timestamp.map(|expires| {
        Duration::try_from(expires.duration_since(Timestamp::now())).unwrap_or_default()
    });
    let given = |value: Option<String>| value.filter(|value| !value.is_empty());
    let secrets = Secrets {
        token: given(status.token),
        certificate: given(status.client_certificate_data),
        key: given(status.client_key_data),
    };
    match (&secrets.token, &secrets.certificate, &secrets.key) {
        (_, Some(_), None) | (_, None, Some(_)) => {
            Err(failed("returned a certificate without its key, or a key alone".to_owned()))
        }
        (None, None, None) => Err(failed("returned neither a token nor a certificate".to_owned())),
        _ => Ok((secrets, lifetime)),
    }
}

/// Whether a plugin may talk to a person: only if there is one. What it says elsewhere would end up in a log.
fn is_interactive(plugin: &ExecConfig) -> bool {
    plugin.interactive_mode != Some(ExecInteractiveMode::Never)
        && std::io::stdin().is_terminal()
        && std::io::stderr().is_terminal()
}

/// Waits for a program and reads what it writes; `None` if it takes too long, and is killed.
fn output_of(mut child: Child, timeout: Option<Duration>) -> std::io::Result<Option<Output>> {
    let Some(timeout) = timeout else { return child.wait_with_output().map(Some) };
    let mut stdout = child.stdout.take().expect("its output must be piped");
    // Read at the same time: a program that writes much would wait for a reader otherwise.
    let (sender, output) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = sender.send(stdout.read_to_end(&mut bytes).map(|_| bytes));
    });
    let mut left = timeout;
    while child.try_wait()?.is_none() {
        if left.is_zero() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "this is a blocking thread, and a real program"
        )]
        thread::sleep(PLUGIN_POLL);
        left = left.saturating_sub(PLUGIN_POLL);
    }
    let status = child.wait()?;
    // A child of the plugin's may keep its output open.
    let Ok(stdout) = output.recv_timeout(left.max(PLUGIN_POLL)) else { return Ok(None) };
    Ok(Some(Output { status, stdout: stdout?, stderr: Vec::new() }))
}

fn command(
    program: &str,
    plugin: &ExecConfig,
    is_interactive: bool,
) -> Result<Command, CredentialsError> {
    let mut command = Command::new(program);
    command.args(plugin.args.iter().flatten());
    for variable in plugin.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    if is_interactive {
        command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
    } else {
        command.stdin(Stdio::null()).stderr(Stdio::null());
    }
    let cluster = match (plugin.provide_cluster_info, &plugin.cluster) {
        (false, _) => None,
        (true, Some(cluster)) => Some(cluster),
        (true, None) => {
            let message = "the exec plugin wants to know the cluster, which is not configured";
            return Err(CredentialsError::new(message.to_owned()));
        }
    };
    let mut spec = json!({ "interactive": is_interactive });
    if let Some(cluster) = cluster {
        spec["cluster"] = serde_json::to_value(cluster)
            .map_err(|_| CredentialsError::new("the cluster is no valid JSON".to_owned()))?;
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

impl CredentialsError {
    pub(super) fn new(message: String) -> Self {
        Self { message }
    }
}
