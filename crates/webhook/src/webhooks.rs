//! A set of webhooks: what users write, and the router that serves it.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admission::{Defaulter, Mutate, Validate};
use crate::configuration::{self, ClientTarget, Configurations};
use crate::convert::{Conversion, Versions};
use crate::error::Error;
use crate::hook::Hook;
use crate::metrics::WebhookMetrics;
use crate::serve::admission::ServedHook;
use crate::serve::body::Bodies;
use crate::serve::conversion::ServedConversions;
use windlass_serve::LogLimit;

/// The webhooks of an operator, at one port.
///
/// The crate's documentation has an example.
#[derive(Clone, Debug, Default)]
#[must_use = "webhooks are served by their router"]
pub struct Webhooks {
    hooks: Vec<Hook>,
    conversions: Vec<Versions>,
    metrics: Option<WebhookMetrics>,
    admission_bytes_max: Option<usize>,
    conversion_bytes_max: Option<usize>,
    admission_memory_max: Option<usize>,
    conversion_memory_max: Option<usize>,
}

/// Where all conversions are served. It is controller-runtime's path.
const CONVERT_PATH: &str = "/convert";

/// The API server takes requests of 3 MiB, so that is an object. A review of an update has two of
/// them, and a bit more.
const ADMISSION_BYTES_MAX: usize = 7 * 1024 * 1024;

/// A conversion review has all objects of a list that are stored in another version. The API server
/// bounds their number only if the client does: 500 objects of 128 KiB fit, or 10,000 of 6 KiB,
/// which is a page of what the API server reads from etcd for its own cache.
const CONVERSION_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How much memory all admission reviews may take together. One of an update of 1.5 MiB, which is
/// what etcd takes, fits with both versions of the object.
const ADMISSION_MEMORY_MAX: usize = 320 * 1024 * 1024;

/// How much memory all conversions may take together: the text of the largest review, twice that of
/// its answer, and one of its objects. They have their own, so that lists in another version hold
/// up no writes.
const CONVERSION_MEMORY_MAX: usize = 256 * 1024 * 1024;

impl Webhooks {
    /// No webhooks.
    pub fn new() -> Self {
        <Self as Default>::default()
    }

