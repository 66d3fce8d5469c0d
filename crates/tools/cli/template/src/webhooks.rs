//! The webhooks: what the API server asks the operator before it stores or shows an object.
//! Every replica answers, not only the leader.

use windlass::webhook::Webhooks;

/// All of them.
pub fn webhooks() -> Webhooks {
    Webhooks::new()
    // More webhooks come here: see `cargo windlass add webhook`.
}
