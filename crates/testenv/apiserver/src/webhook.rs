//! Webhooks: admission of writes, and conversion of custom resources between versions.
//!
//! A request is handled under the lock of the state, and a webhook is somebody else who may take
//! seconds, or ask this server something before it answers. So a write that needs a webhook is
//! *replayed*: at the point where it needs the answer to a question ([`replay`]), the attempt ends
//! and nothing has been stored; the question is asked without the lock; and the write starts again,
//! with the answer at hand. If the object has changed meanwhile, the question is another one, and
//! is asked again, as the real server repeats an update whose object has changed.
//!
//! Reading order: [`hook`] is a webhook as its configuration describes it, [`attributes`] what it
//! is asked about, `matching` which webhooks are asked, [`review`] the question and the answer on
//! the wire, [`client`], `trust` and [`backend`] how it is reached, [`conversion`] how a definition
//! has its objects converted and [`convert`] the doing, [`dispatch`] the order in which webhooks
//! are called, and [`replay`] the seam to writes; [`caller`] is what every call needs.
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

/// The group of the configurations. They are not admitted by webhooks themselves.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
