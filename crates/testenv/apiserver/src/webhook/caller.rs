//! What every call of a webhook needs, whatever it is about.

use super::backend::Webhooks;
use crate::ids::Ids;

/// What is needed to call a webhook.
pub(crate) struct Caller<'a> {
    pub(crate) webhooks: &'a Webhooks,
    /// Where the uids of reviews come from.
    pub(crate) ids: &'a mut Ids,
}
