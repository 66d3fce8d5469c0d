//! Decides which part of a client's error may be shown. All crates use [`safe_message`] for log
//! lines, errors and the journal.
//!
//! These errors show more than is fit for a log:
//!
//! - kube's errors about credentials show the command of an exec plugin with its arguments, and
//!   what it wrote.
//! - kube's errors about proxies show the address of the proxy, with its password.
//! - `serde_json`'s errors quote the JSON that they could not read, which may be a Secret.
//! - kube's error for an answer of the server shows the whole answer, which is long.
//!
//! Each is replaced by a text of its own, also where an error around it repeats it.

use std::error::Error;
use std::fmt::{Debug, Display};

use kube::client::AuthError;
use kube::core::Status;
use serde_json::error::Category;

/// An error and its causes in one line, without secrets.
///
/// An error that repeats the text of another one without naming it as its source cannot be cleaned,
/// and is shown as it is.
pub fn safe_message(error: &(dyn Error + 'static)) -> String {
    let replaced: Vec<_> = error_chain(error).flat_map(replacements).collect();
    let mut message = String::new();
    for error in error_chain(error) {
        let mut text = error.to_string();
        for (secret, replacement) in &replaced {
            text = text.replace(secret, replacement);
        }
        // Catches other formats, such as `{:#?}` of an error around it.
        if let Some(replacement) = error_chain(error).find_map(|cause| leak_of(&text, cause)) {
            text = replacement;
        }
        // Many errors repeat their cause.
        if message.contains(&text) {
            continue;
        }
        if !message.is_empty() {
            message.push_str(": ");
        }
        message.push_str(&text);
    }
    message
}

/// An error and its causes.
pub fn error_chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// The server's answer, if the error is one.
pub fn status_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Status> {
    if let Some(error) = error.downcast_ref::<kube::Error>() {
        return match error {
            kube::Error::Api(status) => Some(status),
            _ => None,
        };
    }
    // An error that is transparent to kube's has the status itself as its cause.
    let boxed = error.downcast_ref::<Box<Status>>().map(|status| &**status);
    boxed.or_else(|| error.downcast_ref())
}

/// The texts that an error may show, with their replacements. The longer ones come first.
fn replacements(error: &(dyn Error + 'static)) -> Vec<(String, String)> {
    if let Some(error) = error.downcast_ref::<AuthError>() {
        return in_all_formats(error, &describe_credentials(error));
    }
    if let Some(error) = error.downcast_ref::<serde_json::Error>() {
        return in_all_formats(error, &describe_json(error));
    }
    if let Some(status) = status_of(error).filter(|status| !status.message.is_empty()) {
        let short = format!("{} ({})", status.message, status.code);
        let of_kube = kube::Error::Api(status.clone().boxed()).to_string();
        return vec![(of_kube, short.clone()), (status.to_string(), short)];
    }
    match error.downcast_ref() {
        Some(error @ kube::Error::ProxyProtocolUnsupported { .. }) => {
            vec![(error.to_string(), "the protocol of its proxy is unknown".to_owned())]
        }
        Some(error @ kube::Error::ProxyProtocolDisabled { protocol_feature, .. }) => {
            vec![(error.to_string(), format!("its proxy needs the feature {protocol_feature}"))]
        }
        _ => Vec::new(),
    }
}

fn in_all_formats(error: &(impl Debug + Display), replacement: &str) -> Vec<(String, String)> {
    let texts = [format!("{error:#?}"), format!("{error:?}"), error.to_string()];
    texts.map(|text| (text, replacement.to_owned())).into()
}

/// The replacement for a text that still contains something of an exec plugin.
fn leak_of(text: &str, error: &(dyn Error + 'static)) -> Option<String> {
    let error: &AuthError = error.downcast_ref()?;
    let AuthError::AuthExecRun { cmd, out } = error else { return None };
    let written = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let replacement = describe_credentials(error);
    // Shorter words are no secrets, and other texts contain them, too.
    let mut words = written.iter().flat_map(|text| text.split_whitespace());
    let is_leak =
        |word: &str| word.len() >= 6 && text.contains(word) && !replacement.contains(word);
    let has_leak = text.contains(cmd.as_str()) || words.any(is_leak);
    has_leak.then_some(replacement)
}

fn describe_credentials(error: &AuthError) -> String {
    let problem = match error {
        AuthError::AuthExecRun { out, .. } => {
            let status = out.status;
            format!("the exec plugin ended with {status}; run it yourself to see what it says")
        }
        AuthError::AuthExecParse(_) => {
            "the exec plugin wrote something other than an ExecCredential".to_owned()
        }
        // These name a file, a program or a setting, and what the system says about it.
        AuthError::AuthExecStart(_)
        | AuthError::ExecMissingClusterInfo
        | AuthError::ExecPluginFailed
        | AuthError::InvalidBasicAuth(_)
        | AuthError::InvalidBearerToken(_)
        | AuthError::MissingCommand
        | AuthError::ReadTokenFile(..)
        | AuthError::UnrefreshableTokenResponse => error.to_string(),
        _ => "they are not what was expected".to_owned(),
    };
    format!("no credentials: {problem}")
}

/// Describes where the JSON is invalid, without its content.
fn describe_json(error: &serde_json::Error) -> String {
    let problem = match error.classify() {
        Category::Io => return "JSON could not be read or written".to_owned(),
        Category::Syntax => "no valid JSON",
        Category::Data => "a value of the wrong type or form",
        Category::Eof => "JSON that ends too early",
    };
    format!("{problem} at line {} column {}", error.line(), error.column())
}
