//! The dependencies of every call of a webhook.

use super::backend::Webhooks;
use crate::ids::Ids;

/// The registry of webhooks, and the source of uids.
pub(crate) struct Caller<'a> {
    pub(crate) webhooks: &'a Webhooks,
    /// The source of the uids of reviews.
    pub(crate) ids: &'a mut Ids,
}
