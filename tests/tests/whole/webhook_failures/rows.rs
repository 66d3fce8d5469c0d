//! The rows of the page: what is broken, and what to do about it.

/// The server of a webhook, and its failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A server of `windlass-webhook`, at this path. It applies the failure policy itself.
    Own(&'static str),
    /// A server with a valid certificate; its answer depends on the path.
    Answers(&'static str),
    /// A certificate that has expired.
    Expired,
    /// A certificate of an unknown authority.
    Stranger,
    /// A certificate of an authority with the right name and a different key.
    Replaced,
    /// A certificate that has the address only in its common name.
    Nameless,
    /// A certificate for another address.
    Misnamed,
    /// No TLS.
    Plain,
    /// No server listens.
    Gone,
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// The namespace of an object, or the first part of the group of a kind.
    pub(crate) id: &'static str,
    pub(crate) broken: Broken,
    pub(crate) what: &'static str,
    pub(crate) advice: &'static str,
}

impl Row {
    const fn new(
        id: &'static str,
        broken: Broken,
        what: &'static str,
        advice: &'static str,
    ) -> Self {
        Self { id, broken, what, advice }
    }

    /// Whether the webhook applies its failure policy itself.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.broken, Broken::Own(_))
    }
}

/// Admission webhooks, called by `kubectl apply`. Those with a path that ends in `ignore` have the
/// failure policy `Ignore`, all others `Fail`.
pub(crate) const ADMISSION: &[Row] = &[
    Row::new(
        "panics",
        Broken::Own("/panic/fail"),
        "The handler of a Windlass webhook panics.",
        "The log of the operator has the panic, with file and line, and the uid of the request. The metric is \
         `controller_runtime_webhook_panics_total`.",
    ),
    Row::new(
        "panics-ignored",
        Broken::Own("/panic/ignore"),
        "The same, with the failure policy `Ignore`.",
        "The same. The object was stored without being checked.",
    ),
    Row::new(
        "hangs",
        Broken::Own("/hang/fail"),
        "The handler of a Windlass webhook takes too long. It is stopped a little before the API server gives up, here after 9 s.",
        "Find out what the handler waits for: it was stopped at that `.await`. If it needs the time, raise \
         `Hook::timeout`, up to 30 s.",
    ),
    Row::new(
        "hangs-ignored",
        Broken::Own("/hang/ignore"),
        "The same, with the failure policy `Ignore`.",
        "The same. Every write waits this long until it is fixed.",
    ),
    Row::new(
        "silent",
        Broken::Answers("/never"),
        "The server accepts the connection, and does not answer in time.",
        "The process is stuck or has no CPU: look at its limits and its logs. If the message has `dial tcp` and \
         `i/o timeout`, a network policy or a firewall drops the packets of the API server.",
    ),
    Row::new(
        "garbage",
        Broken::Answers("/garbage"),
        "The answer is not an `AdmissionReview`.",
        "Something else answers at this address. Compare the port and the path with those that the operator serves.",
    ),
    Row::new(
        "error",
        Broken::Answers("/error"),
        "The answer is an HTTP error.",
        "The message is in the log of the webhook. A 404 is a wrong path: `Webhooks::paths` lists the right ones.",
    ),
    Row::new(
        "expired",
        Broken::Expired,
        "The certificate has expired.",
        "Renew it. With certificates that Windlass makes, look for errors of `Certificates` in the log: it renews \
         them early. With `--webhook-cert-path`, look at cert-manager's `Certificate`.",
    ),
    Row::new(
        "stranger",
        Broken::Stranger,
        "The `caBundle` of the configuration belongs to another certificate authority, or is empty.",
        "Set `caBundle` to the authority that signed the certificate. With cert-manager, the configuration lacks the \
         annotation `cert-manager.io/inject-ca-from`.",
    ),
    Row::new(
        "replaced",
        Broken::Replaced,
        "The authority was replaced by a new one with the same name, and `caBundle` still has the old one.",
        "Put the new authority into `caBundle` before it signs anything: `Certificates` does. Something that writes the whole \
         configuration again, such as GitOps, must leave `caBundle` out.",
    ),
    Row::new(
        "nameless",
        Broken::Nameless,
        "The certificate has its name only in the common name.",
        "Give it a subject alternative name: `openssl req -addext subjectAltName=DNS:NAME.NAMESPACE.svc`.",
    ),
    Row::new(
        "misnamed",
        Broken::Misnamed,
        "The certificate is for another name or address.",
        "It must be valid for the host of the URL, or for `NAME.NAMESPACE.svc` if the configuration names a Service.",
    ),
    Row::new(
        "plain",
        Broken::Plain,
        "The server does not use TLS.",
        "Webhooks are only called over TLS. Is this the port of the metrics or of the probes?",
    ),
    // Last: the test waits until this webhook is called, which means that the others are called,
    // too.
    Row::new(
        "gone",
        Broken::Gone,
        "Nobody listens at the address.",
        "Is the operator running, and is the port right? If it was uninstalled, delete its configurations, and restart it if it comes back: \
         `kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration NAME`.",
    ),
];

/// Conversion webhooks, called by `kubectl get`. They have no failure policy.
pub(crate) const CONVERSION: &[Row] = &[
    Row::new(
        "panics",
        Broken::Own("/convert"),
        "A converter of a Windlass webhook panics.",
        "The log of the operator has the panic. The message names the object: it can still be read, and fixed, in \
         the version in which it is stored.",
    ),
    Row::new(
        "silent",
        Broken::Answers("/never"),
        "The server does not answer within 30 s.",
        "As in the first table. The timeout of a conversion cannot be set.",
    ),
    Row::new(
        "garbage",
        Broken::Answers("/garbage"),
        "The answer is not a `ConversionReview`.",
        "As in the first table. Windlass and controller-runtime convert at `/convert`.",
    ),
    Row::new(
        "error",
        Broken::Answers("/error"),
        "The answer is an HTTP error.",
        "As in the first table.",
    ),
    Row::new("expired", Broken::Expired, "The certificate has expired.", "As in the first table."),
    Row::new(
        "stranger",
        Broken::Stranger,
        "The `caBundle` of the definition belongs to another certificate authority.",
        "As in the first table; it is in `spec.conversion.webhook.clientConfig` of the CustomResourceDefinition.",
    ),
    Row::new(
        "gone",
        Broken::Gone,
        "Nobody listens at the address.",
        "Start the operator. Until then objects can be read in the version in which they are stored, and in no other.",
    ),
];
