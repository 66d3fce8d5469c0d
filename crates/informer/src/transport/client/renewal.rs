//! Renews credentials before they expire, and after the server has refused them.
//!
//! If they have changed, a new [`Transport`] replaces the last one, and new requests use it. A
//! watch under way keeps its connection: the server checks credentials only when a request begins.
//! So nothing is lost, and nothing is restarted.
//!
//! The request that finds that a renewal is due starts it on a blocking thread, which goes on if
//! the request is dropped. Requests do not wait for it while the old credentials are valid. If it
//! fails, the old ones are used until they expire. After that, requests fail.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, StatusCode};
use kube::client::Body;
use tokio::time::Instant;
use tower::{ServiceExt as _, service_fn};

use super::body::SendResult;
use super::credentials::{self, Fetched, Secrets};
use super::error::ConnectError;
use super::transport::{Transport, transport};
use crate::lock::lock;

/// The time between two attempts to fetch credentials that did not help: it doubles from the first
/// to the second value. So a plugin that fails, or a server that refuses everything, does not make
/// the plugin run for each request.
const ATTEMPT_INTERVAL: Duration = Duration::from_secs(1);
const ATTEMPT_INTERVAL_MAX: Duration = Duration::from_mins(1);

/// Sends requests with credentials that are valid.
struct Renewing {
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
    /// Counts renewals, so that a refusal of old credentials is not taken for one of the new.
    generation: u64,
    attempted: Instant,
    /// When to fetch credentials again.
    due: Option<Instant>,
    expires: Option<Instant>,
    /// Whether the server has refused these credentials.
    is_refused: bool,
    /// How many attempts in a row brought nothing new.
    attempts_without_change: u32,
    /// Why the last attempt failed, if it did.
    error: Option<ConnectError>,
}

/// Makes a transport whose credentials are renewed. Fetches them for the first time, which may run
/// a program, and blocks for as long as that takes.
pub(super) fn renewing(config: kube::Config) -> Result<Transport, ConnectError> {
    let fetched = credentials::fetch(&config)?;
    let current = Mutex::new(Current::new(transport(&fetched.config)?, &fetched, 0));
    let renewing = Arc::new(Renewing { config, current, fetching: Arc::default() });
    Ok(Transport::new(service_fn(move |request| Arc::clone(&renewing).send(request))))
}

impl Renewing {
    async fn send(self: Arc<Self>, request: Request<Body>) -> SendResult {
        self.start_renewal_if_due();
        if !lock(&self.current).is_usable() {
            // A renewal is under way, or was just tried: wait for it, then use what there is.
            drop(self.fetching.lock().await);
        }
        let (transport, generation) = lock(&self.current).transport()?;
        let response = transport.oneshot(request).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            lock(&self.current).refuse(generation);
        }
        Ok(response)
    }

    fn start_renewal_if_due(self: &Arc<Self>) {
        if lock(&self.current).is_due()
            && let Ok(turn) = Arc::clone(&self.fetching).try_lock_owned()
        {
            let renewing = Arc::clone(self);
            #[expect(
                clippy::disallowed_methods,
                reason = "it ends by itself, and may outlive the request"
            )]
            tokio::task::spawn_blocking(move || {
                renewing.renew();
                drop(turn);
            });
        }
    }

    /// Fetches credentials. Blocks.
    fn renew(&self) {
        // Another renewal may have ended in the meantime.
        if !lock(&self.current).is_due() {
            return;
        }
        match self.fetch() {
            Ok((transport, fetched)) => lock(&self.current).renew(transport, &fetched),
            Err(error) => lock(&self.current).fail(error),
        }
    }

    /// Fetches credentials, and makes a transport if they have changed. That reads files, so the
    /// state is not locked.
    fn fetch(&self) -> Result<(Option<Transport>, Fetched), ConnectError> {
        let fetched = credentials::fetch(&self.config)?;
        let has_changed = lock(&self.current).secrets != fetched.secrets;
        let transport = has_changed.then(|| transport(&fetched.config)).transpose()?;
        Ok((transport, fetched))
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
            attempts_without_change: 0,
            error: None,
        }
    }

    fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    /// Whether a request may use these credentials without waiting for new ones.
    fn is_usable(&self) -> bool {
        !self.is_refused && !self.is_expired()
    }

    fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= Instant::now())
    }

    /// The transport for a new request, with its generation.
    fn transport(&self) -> Result<(Transport, u64), ConnectError> {
        match &self.error {
            Some(error) if self.is_expired() => Err(error.clone()),
            _ => Ok((self.transport.clone(), self.generation)),
        }
    }

    /// Takes over what was fetched. Without a new transport the credentials are the same as before.
    fn renew(&mut self, transport: Option<Transport>, fetched: &Fetched) {
        let is_unchanged = self.is_refused && transport.is_none();
        let attempts_without_change =
            if is_unchanged { self.attempts_without_change.saturating_add(1) } else { 0 };
        if transport.is_some() {
            tracing::debug!("credentials were renewed");
        }
        let transport = transport.unwrap_or_else(|| self.transport.clone());
        *self =
            Self { attempts_without_change, ..Self::new(transport, fetched, self.generation + 1) };
    }

    /// Credentials could not be fetched. The old ones are used as long as they are valid.
    fn fail(&mut self, error: ConnectError) {
        if self.error.as_ref() != Some(&error) {
            tracing::warn!(%error, "credentials cannot be renewed");
        }
        self.attempted = Instant::now();
        self.attempts_without_change = self.attempts_without_change.saturating_add(1);
        self.due = Some(self.next_attempt());
        self.is_refused = false;
        self.error = Some(error);
    }

    /// The server does not accept the credentials of a generation: they were replaced or revoked.
    fn refuse(&mut self, generation: u64) {
        if generation == self.generation {
            let next = self.next_attempt();
            self.due = Some(self.due.map_or(next, |due| due.min(next)));
            self.is_refused = true;
        }
    }

    fn next_attempt(&self) -> Instant {
        let factor = 1 << self.attempts_without_change.saturating_sub(1).min(6);
        self.attempted + (ATTEMPT_INTERVAL * factor).min(ATTEMPT_INTERVAL_MAX)
    }
}
