//! Fetches credentials again before they expire, and after the server has refused them.
//!
//! Each time, a new [`Transport`] takes the place of the last one, and new requests go there. A watch that is
//! under way keeps its connection: the server asks for credentials only when a request begins. So nothing is
//! lost, and nothing is restarted. It is all done by the request that finds that it is time; there is no task.
//!
//! If credentials cannot be fetched, the old ones are used for as long as they last. After that, requests fail.

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

/// The shortest time between two attempts to fetch credentials, so that a plugin that fails, or a server that
/// refuses everything, does not have it run for each request.
const ATTEMPT_INTERVAL: Duration = Duration::from_secs(1);

/// Sends requests with credentials that are valid.
#[derive(Clone)]
pub(super) struct Renewing {
    shared: Arc<Shared>,
}

struct Shared {
    config: kube::Config,
    /// Held for a moment, never while something is awaited.
    current: Mutex<Current>,
    /// Held while credentials are fetched, so that one request does it and the others wait for it. Guards no
    /// data.
    fetching: tokio::sync::Mutex<()>,
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
    /// Why the last attempt failed, if the credentials have expired since.
    error: Option<CredentialsError>,
}

type Valid = Result<(Transport, u64), CredentialsError>;

impl Renewing {
    /// Fetches credentials for the first time. This may run a program, and blocks for as long as that takes.
    pub(super) fn new(config: kube::Config) -> Result<Self, ConnectError> {
        let fetched = credentials::fetch(&config)?;
        let current = Current::new(transport(&fetched.config)?, &fetched, 0);
        let shared = Shared {
            config,
            current: Mutex::new(current),
            fetching: tokio::sync::Mutex::default(),
        };
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
    async fn valid_transport(&self) -> Valid {
        if let Some(valid) = self.lock().unless_due() {
            return valid;
        }
        let _turn = self.fetching.lock().await;
        // Another request may have done it meanwhile.
        if let Some(valid) = self.lock().unless_due() {
            return valid;
        }
        let config = self.config.clone();
        #[expect(clippy::disallowed_methods, reason = "it is awaited here, and ends by itself")]
        let fetched = tokio::task::spawn_blocking(move || credentials::fetch(&config)).await;
        let fetched = fetched.expect("fetching credentials must not panic");
        let mut current = self.lock();
        if let Err(error) = fetched.and_then(|fetched| current.renew(&fetched)) {
            current.failed(error);
        }
        current.valid()
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
            error: None,
        }
    }

    /// Nothing, if credentials have to be fetched first.
    fn unless_due(&self) -> Option<Valid> {
        let is_due = self.due.is_some_and(|due| due <= Instant::now());
        (!is_due).then(|| self.valid())
    }

    fn valid(&self) -> Valid {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok((self.transport.clone(), self.generation)),
        }
    }

    fn renew(&mut self, fetched: &Fetched) -> Result<(), CredentialsError> {
        // The same credentials can go on over the same connections.
        let is_same = self.secrets == fetched.secrets;
        let transport = if is_same {
            self.transport.clone()
        } else {
            transport(&fetched.config).map_err(|error| CredentialsError::new(error.to_string()))?
        };
        *self = Self::new(transport, fetched, self.generation + u64::from(!is_same));
        Ok(())
    }

    /// Credentials could not be fetched. The old ones are used as long as they are valid.
    fn failed(&mut self, error: CredentialsError) {
        let now = Instant::now();
        (self.attempted, self.due) = (now, Some(now + ATTEMPT_INTERVAL));
        tracing::warn!(%error, "credentials cannot be renewed");
        self.error = self.expires.is_some_and(|expires| expires <= now).then_some(error);
    }

    /// The server does not accept the credentials of a transport: they were replaced or revoked.
    fn refused(&mut self, generation: u64) {
        if generation == self.generation {
            let soon = self.attempted + ATTEMPT_INTERVAL;
            self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        }
    }
}
