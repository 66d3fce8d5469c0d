//! Certificates that an operator makes itself, and keeps right: nobody has to install anything.
//!
//! A Secret that all replicas share contains a certificate authority. Each replica signs a leaf of
//! its own with it, whose key never leaves the process. The certificate authority is replaced
//! early: a new one is first published in each `caBundle`, and only then signs leaves; the old one
//! stays in each `caBundle` until it has expired. So no handshake fails, whichever replica is
//! called, and however late it is. All replicas decide by the API server's clock, so one whose own
//! is wrong does no harm.
//!
//! There is one lifetime, and one kind of rotation: authority and leaves are valid equally long. An
//! authority for ten years would be rotated by code that runs for the first time after ten years.
//!
//! All replicas do the same, without leadership and before any cache is needed: an upgrade that
//! adds a version of a custom resource must not wait for a leader that waits for its caches, which
//! wait for the conversion to that version.
//!
//! Reading order: `schedule` and `plan` (pure), `authority`, `secret`, `target`, `keeper`,
//! `served`.

mod api;
mod authority;
mod clock;
mod error;
mod keeper;
mod plan;
mod schedule;
mod secret;
mod served;
mod target;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::sync::CancellationToken;

pub use self::error::CertificatesError;
pub use self::secret::SECRET_TYPE;
pub use self::served::{CertificateState, Served};

use self::api::Requests;
use self::clock::Clock;
use self::keeper::Keeper;
use self::schedule::{LIFETIME, Schedule};
use self::target::Target;

/// Makes the certificates of a webhook server, and keeps `caBundle` right where the API server is
/// told to call it.
///
/// ```no_run
/// # async fn start(
/// #     client: kube::Client, stop: tokio_util::sync::CancellationToken,
/// # ) -> Result<(), windlass_webhook::certificates::CertificatesError> {
/// use windlass_webhook::certificates::{Certificates, service_names};
///
/// let names = service_names("website-operator", "websites");
/// let mut certificates = Certificates::new(client, "websites", "webhook-certificates", names)?
///     .validating("website-operator")
///     .definition("websites.example.com");
/// // Before caches start.
/// certificates.ensure().await?;
/// let config = certificates.served().server_config();
/// // … serve with `config` …
/// certificates.run(&stop).await;
/// # Ok(())
/// # }
/// ```
///
/// The service account needs `get`, `create` and `update` for the Secret, and `get` and `patch` for
/// the configurations and definitions. If a chart creates the Secret, empty and of the type
/// [`SECRET_TYPE`], `create` is not needed.
///
/// Somebody who deletes the Secret gets new keys, without a gap. The old certificate authority
/// stays in the bundles until it has expired. To remove it at once, stop all replicas, delete the
/// Secret, and remove each `caBundle`.
pub struct Certificates {
    keeper: Keeper,
    client: kube::Client,
}

/// The names by which the API server calls a Service.
pub fn service_names(service: &str, namespace: &str) -> [String; 2] {
    let name = format!("{service}.{namespace}.svc");
    let full = format!("{name}.cluster.local");
    [name, full]
}

impl Certificates {
    /// Certificates for a server that is called by these DNS names or IP addresses. The Secret is
    /// created if it does not exist. All replicas have to use the same one.
    ///
    /// # Errors
    /// Returns an error if there is no name, or an invalid one.
    pub fn new(
        client: kube::Client,
        namespace: impl Into<String>,
        secret: impl Into<String>,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, CertificatesError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        if names.is_empty() {
            return Err(CertificatesError::NoNames);
        }
        if let Some(name) = names.iter().find(|name| ServerName::try_from(name.as_str()).is_err()) {
            return Err(CertificatesError::InvalidName { name: name.clone() });
        }
        let schedule = Schedule::new(LIFETIME);
        let clock = Clock { own: Arc::new(Timestamp::now), server: Arc::new(|| None) };
        let keeper = Keeper {
            requests: Requests::new(client.clone(), schedule.request_timeout()),
            secret: secret::address(namespace.into(), secret.into()),
            names,
            targets: Vec::new(),
            schedule,
            served: Served::new(clock.clone()),
            clock,
            held: None,
            published: None,
        };
        Ok(Self { keeper, client })
    }

