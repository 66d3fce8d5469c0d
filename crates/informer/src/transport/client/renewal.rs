//! Fetches credentials again before they expire, and after the server has refused them.
//!
//! If they have changed, a new [`Transport`] takes the place of the last one, and new requests go there. A watch that is
//! under way keeps its connection: the server asks for credentials only when a request begins. So nothing is
//! lost, and nothing is restarted.
//!
//! The request that finds that it is time starts the renewal on a blocking thread, which goes on if the request
//! is dropped. Requests do not wait for it while the old credentials are valid. If it fails, the old ones are
//! used for as long as they last; after that, requests fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt as _};

use super::credentials::{self, CredentialsError, Fetched, Secrets};
use super::transport::{Transport, transport};
use super::{ConnectError, ResponseBody};

/// The time between two attempts to fetch credentials that did not help: it doubles from the first to the
/// second. So neither a plugin that fails nor a server that refuses everything has it run for each request.
const ATTEMPT_INTERVAL: Duration = Duration::from_secs(1);
const ATTEMPT_INTERVAL_MAX: Duration = Duration::from_mins(1);

/// Sends requests with credentials that are valid.
#[derive(Clone)]
pub(super) struct Renewing {
    shared: Arc<Shared>,
}

struct Shared {
    config: kube::Config,
    /// Held for a moment, never while something is awaited or fetched.
    current: Mutex<Current>,
    /// Held while credentials are fetched, so that only one renewal is under way. Guards no data.
    fetching: Arc<tokio::sync::Mutex<()>>,
}

/// What requests use now.
struct Current {
    transport: Transport,
    secrets: Secrets,
    /// Counts transports, so that a refusal of an old one is not taken for one of the new.
    generation: u64,
    attempted: Instant,
    /// When to fetch credentials again.
    due: Option<Instant>,
    expires: Option<Instant>,
    /// Whether the server has refused these credentials.
    is_refused: bool,
    /// How many attempts in a row brought nothing new.
    vain_attempts: u32,
    /// Why the last attempt failed, if it did.
    error: Option<CredentialsError>,
}

type Valid = Result<(Transport, u64), CredentialsError>;

impl Renewing {
    /// Fetches credentials for the first time. This may run a program, and blocks for as long as that takes.
    pub(super) fn new(config: kube::Config) -> Result<Self, ConnectError> {
        let fetched = credentials::fetch(&config)?;
        let current = Current::new(transport(&fetched.config)?, &fetched, 0);
        let shared = Shared { config, current: Mutex::new(current), fetching: Arc::default() };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl Service<Request<Body>> for Renewing {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let (transport, generation) = shared.valid_transport().await?;
            let response = transport.oneshot(request).await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                shared.lock().refused(generation);
            }
            Ok(response)
        })
    }
}

impl Shared {
    /// The transport for a new request, with its generation.
    async fn valid_transport(self: &Arc<Self>) -> Valid {
        if self.lock().is_due()
            && let Ok(turn) = Arc::clone(&self.fetching).try_lock_owned()
        {
            let shared = Arc::clone(self);
            #[expect(
                clippy::disallowed_methods,
                reason = "it ends by itself, and may outlive the request"
            )]
            tokio::task::spawn_blocking(move || {
                shared.renew();
                drop(turn);
            });
        }
        if !self.lock().is_usable() {
            // A renewal is under way, or was just tried: wait for it, then use what there is.
            drop(self.fetching.lock().await);
        }
        self.lock().valid()
    }

    /// Fetches credentials. Blocks.
    fn renew(&self) {
        if !self.lock().is_due() {
            return;
        }
        // Making a transport reads files, and is not done with `current` locked.
        let made = credentials::fetch(&self.config).and_then(|fetched| {
            if self.lock().secrets == fetched.secrets {
                return Ok((None, fetched));
            }
            let made = transport(&fetched.config);
            let made = made.map_err(|error| CredentialsError::new(error.to_string()))?;
            Ok((Some(made), fetched))
        });
        let mut current = self.lock();
        match made {
            Ok((transport, fetched)) => current.renewed(transport, &fetched),
            Err(error) => current.failed(error),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn new(transport: Transport, fetched: &Fetched, generation: u64) -> Self {
        let now = Instant::now();
        Self {
            transport,
            secrets: fetched.secrets.clone(),
            generation,
            attempted: now,
            due: fetched.renew_in.map(|renew_in| now + renew_in.max(ATTEMPT_INTERVAL)),
            expires: fetched.lifetime.map(|lifetime| now + lifetime),
            is_refused: false,
            vain_attempts: 0,
            error: None,
        }
    }

    fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    /// Whether a request may go on with these credentials without waiting for new ones.
    fn is_usable(&self) -> bool {
        !self.is_refused && !self.is_expired()
    }

    fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= Instant::now())
    }

    fn valid(&self) -> Valid {
        match &self.error {
            Some(error) if self.is_expired() => Err(error.clone()),
            _ => Ok((self.transport.clone(), self.generation)),
        }
    }

    /// Credentials were fetched. Without a new transport they are the same as before.
    fn renewed(&mut self, transport: Option<Transport>, fetched: &Fetched) {
        let was_refused = self.is_refused;
        if let Some(transport) = transport {
            tracing::debug!("credentials were renewed");
            *self = Self::new(transport, fetched, self.generation + 1);
            return;
        }
        let vain_attempts = if was_refused { self.vain_attempts.saturating_add(1) } else { 0 };
        let same = Self::new(self.transport.clone(), fetched, self.generation);
        *self = Self { vain_attempts, ..same };
    }

    /// Credentials could not be fetched. The old ones are used as long as they are valid.
    fn failed(&mut self, error: CredentialsError) {
        if self.error.as_ref() != Some(&error) {
            tracing::warn!(%error, "credentials cannot be renewed");
        }
        self.attempted = Instant::now();
        self.vain_attempts = self.vain_attempts.saturating_add(1);
        self.due = Some(self.next_attempt());
        (self.is_refused, self.error) = (false, Some(error));
    }

    /// The server does not accept the credentials of a transport: they were replaced or revoked.
    fn refused(&mut self, generation: u64) {
        if generation == self.generation {
            let next = self.next_attempt();
            self.due = Some(self.due.map_or(next, |due| due.min(next)));
            self.is_refused = true;
        }
    }

    fn next_attempt(&self) -> Instant {
        let factor = 1 << self.vain_attempts.saturating_sub(1).min(6);
        self.attempted + (ATTEMPT_INTERVAL * factor).min(ATTEMPT_INTERVAL_MAX)
    }
}
