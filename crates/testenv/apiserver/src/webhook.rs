//! Webhooks: admission of writes, and conversion of custom resources between versions.
//!
//! A request is handled under the lock of the state, but a webhook may take seconds, or send a
//! request to this server before it answers. So a write that needs a webhook is *replayed*: when it
//! needs the answer to a question ([`replay`]), the attempt ends and nothing has been stored; the
//! webhook is called without the lock; and the write starts again with the answer. If the object
//! has changed meanwhile, the question differs and the webhook is called again, as the real server
//! repeats an update whose object has changed.
//!
//! Reading order: [`hook`] is a webhook as its configuration describes it, [`attributes`] describes
//! a write, `matching` selects the webhooks for a write, [`review`] has the wire format of
//! questions and answers, [`client`], `trust` and [`backend`] call a webhook, [`conversion`] reads
//! the conversion settings of a definition and [`convert`] applies them, [`dispatch`] calls
//! webhooks in their order, [`replay`] connects writes with webhooks, and [`caller`] is what every
//! call needs.
//!
//! Invariant: nothing here holds the lock of the state while it waits.

pub(crate) mod attributes;
pub(crate) mod backend;
pub(crate) mod caller;
pub(crate) mod client;
pub(crate) mod conversion;
pub(crate) mod convert;
pub(crate) mod dispatch;
pub(crate) mod hook;
pub(crate) mod matching;
mod patch;
pub(crate) mod replay;
mod review;
mod trust;

/// The group of the webhook configurations. Webhooks are not called for the configurations
/// themselves.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