    /// Adds a webhook that validates objects of a type, with the defaults of [`Hook`].
    pub fn validate<K>(self, handler: impl Validate<K>) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.hook(Hook::validating(handler))
    }

    /// Adds a webhook that fills in fields of objects of a type, with the defaults of [`Hook`].
    pub fn default<K>(self, handler: impl Defaulter<K>) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Send + Sync + 'static,
    {
        self.hook(Hook::defaulting(handler))
    }

    /// Adds a webhook that changes objects of a type, or refuses them, with the defaults of
    /// [`Hook`].
    pub fn mutate<K>(self, handler: impl Mutate<K>) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Send + Sync + 'static,
    {
        self.hook(Hook::mutating(handler))
    }

    /// Adds a webhook with settings of its own.
    pub fn hook(mut self, hook: Hook) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Adds the conversion of a kind. All kinds are converted at `/convert`.
    pub fn convert<Hub>(mut self, conversion: Conversion<Hub>) -> Self {
        self.conversions.push(conversion.versions);
        self
    }

    /// Shows the webhooks on these metrics. Default: nowhere.
    pub fn metrics(mut self, metrics: &WebhookMetrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// The most bytes of an admission review. Default: 7 MiB, as controller-runtime: the API server
    /// takes objects of 3 MiB, and a review of an update has two.
    pub fn admission_bytes_max(mut self, bytes_max: usize) -> Self {
        self.admission_bytes_max = Some(bytes_max);
        self
    }

    /// The most bytes of a conversion review. Default: 64 MiB: the API server converts all objects
    /// of a list in one review.
    pub fn conversion_bytes_max(mut self, bytes_max: usize) -> Self {
        self.conversion_bytes_max = Some(bytes_max);
        self
    }

    /// How much memory all admission reviews that are handled at once may take, as it is estimated
    /// from their texts and counted as types are decoded. Default: 320 MiB. What is beyond it is
    /// refused with the status 429, after which the API server tries again. A review that could
    /// never be handled is denied, also if failures are ignored.
    pub fn admission_memory_max(mut self, bytes: usize) -> Self {
        self.admission_memory_max = Some(bytes);
        self
    }

    /// How much memory all conversion reviews that are handled at once may take, as it is estimated
    /// from their texts and counted as types are decoded. Default: 256 MiB. Objects are decoded one
    /// after the other. What is beyond it is refused with the status 429, after which the API
    /// server tries again.
    pub fn conversion_memory_max(mut self, bytes: usize) -> Self {
        self.conversion_memory_max = Some(bytes);
        self
    }

    /// Whether there is no webhook and no conversion.
    pub fn is_empty(&self) -> bool {
        self.hooks.is_empty() && self.conversions.is_empty()
    }

    /// The paths that are served, in the order in which they were added.
    pub fn paths(&self) -> Vec<String> {
        let convert = (!self.conversions.is_empty()).then(|| CONVERT_PATH.to_owned());
        self.hooks.iter().map(Hook::path).chain(convert).collect()
    }

    /// The names of the definitions whose kinds are converted, such as `websites.example.com`.
    /// Their `spec.conversion` is [`conversion_of_crd`](Self::conversion_of_crd).
    pub fn converted_definitions(&self) -> impl Iterator<Item = String> {
        self.conversions.iter().map(|of| format!("{}.{}", of.plural, of.group))
    }

    /// A router that serves all of them. It is a tower service: tests call it without a socket.
    ///
    /// # Cancel safety
    /// Dropping the future of a request drops that of its handler.
    ///
    /// # Errors
    /// Returns an error if two webhooks have the same path, or two conversions the same kind, or a
    /// path is invalid.
    pub fn router(&self) -> Result<Router, Error> {
        self.check()?;
        let metrics = self.metrics.clone().unwrap_or_else(WebhookMetrics::unregistered);
        let bytes_max = self.admission_bytes_max.unwrap_or(ADMISSION_BYTES_MAX);
        let bodies =
            Bodies::new(bytes_max, self.admission_memory_max.unwrap_or(ADMISSION_MEMORY_MAX));
        let mut router = Router::new();
        for hook in &self.hooks {
            let path: Arc<str> = hook.path().into();
            metrics.show(&path);
            let served = Arc::new(ServedHook {
                hook: hook.clone(),
                path: Arc::clone(&path),
                bodies: bodies.clone(),
                metrics: metrics.clone(),
                log: LogLimit::new(),
            });
            let serve = move |request: Request| Arc::clone(&served).serve(request);
            router = router.route(&path, post(serve));
        }
        if !self.conversions.is_empty() {
            let path: Arc<str> = CONVERT_PATH.into();
            metrics.show(&path);
            let bytes_max = self.conversion_bytes_max.unwrap_or(CONVERSION_BYTES_MAX);
            let memory_max = self.conversion_memory_max.unwrap_or(CONVERSION_MEMORY_MAX);
            let served = Arc::new(ServedConversions {
                conversions: self.conversions.clone(),
                path,
                bodies: Bodies::new(bytes_max, memory_max),
                metrics,
                log: LogLimit::new(),
            });
            let serve = move |request: Request| Arc::clone(&served).serve(request);
            router = router.route(CONVERT_PATH, post(serve));
        }
        Ok(router)
    }

    /// The objects that tell the API server about the admission webhooks. Both have this name.
    ///
    /// # Errors
    /// Returns an error if the API server would refuse one of them, or if one is dangerous: it
    /// fails closed over everything, or over what the operator needs in its own namespace to start,
    /// or it matches webhook configurations.
    pub fn configurations(
        &self,
        name: &str,
        target: &ClientTarget,
    ) -> Result<Configurations, Error> {
        self.check()?;
        configuration::configurations(name, &self.hooks, target)
    }

    /// `spec.conversion` of the definition of a kind that is converted.
    pub fn conversion_of_crd(&self, target: &ClientTarget) -> Value {
        configuration::conversion_of_crd(target, CONVERT_PATH)
    }

    fn check(&self) -> Result<(), Error> {
        let mut paths = BTreeSet::new();
        for path in self.paths() {
            let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
            if !path.starts_with('/') || !path.bytes().all(is_valid) {
                return Err(Error::InvalidPath { path });
            }
            if !paths.insert(path.clone()) {
                return Err(Error::DuplicatePath { path });
            }
        }
        let mut kinds = BTreeSet::new();
        match self.conversions.iter().find(|of| !kinds.insert((&of.group, &of.kind))) {
            None => Ok(()),
            Some(of) => {
                let (group, kind) = (of.group.clone(), of.kind.clone());
                Err(Error::DuplicateConversion { group, kind })
            }
        }
    }
}
