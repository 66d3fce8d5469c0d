//! Webhooks of Kubernetes operators: admission and conversion, and their certificates.
//!
//! An operator implements [`Validate`], [`Defaulter`] or [`Mutate`] for the types that it admits,
//! and [`Convert`] for the versions of its own. [`Webhooks`] puts them together, serves them as an
//! axum [`Router`](axum::Router), and derives the objects that tell the API server about them.
//!
//! ```
//! # use kube::CustomResource;
//! # use schemars::JsonSchema;
//! # use serde::{Deserialize, Serialize};
//! use windlass_webhook::{
//!     Admission, ClientTarget, Defaulter, FieldError, FieldPath, Operation, Validate, Verdict,
//!     Webhooks,
//! };
//!
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
//! struct WebsiteSpec {
//!     host: String,
//!     replicas: Option<u32>,
//! }
//!
//! struct Websites;
//!
//! impl Validate<Website> for Websites {
//!     async fn validate(&self, operation: Operation<'_, Website>, _: &Admission) -> Verdict {
//!         let Some(new) = operation.new_object() else { return Verdict::allow() };
//!         let mut errors = Vec::new();
//!         if new.spec.host.is_empty() {
//!             let path = FieldPath::new("spec").child("host");
//!             errors.push(FieldError::required(&path, "a website needs a host"));
//!         }
//!         Verdict::from(errors)
//!     }
//! }
//!
//! impl Defaulter<Website> for Websites {
//!     fn default(&self, object: &mut Website, _: &Admission) {
//!         object.spec.replicas.get_or_insert(1);
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let webhooks = Webhooks::new().validate::<Website>(Websites).default::<Website>(Websites);
//! assert_eq!(
//!     webhooks.paths(),
//!     ["/validate-example-com-v1-website", "/mutate-example-com-v1-website"]
//! );
//! let router = webhooks.router()?;
//! let target = ClientTarget::Service {
//!     namespace: "websites".to_owned(),
//!     name: "website-operator".to_owned(),
//!     port: None,
//! };
//! let configurations = webhooks.configurations("website-operator", &target)?;
//! let validating = configurations.validating.ok_or("there is a validating webhook")?;
//! assert_eq!(validating.webhooks[0].name, "validate-v1.websites.example.com");
//! # drop(router);
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - **Always an answer.** Every request gets an HTTP answer before the API server gives up on it.
//!   A handler that panics or takes too long is answered for by its [`FailurePolicy`]. The answer
//!   to a review has its uid, even if nothing else of it could be understood.
//! - **Nothing unknown is lost.** A [`Defaulter`] changes what it changes, and nothing else: fields
//!   that its type does not know survive at any depth. A [`Conversion`] does the same, if it
//!   [keeps unknown fields](Conversion::keep_unknown_fields).
//! - **Any depth.** An object may be nested as deeply as the API server takes it, which is 10,000
//!   levels. Handlers and converters of a deep object run on a thread with a large stack. They must
//!   not give it to another task or thread, where even to drop it can end the process. What is
//!   deeper is refused whatever the failure policy says.
//! - **Bounded.** Bodies, times and warnings have the bounds of the API server. The memory of all
//!   requests under way has a bound: it is estimated before their bodies are decoded, and counted
//!   as the types of handlers are. Log lines that clients cause come [once a minute](LogLimit).
//!   Connections are bounded by whoever serves the router.
//! - **Discreet.** No log line, span, error or `Debug` output of this crate shows what an object
//!   contains. A [`FieldError`] shows the value that it is about, to the person who sent it.
//!
//! # Cancel safety
//!
//! A handler runs inside of its request. If the API server closes the connection, or the time is
//! up, the handler's future is dropped where it waits. What it has done until then stays done.
//!
//! # The modules
//!
//! [`review`] has the messages as they are sent, [`certificates`] makes the certificates of the
//! server and keeps `caBundle` right. Everything else is at the root.

#![forbid(unsafe_code)]

mod admission;
mod bounded;
pub mod certificates;
mod configuration;
mod convert;
mod cut;
mod decode;
mod error;
mod field;
mod handler;
mod hook;
mod metrics;
mod overlay;
pub mod review;
mod serve;
mod timeout;
mod verdict;
mod warnings;
mod webhooks;

pub use admission::{Admission, Defaulter, Mutate, Operation, Validate};
pub use configuration::{
    ClientConfig, ClientTarget, Configurations, FailurePolicy, MatchCondition, MatchPolicy,
    ReinvocationPolicy, Rule, Scope, ServiceReference, SideEffects, WebhookConfiguration,
    WebhookEntry,
};
pub use convert::{Conversion, Convert, ConvertError, RoundTripError};
pub use error::Error;
pub use field::{FieldError, FieldErrorKind, FieldPath};
pub use hook::Hook;
pub use metrics::WebhookMetrics;
pub use review::Verb;
pub use verdict::Verdict;
pub use webhooks::Webhooks;
pub use windlass_serve::{Line, LogLimit};