    /// Keeps each `caBundle` of this `MutatingWebhookConfiguration` right. It need not exist yet.
    #[must_use]
    pub fn mutating(mut self, name: impl Into<String>) -> Self {
        self.keeper.targets.push(Target::mutating(name.into()));
        self
    }

    /// Keeps each `caBundle` of this `ValidatingWebhookConfiguration` right. It need not exist yet.
    #[must_use]
    pub fn validating(mut self, name: impl Into<String>) -> Self {
        self.keeper.targets.push(Target::validating(name.into()));
        self
    }

    /// Keeps the `caBundle` of this `CustomResourceDefinition` right, if versions are converted by
    /// a webhook. It need not exist yet.
    #[must_use]
    pub fn definition(mut self, name: impl Into<String>) -> Self {
        self.keeper.targets.push(Target::definition(name.into()));
        self
    }

    /// How long certificates are valid. They are replaced after half of the time. Default: 365
    /// days; at least 10 s, at most 100 years.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        let schedule = Schedule::new(lifetime);
        self.keeper.schedule = schedule;
        self.keeper.requests = Requests::new(self.client.clone(), schedule.request_timeout());
        self
    }

    /// This machine's clock. Default: the system's. Call it before [`served`](Self::served).
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.keeper.clock.own = Arc::new(clock);
        self.keeper.served = Served::new(self.keeper.clock.clone());
        self
    }

    /// The API server's clock, such as `ServerClock` of `windlass-informer` follows it; `None` as
    /// long as it is not known. Certificates are made, renewed and judged by it, so that a replica
    /// whose own clock is wrong does no harm, and a certificate leaves a `caBundle` only when it
    /// has expired by both clocks. Call it before [`served`](Self::served).
    ///
    /// Default: not known. Then this machine's clock decides, and of what the replicas have made
    /// nothing leaves a `caBundle`, except for the oldest of more than eight certificates.
    #[must_use]
    pub fn server_clock(
        mut self,
        clock: impl Fn() -> Option<Timestamp> + Send + Sync + 'static,
    ) -> Self {
        self.keeper.clock.server = Arc::new(clock);
        self.keeper.served = Served::new(self.keeper.clock.clone());
        self
    }

    /// What a server presents. It follows all changes.
    pub fn served(&self) -> Served {
        self.keeper.served.clone()
    }

    /// Reads or creates the Secret, sets each `caBundle`, and serves a certificate. Call it before
    /// caches start. Objects that do not exist yet are no error: [`run`](Self::run) finds them.
    ///
    /// A certificate is served also if only a `caBundle` could not be set.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped: the next call continues.
    ///
    /// # Errors
    /// Returns an error if the Secret is somebody else's, a right is missing, or a request fails.
    /// Nothing but conflicts with other writers is retried.
    pub async fn ensure(&mut self) -> Result<(), CertificatesError> {
        self.keeper.check().await
    }

    /// Keeps everything right until the token is cancelled. Everything is checked each 10 s, or
    /// more often if the lifetime is below 10 minutes. Each error is logged once, and retried.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn run(mut self, stop: &CancellationToken) {
        let mut logged = None;
        let mut ticks = interval(self.keeper.schedule.look());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let checks = async {
            loop {
                ticks.tick().await;
                let failure = self.keeper.check().await.err().map(|error| error.to_string());
                if let Some(failure) = failure.as_ref().filter(|_| failure != logged) {
                    tracing::error!("the certificates are not as they should be: {failure}");
                }
                logged = failure;
            }
        };
        stop.run_until_cancelled(checks).await;
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Keeper { secret, names, served, .. } = &self.keeper;
        f.debug_struct("Certificates")
            .field("secret", &secret.to_string())
            .field("names", names)
            .field("served", served)
            .finish_non_exhaustive()
    }
}
